"""A fleet of 64 of which three are gone: how long until the rest is read back and these listed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from benchmarks.stopping.black_hole import black_hole, refusing
from controller.break_glass import Verb, act
from controller.control import ControlOperations, ControlReport
from controller.fleet import Fleet, Replica, monotonic_s
from controller.keys import wall_us
from controller.latch import Latch
from controller.rules.firing import Rules
from controller.settings import Settings
from controller.state import Declared
from controller.store.port import Principal
from controller.store.sql import open_store
from engine.adapters.http import HttpActuator

KEY = "bench-stop-key"
GONE = 3
"""One that refuses connections, two that take them and say nothing."""
OPERATOR = Principal(id="key_bench", name="bench", role="operator")


@contextmanager
def fleet_urls(count: int) -> Iterator[tuple[list[str], list[str]]]:
    """Addresses of so many replicas, and those among them that are gone."""
    words = [sys.executable, "-m", "benchmarks.stopping.bare"]
    words += ["--count", str(count - GONE), "--key", KEY]
    with ExitStack() as stack:
        holes = [stack.enter_context(black_hole()) for _ in range(GONE - 1)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            alive = json.loads(process.stdout.readline())
            gone = [refusing(), *holes]
            yield [gone[0], *alive, *gone[1:]], gone
        finally:
            process.terminate()
            process.wait(20)
            if process.stdout is not None:
                process.stdout.close()


def configured(folder: Path, urls: Sequence[str]) -> Settings:
    """A machine that has nothing but a configuration and the control key."""
    keys = folder / "keys"
    keys.mkdir(parents=True, exist_ok=True)
    (keys / "control.key").write_text(KEY)
    target = {
        "engine": {"control_urls": list(urls)},
        "on_kill": "baseline",
        "baseline": {"active_cap": 2},
        "maximize": "batch.tokens_per_s",
        "intents": {"batch": {"class": "batch"}},
    }
    return Settings.model_validate({"state_dir": str(folder), "targets": {"chat": target}})


def by_break_glass(settings: Settings, verbs: Sequence[Verb]) -> list[tuple[float, ControlReport]]:
    """Each act with the seconds it took from the first line of ours to the report."""
    done = []
    for verb in verbs:
        began_s = time.monotonic()
        report = act(settings, ["chat"], verb, "benchmark")[0]
        done.append((time.monotonic() - began_s, report))
    return done


def by_operations(
    settings: Settings, urls: Sequence[str], folder: Path, verbs: Sequence[Verb]
) -> list[tuple[float, ControlReport]]:
    """The same as the control plane does it, with connections that are open already."""
    target = settings.targets["chat"]
    declared = Declared(
        name="chat",
        target=target,
        rules=Rules(),
        trial=settings.trial,
        guardrails=settings.guardrails,
        serve=settings.serve,
        control=settings.control,
    )
    timeout_s, done = settings.serve.actuator_timeout_ms / 1000, []
    with closing(open_store(f"sqlite:///{folder / 'ops.db'}")) as store, ExitStack() as stack:
        replicas = []
        for url in urls:
            actuator = HttpActuator(url, KEY, timeout_s=timeout_s)
            stack.callback(actuator.close)
            replica = Replica(url, actuator, ours="bench.", epoch=1, mono=monotonic_s)
            replicas.append(replica)
        fleet = Fleet({"chat": replicas}, Latch(folder / "ops-latch.json"))
        stack.callback(fleet.close)
        operations = ControlOperations(
            store,
            fleet,
            {"chat": declared},
            clock=wall_us,
            mono=monotonic_s,
            wake=lambda: None,
        )
        acts = {
            "hold": operations.hold,
            "kill": operations.kill,
            "release": operations.release,
        }
        for verb in verbs:
            began_s = time.monotonic()
            report = acts[verb]("chat", "benchmark", by=OPERATOR)
            done.append((time.monotonic() - began_s, report))
    return done


def missed(report: ControlReport) -> list[str]:
    """Addresses that the report lists as not reached."""
    return [one.url for one in report.replicas if not one.ok]
