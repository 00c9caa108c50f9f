"""The story, chapter by chapter. Each one acts over HTTP as somebody, and tells real figures."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

from examples.journey.approving import approve_law, bad_change, no_data, pending_law
from examples.journey.checking import check, gather
from examples.journey.explaining import explain
from examples.journey.memory import Growth
from examples.journey.observing import observe
from examples.journey.options import Options
from examples.journey.sample import BASELINE_CAP, KNOB, LADDER
from examples.journey.screen import Screen
from examples.journey.stage import Stage

GO_ON_S = 5.0


def tell(options: Options) -> int:
    """The whole journey; the exit code."""
    screen, code = Screen(), 0
    summary: dict[str, Any] = {}
    with Stage(options, screen) as stage:
        _begin(stage)
        told = _with_traffic(stage) if options.traffic else _without_traffic(stage)
        screen.say(f"told in {screen.elapsed_s:.0f} s from ready")
        summary["told_s"] = round(screen.elapsed_s, 1)
        if options.exit:
            code = _check(stage, told, summary)
        else:
            _go_on(stage)
        stage.memory.stop()
        _tell_memory(stage, summary)
    if code == 0:
        stage.forget()
    if options.json:
        print(json.dumps(summary))
    return code


def _begin(stage: Stage) -> None:
    screen, options, pace = stage.screen, stage.options, stage.pace
    screen.chapter("SAMPLE configuration, real engine")
    config = stage.write_configuration()
    screen.say(f"wrote {config} (SAMPLE), starting `trimtab up`; the first start takes a while")
    began_s = time.monotonic()
    stage.up(config)
    screen.restart()
    screen.say(f"ready after {time.monotonic() - began_s:.0f} s; logs in {stage.programs.logs}")
    for name, url in stage.urls.items():
        screen.say(f"  {name:<8} {url}")
    screen.say(
        f"α = {options.alpha:g} (SAMPLE; 0.01 unless set), baseline {KNOB} = {BASELINE_CAP}, "
        f"ladder {', '.join(map(str, LADDER))}, seed {options.seed}"
    )
    stage.invite("vera", "auditor")
    stage.begin_watching()
    if options.traffic:
        stage.begin_traffic()
        screen.say(
            f"SAMPLE traffic: {pace.flood} jobs outstanding (≤ 16 tokens), chats in phases of "
            f"{pace.on_s:g} s on and {pace.off_s:g} s off, users who copy or ask again"
        )


def _with_traffic(stage: Stage) -> dict[str, Any]:
    began_s = time.time()
    told: dict[str, Any] = {"observed": observe(stage)}
    ada, bob = stage.invite("ada", "operator"), stage.invite("bob", "operator")
    if stage.options.law_only:
        told["law"] = pending_law(stage, ada)
        return told
    told["law"] = approve_law(stage, ada, bob, began_s=began_s)
    if stage.options.bad_change:
        told["bad"] = bad_change(stage, ada, bob)
    explain(stage, told.get("bad", told["law"]))
    return told


def _without_traffic(stage: Stage) -> dict[str, Any]:
    ada, bob = stage.invite("ada", "operator"), stage.invite("bob", "operator")
    told = {"unnoticed": no_data(stage, ada, bob)}
    explain(stage, told["unnoticed"])
    return told


def _check(stage: Stage, told: dict[str, Any], summary: dict[str, Any]) -> int:
    """Derive everything again; 0 when it holds."""
    screen = stage.screen
    screen.chapter("Derived again, from the audit export and the engine's change log")
    evidence = gather(stage)
    found, wrong = check(stage, evidence, told)
    rows = sum(len(of) for of in evidence.requests.values())
    screen.say(
        f"{len(evidence.entries)} audit entries, {len(evidence.changes)} engine changes, "
        f"{rows} request rows: {found.units} units, {found.figures} figures of d and E computed"
    )
    causes = Counter(change["cause"] for change in evidence.changes)
    screen.say("engine changes: " + ", ".join(f"{n} {cause}" for cause, n in causes.items()))
    for policy, verdict in found.verdicts.items():
        screen.say(f"  {policy}: {verdict}")
    summary |= {
        "units": found.units,
        "figures": found.figures,
        "verdicts": found.verdicts,
        "differs": wrong,
    }
    if not wrong:
        screen.say("everything agrees")
        return 0
    screen.say("NOT AS TOLD:\n" + "\n".join(f"  {words}" for words in wrong))
    return 1


def _go_on(stage: Stage) -> None:
    """Serve until Ctrl-C."""
    stage.screen.chapter("Serving on; Ctrl-C ends it")
    for name, url in stage.urls.items():
        stage.screen.say(f"  {name:<8} {url}")
    stage.screen.say(f"  admin key in {stage.state_dir / 'keys' / 'admin.key'}")
    try:
        while True:
            stage.programs.check()
            time.sleep(GO_ON_S)
    except KeyboardInterrupt:
        stage.screen.say("stopping")


def _tell_memory(stage: Stage, summary: dict[str, Any]) -> None:
    growths = stage.memory.growth()
    stage.screen.chapter("Memory of each process")
    stage.screen.table(
        ["", "at rest MiB", "at the end MiB", "slope MiB/min", "over min"],
        [_cells(one) for one in growths],
    )
    summary["memory"] = {
        one.name: {
            "rest_mib": round(one.rest_mib, 1),
            "slope_mib_per_min": round(one.slope_mib_per_min, 2),
        }
        for one in growths
    }


def _cells(one: Growth) -> list[str]:
    return [
        one.name,
        f"{one.rest_mib:.0f}",
        f"{one.last_mib:.0f}",
        f"{one.slope_mib_per_min:+.2f}",
        f"{one.minutes:.1f}",
    ]
