"""How fast the loop is: a signal until a window shows it, a trip until the engine shows its end.

::

    trial's candidate block runs ─► 1 error ─► window      signal → feature
                                 ─► 18 errors, counted
                                 ─► the 20th error          first byte of its POST
                                      ingest ► features ► loop ► PATCH
                                 ◄─ GET shows the baseline  guard → applied

Real processes, started by ``trimtab up``; the engine idles. Errors are the engine's own records for
the running block, posted by a producer under a replica name of their own. Each iteration is a
policy: proposed by one person, approved by another, tried, tripped, taken back.

Last line: JSON with ``signal_to_feature_p99_ms`` and ``guard_to_applied_p99_ms``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec
import numpy as np

from benchmarks.loop_records import Errors
from examples.journey.programs import Programs, TooLateError
from examples.journey.rest import Caller
from examples.journey.sample import Ports, free_ports
from policies.runtime_config import CONTROL_PATH, RuntimeConfig
from signals.errors import Unavailable
from signals.events import MICROS
from signals.features.reader import SqliteFeatures

TARGET = "bench"
KNOB = "active_cap"
BASELINE = 8
CANDIDATES = (16, 32)
MIN_ERRORS = 20
READY_S = 300.0
STEP_S = 20.0
POLL_S = 0.002
"""Between two looks of ours; it is part of what is measured."""

CONFIGURATION = """\
state_dir: {state_dir}
targets:
  {target}:
    maximize: live.tokens_per_s
    baseline: {{{knob}: {baseline}}}
    intents:
      live: {{class: interactive}}
    knobs:
      {knob}: {{ladder: [8, 16, 32]}}
trial: {{block_s: {block_s}, washout_s: 0.5, min_errors: {errors}, max_units: 1000, seed: {seed}}}
engine: {{port: {chat}, control_port: {control}}}
ingest: {{port: {signals}}}
serve: {{port: {api}}}
"""


@dataclass(kw_only=True)
class Measured:
    """Latencies in ms. ``again``: iterations whose block ended before the trip was ready."""

    signal_to_feature: list[float] = field(default_factory=list)
    guard_to_applied: list[float] = field(default_factory=list)
    again: int = 0


class Bench:
    """One running system and the people and producers who act on it."""

    def __init__(self, programs: Programs, folder: Path, ports: Ports, seed: int) -> None:
        self._programs = programs
        self._folder = folder
        self._ports = ports
        self._rng = Random(seed)
        self._features = SqliteFeatures(folder / "features.db")
        self._errors = Errors(TARGET, self._rng)
        self._admin = self._caller("admin", self._secret("admin"))
        self._proposer = self._invite("ada", role="operator")
        self._approver = self._invite("bob", role="operator")
        producer = self._invite("bench_engine", role="producer", kinds=["basic"], names=["*"])
        bearer = {"Authorization": f"Bearer {producer.key}"}
        self._signals = httpx.Client(base_url=ports.url(ports.signals), headers=bearer)
        control = {"Authorization": f"Bearer {self._secret('control')}"}
        self._engine = httpx.Client(base_url=ports.url(ports.control), headers=control)

    def close(self) -> None:
        """Let go of files and connections."""
        for client in (self._admin, self._proposer, self._approver, self._signals, self._engine):
            client.close()
        self._features.close()

    def measure(self, n: int) -> Measured:
        """``n`` trips."""
        measured = Measured()
        while len(measured.guard_to_applied) < n:
            value = CANDIDATES[len(measured.guard_to_applied) % len(CANDIDATES)]
            self._one(measured, value)
            done = len(measured.guard_to_applied)
            if done and done % 20 == 0:
                print(f"{done} of {n} trips, last {measured.guard_to_applied[-1]:.0f} ms")
        return measured

    def _one(self, measured: Measured, value: int) -> None:
        policy = self._on_trial(value)
        seen = self._until("a candidate's block", self._candidate)
        assert seen.trial is not None
        began_s = self._post(self._errors.ended(seen, 1))
        self._counted(seen, 1)
        first_ms = 1000 * (time.perf_counter() - began_s)
        self._post(self._errors.ended(seen, MIN_ERRORS - 2))
        self._counted(seen, MIN_ERRORS - 1)
        last = self._errors.ended(seen, 1)
        if self._read().trial != seen.trial:
            measured.again += 1
            self._proposer.post(f"/v1/policies/{policy}/revert", {"reason": "the block was over"})
        else:
            began_s = self._post(last)
            self._until("the engine to show the baseline", self._reverted)
            measured.guard_to_applied.append(1000 * (time.perf_counter() - began_s))
            measured.signal_to_feature.append(first_ms)
        self._until("the policy to be over", lambda: self._over(policy), poll_s=0.02)

    def _on_trial(self, value: int) -> str:
        """A policy that was proposed and approved by two people."""
        body = {"target": TARGET, "knob": KNOB, "setting": {"value": value}, "reason": "benchmark"}
        made = self._proposer.post("/v1/policies", body)
        shown = {"shown_digest": made["shown_digest"]}
        self._approver.post(f"/v1/policies/{made['id']}/approve", shown)
        return str(made["id"])

    def _candidate(self) -> RuntimeConfig | None:
        seen = self._read()
        return seen if seen.trial is not None and seen.trial.arm == "candidate" else None

    def _reverted(self) -> bool:
        now = self._read().setting(KNOB)
        return now is not None and now.value == BASELINE and now.policy_id is None

    def _over(self, policy: str) -> bool:
        return self._proposer.get(f"/v1/policies/{policy}")["state"] in ("reverted", "failed")

    def _read(self) -> RuntimeConfig:
        answer = self._engine.get(CONTROL_PATH, params={"after": 1 << 40}).raise_for_status()
        return msgspec.json.decode(answer.content, type=RuntimeConfig)

    def _post(self, body: bytes) -> float:
        """Post signals; when the first byte left."""
        began_s = time.perf_counter()
        answer = self._signals.post(
            "/v1/signals", content=body, headers={"Content-Type": "application/x-ndjson"}
        )
        if answer.status_code != 202 or answer.json()["refused"]:
            raise Unavailable(f"ingest answered {answer.status_code}: {answer.text[:300]}")
        return began_s

    def _counted(self, seen: RuntimeConfig, errors: int) -> None:
        trial = seen.trial
        assert trial is not None
        since_us = round(seen.engine_time * MICROS) - 15 * MICROS

        def shown() -> bool:
            found = self._features.windows(TARGET, from_us=since_us, to_us=since_us + 60 * MICROS)
            mine = [w for w in found if (w.key.trial, w.key.block) == (trial.id, trial.block)]
            return sum(window.counts.errors for window in mine) >= errors

        self._until(f"{errors} errors to be counted", shown)

    def _until(self, what: str, ask: Callable[[], Any], *, poll_s: float = POLL_S) -> Any:
        deadline_s = time.monotonic() + STEP_S
        while not (found := ask()):
            if time.monotonic() > deadline_s:
                self._programs.check()
                raise TooLateError(f"waited {STEP_S:g} s for {what}; see {self._programs.logs}")
            time.sleep(poll_s)
        return found

    def _invite(self, name: str, **rights: Any) -> Caller:
        made = self._admin.post("/v1/keys", {"name": name, "targets": ["*"], **rights})
        return self._caller(name, made["key"])

    def _caller(self, name: str, key: str) -> Caller:
        return Caller(self._ports.url(self._ports.api), key, name=name)

    def _secret(self, name: str) -> str:
        return (self._folder / "keys" / f"{name}.key").read_text(encoding="utf-8").strip()


def run(n: int, seed: int, block_s: float, folder: Path) -> Measured:
    """Start everything, measure, stop everything."""
    ports = free_ports()
    config = folder / "trimtab.yaml"
    config.write_text(
        CONFIGURATION.format(
            state_dir=folder,
            target=TARGET,
            knob=KNOB,
            baseline=BASELINE,
            block_s=block_s,
            errors=MIN_ERRORS,
            seed=seed,
            chat=ports.chat,
            control=ports.control,
            signals=ports.signals,
            api=ports.api,
        ),
        encoding="utf-8",
    )
    with Programs(folder / "logs") as programs:
        programs.start("up", ["controller.cli", "--config", os.fspath(config), "up", "--json"])
        programs.wait(
            "`trimtab up` to be ready",
            lambda: '"event":"ready","urls"' in programs.log("up").read_text(encoding="utf-8"),
            timeout_s=READY_S,
        )
        bench = Bench(programs, folder, ports, seed)
        try:
            return bench.measure(n)
        finally:
            bench.close()


def tell(measured: Measured, seed: int, took_s: float) -> dict[str, float]:
    """Print the table; what the last line says."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"machine: {_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(
        f"n = {len(measured.guard_to_applied)}, seed {seed}, took {took_s:.0f} s, engine idle, "
        f"load average {load}, {measured.again} blocks ended too early"
    )
    print(f"{'':<22}{'p50':>9}{'p95':>9}{'p99':>9}{'max':>9}   ms")
    for name, values in (
        ("signal → feature", measured.signal_to_feature),
        ("guard → applied", measured.guard_to_applied),
    ):
        cells = [*np.percentile(values, [50, 95, 99]), max(values)]
        print(f"{name:<22}" + "".join(f"{cell:>9.0f}" for cell in cells))
    return {
        "signal_to_feature_p99_ms": _p99(measured.signal_to_feature),
        "guard_to_applied_p99_ms": _p99(measured.guard_to_applied),
    }


def _p99(values: Sequence[float]) -> float:
    return round(float(np.percentile(values, 99)), 1)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> int:
    """0 when everything was measured; the figures decide nothing."""
    parser = argparse.ArgumentParser(description="Latency of the loop.")
    parser.add_argument("--n", type=int, default=200, help="trips to measure")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--block-s", type=float, default=2.0, help="length of a trial's block")
    given = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        measured = run(given.n, given.seed, given.block_s, Path(folder))
    print(json.dumps(tell(measured, given.seed, time.monotonic() - began_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
