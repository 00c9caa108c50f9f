"""Starts ``benchmarks.ingest.load`` and reads its report."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import msgspec

from benchmarks.ingest.load import Report, Spec
from benchmarks.pipeline import ROOT

SLACK_S = 90.0


class LoadProcess:
    """A running load generator."""

    def __init__(self, spec: Spec) -> None:
        self._limit_s = spec.warm_s + spec.seconds + SLACK_S
        # A file, not a pipe: nobody reads while it runs, and a report may be larger than a pipe.
        self._told = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ingest.load"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=self._told,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(spec))
        self._process.stdin.close()
        self._process.stdin = None

    def running(self) -> bool:
        """Whether it has not ended yet (its report may wait to be read)."""
        return self._process.poll() is None

    def report(self) -> Report:
        """Wait for it. Raises ``RuntimeError`` when it failed or posted what is refused."""
        code = self._process.wait(self._limit_s)
        with self._told as told:
            if code != 0:
                raise RuntimeError(f"the load generator ended with {code}")
            told.seek(0)
            report = msgspec.json.decode(told.read(), type=Report)
        if report.refused:
            raise RuntimeError(f"events were refused in {report.refused} posts: the load is wrong")
        return report


def load(spec: Spec) -> Report:
    """One whole run."""
    return LoadProcess(spec).report()
