"""``make campaign ARGS="--only honest"``: a thousand honest histories; none may raise an alarm."""

from __future__ import annotations

from benchmarks.tampering.campaign import run

if __name__ == "__main__":
    run("honest")
