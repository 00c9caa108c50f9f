"""The campaigns: nothing is lost, races have one outcome, tampering is found, the judge is right.

``--only kills|races|tamper|honest|api|judge`` runs one, with whatever else is given on the command
line as its options.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

CAMPAIGNS = {
    "kills": "benchmarks.kills",
    "races": "benchmarks.races",
    "tamper": "benchmarks.tampering.tamper",
    "honest": "benchmarks.tampering.honest",
    "api": "benchmarks.api",
    "judge": "benchmarks.judging",
}


def main() -> int:
    """0 when each ended with 0."""
    parser = argparse.ArgumentParser(prog="campaigns", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=CAMPAIGNS, help="this one; its own options follow")
    given, rest = parser.parse_known_args()
    if rest and given.only is None:
        parser.error(f"{' '.join(rest)}: say with --only whose options these are")
    codes = []
    for name in [given.only] if given.only else CAMPAIGNS:
        print(f"── campaign: {name}", flush=True)
        command = [sys.executable, "-m", CAMPAIGNS[name], *rest]
        codes.append(subprocess.run(command, check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
