"""``python -m benchmarks.stopping.bare``: many engines without a model, in one process."""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.stopping.bare_engine import bare_engines
from signals.stopping import stop_on_termination


def main() -> int:
    """Says where they listen, as JSON, and serves until it is told to end."""
    parser = argparse.ArgumentParser(description="Engines that have settings and no model.")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--target", default="chat")
    given = parser.parse_args()
    stop = stop_on_termination()
    with bare_engines(given.target, given.count, given.key, beat_s=0.05) as started:
        print(json.dumps([url for _, url in started]), flush=True)
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
