"""``make campaign ARGS="--only tamper"``: every attack, again and again; all must be found."""

from __future__ import annotations

from benchmarks.tampering.campaign import run

if __name__ == "__main__":
    run("tamper")
