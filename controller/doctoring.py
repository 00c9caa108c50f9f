"""What is wrong with a running system, from what it shows of itself. Pure.

Each finding says what was seen and, unless it is fine, what to do. The bounds below are where a
person should look, not where anything acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

Level = Literal["OK", "WARN", "FAIL"]
LEVELS: Final[tuple[Level, ...]] = ("FAIL", "WARN", "OK")

MICROS: Final = 1_000_000
AGE_WARN_S: Final = 5.0
"""An engine reports every second, whatever its load."""
AGE_FAIL_S: Final = 30.0
WATERMARK_WARN_S: Final = 15.0
"""Windows that are this far behind make every rule late."""
LAG_WARN: Final = 10_000
"""Events: some seconds of a busy feature stage."""
KAFKA_LAG_WARN: Final = 10_000_000
"""Offsets on Kafka: up to a thousand to a record, however few events it holds."""
JOIN_WARN: Final = 0.9
JOIN_KNOWN: Final = 20
"""Events with a fate, before a share of them says anything."""
HELD_WARN_S: Final = 3600.0
"""Retention that is overdue this long is held up by somebody."""

WALL_WARN_H: Final = 24.0
"""An exhaustion is worth a look for a day; the wall that it left stays."""

ADVICE: Final[Mapping[str, str]] = {
    "undeclared_metric": "declare the metric (trimtab metrics declare), then"
    " trimtab dead-letters replay --for undeclared_metric",
    "conflict": "the producer used an id twice for different events: make its ids unique",
    "outside_attribution": "it came too late for its request: a longer attribution_s, then replay",
    "orphan_expired": "its request was never seen: does the producer send the engine's request id?",
    "quarantined": "release the producer and replay, or discard them",
    "undecodable": "show one (trimtab dead-letters show) and report it; discard it",
    "unfoldable": "show one (trimtab dead-letters show) and report it; replay after an upgrade",
    "too_old": "it came after ids of its day were forgotten: it can't be counted any more; discard",
    "sequence_forgotten": "an engine's record came so late that it may have been counted; discard",
    "deadly": "it killed the feature stage: report it before replaying it",
}


class Finding(Struct, frozen=True, kw_only=True):
    """``about``: the target, producer or part it is about. ``advice``: empty when it is fine."""

    level: Level
    about: str
    what: str
    advice: str = ""


class Seen(Struct, frozen=True, kw_only=True):
    """What was answered; None: it could not be asked.

    ``targets``: name -> its glance. ``features``: name -> windows of the last 20 minutes.
    ``rates``: name -> metric -> its rate now. ``letters``: name -> counts by reason.
    """

    now_us: int
    targets: Mapping[str, Mapping[str, Any]]
    features: Mapping[str, Sequence[Mapping[str, Any]]]
    letters: Mapping[str, Mapping[str, int]]
    rates: Mapping[str, Mapping[str, Mapping[str, Any]]]
    producers: Sequence[Mapping[str, Any]] | None = None
    bus: Mapping[str, Any] | None = None
    rules: Mapping[str, Any] | None = None


def examine(seen: Seen) -> list[Finding]:
    """Every finding, the worst first."""
    found = [
        *_bus(seen),
        *_rules(seen),
        *(finding for name in seen.targets for finding in _target(name, seen)),
        *(finding for one in seen.producers or () for finding in _producer(one, seen)),
    ]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))


def exit_code(findings: Iterable[Finding]) -> int:
    """0 all is fine, 1 somebody should look, 2 something fails."""
    levels = {finding.level for finding in findings}
    return 2 if "FAIL" in levels else int("WARN" in levels)


def _rules(seen: Seen) -> Iterator[Finding]:
    """The file that declares rules, if it is not what is in force."""
    told = seen.rules or {}
    if told.get("problem"):
        yield Finding(
            level="FAIL",
            about="rules",
            what=f"the file is refused, the old rules stay: {told['problem']}",
            advice="trimtab rules check FILE; saved again, it is followed",
        )
    if told.get("restart"):
        few = ", ".join(told["restart"][:3])
        what = f"{len(told['restart'])} settings of the file wait for a restart: {few}"
        yield Finding(level="WARN", about="rules", what=what, advice="restart serve")


def _target(name: str, seen: Seen) -> Iterator[Finding]:
    glance = seen.targets[name]
    yield from _control(name, glance)
    yield from _drift(name, glance)
    yield from _wall(name, glance, seen.now_us)
    yield from _replicas(name, glance)
    yield from _engines(name, glance, seen.now_us)
    yield from _windows(name, glance, seen)
    for reason, count in seen.letters.get(name, {}).items():
        advice = ADVICE.get(reason, "show one: trimtab dead-letters show")
        yield Finding(
            level="WARN", about=name, what=f"{count} dead letters: {reason}", advice=advice
        )


def _control(name: str, glance: Mapping[str, Any]) -> Iterator[Finding]:
    control = glance["control"]
    if control["hold"] or control["killed"]:
        what = "killed" if control["killed"] else "held"
        told = f"{what} by {control['actor']}: {control['reason']}"
        yield Finding(level="WARN", about=name, what=told, advice=f"trimtab release {name}")


def _drift(name: str, glance: Mapping[str, Any]) -> Iterator[Finding]:
    alarm = glance["drift"]["alarm"]
    if alarm is not None:
        told = f"drift: {alarm['words']}; no trial starts"
        advice = f"was it deployed or scaled? then: trimtab changes declare {name} deploy --reason"
        yield Finding(level="WARN", about=name, what=told, advice=f"{advice} …")


def _wall(name: str, glance: Mapping[str, Any], now_us: int) -> Iterator[Finding]:
    wall = glance["wall"]
    if wall is None:
        return
    age_h = (now_us - wall["exhausted_us"]) / MICROS / 3600
    told = (
        f"memory was exhausted {age_h:.1f} h ago at {wall['wall_bytes'] / 2**20:.0f} MiB of KV;"
        f" {wall['highest']} sequences of {wall['context_tokens']:.0f} tokens are allowed at once"
    )
    level: Level = "WARN" if age_h < WALL_WARN_H else "OK"
    advice = "" if level == "OK" else "give it more KV memory, or a lower baseline of active_cap"
    yield Finding(level=level, about=name, what=told, advice=advice)


def _replicas(name: str, glance: Mapping[str, Any]) -> Iterator[Finding]:
    for replica in glance["replicas"]:
        if not replica["reachable"]:
            told = f"{replica['name']} at {replica['url']} does not answer: {replica['problem']}"
            advice = "is it running? its settings stay as they are meanwhile"
            yield Finding(level="FAIL", about=name, what=told, advice=advice)
        elif replica["differs"]:
            told = (
                f"{replica['name']} differs from what is wished in {', '.join(replica['differs'])}"
            )
            yield Finding(level="WARN", about=name, what=told, advice=f"trimtab status {name}")
    knobs = [
        f"{knob['knob']} {knob['observed']['value']}"
        for knob in glance["knobs"]
        if knob["observed"] is not None
    ]
    if knobs:
        yield Finding(level="OK", about=name, what=f"live knobs: {', '.join(knobs)}")


def _engines(name: str, glance: Mapping[str, Any], now_us: int) -> Iterator[Finding]:
    if not glance["engines"]:
        advice = "its engine has posted nothing yet: is ingest's address and key right there?"
        yield Finding(level="WARN", about=name, what="no engine has ever reported", advice=advice)
    for engine in glance["engines"]:
        age_s = (now_us - engine["last_us"]) / MICROS
        level: Level = "OK" if age_s <= AGE_WARN_S else "WARN" if age_s <= AGE_FAIL_S else "FAIL"
        told = f"{engine['replica']}: last record {age_s:.1f} s ago"
        advice = "" if level == "OK" else "is the engine up, and does ingest take its posts?"
        yield Finding(level=level, about=name, what=told, advice=advice)
        if engine["gaps"] or engine["dropped"]:
            told = (
                f"{engine['replica']}: {engine['gaps']} records missing,"
                f" {engine['dropped']} dropped by its full ring"
            )
            advice = "windows there are incomplete and give no verdict; is ingest slow or away?"
            yield Finding(level="WARN", about=name, what=told, advice=advice)


def _windows(name: str, glance: Mapping[str, Any], seen: Seen) -> Iterator[Finding]:
    watermark_us = glance["watermark_us"]
    if watermark_us:
        lag_s = (seen.now_us - watermark_us) / MICROS
        late = lag_s > WATERMARK_WARN_S
        advice = "an engine is silent, or the feature stage is behind" if late else ""
        told = f"features are {lag_s:.1f} s behind now"
        yield Finding(level="WARN" if late else "OK", about=name, what=told, advice=advice)
    windows = seen.features.get(name, ())
    holed = sum(1 for window in windows if window["incomplete"])
    if holed:
        told = f"{holed} of {len(windows)} windows of 1 min are incomplete"
        yield Finding(level="WARN", about=name, what=told, advice="see the missing records above")


def _bus(seen: Seen) -> Iterator[Finding]:
    bus = seen.bus
    for part in () if bus is None else bus["partitions"]:
        about = f"bus {part['partition']}"
        lag, kafka = part["lag"].get("features"), bus is not None and bus["kind"] == "kafka"
        behind = lag is None or lag > (KAFKA_LAG_WARN if kafka else LAG_WARN)
        told = "nobody knows how far the feature stage is"
        if lag is not None:
            told = f"the feature stage has {lag} {'offsets' if kafka else 'events'} before it"
        yield Finding(
            level="WARN" if behind else "OK",
            about=about,
            what=told,
            advice="is the feature stage running? see its log" if behind else "",
        )
        yield from _retention(about, part, bus, seen.now_us)


def _retention(
    about: str, part: Mapping[str, Any], bus: Mapping[str, Any] | None, now_us: int
) -> Iterator[Finding]:
    if bus is None or part["bytes"] is None:
        return
    size, soft, hard = part["bytes"], bus["max_bytes"], bus["hard_bytes"]
    oldest_us = part["oldest_us"]
    age_s = 0.0 if oldest_us is None else (now_us - oldest_us) / MICROS
    told = f"{size / 1e6:.1f} MB, oldest event {age_s / 3600:.1f} h old"
    if size > 0.9 * hard:
        advice = "posts will be answered 503: bring the feature stage forward, or raise hard_bytes"
        yield Finding(level="FAIL", about=about, what=told, advice=advice)
    elif size > soft or age_s > bus["retention_s"] + HELD_WARN_S:
        advice = "a consumer holds old events back: is the feature stage behind?"
        yield Finding(level="WARN", about=about, what=told, advice=advice)
    else:
        yield Finding(level="OK", about=about, what=told)


def _producer(one: Mapping[str, Any], seen: Seen) -> Iterator[Finding]:
    name = one["producer"]
    aside = one["quarantine"]
    if aside is not None:
        told = f"set aside by {aside['actor']}: {aside['reason']}"
        yield Finding(
            level="WARN", about=name, what=told, advice=f"trimtab producers release {name}"
        )
    if "events" not in one:
        return
    yield from _clock(name, one["clock"])
    yield from _joins(name, one)
    if one["dropped"]:
        told = f"{one['dropped']} of its dead letters were dropped: there were too many"
        advice = "raise features.dead_letters or features.letter_bytes; act on letters sooner"
        yield Finding(level="WARN", about=name, what=told, advice=advice)
    yield from _shares(name, one["influence"], seen)


def _shares(name: str, cap: float | None, seen: Seen) -> Iterator[Finding]:
    """How much of each rate is its doing, and how much of the values it gave."""
    for target, rates in seen.rates.items():
        for metric, rate in rates.items():
            mine = rate["by_producer"].get(name)
            if mine is None:
                continue
            given = mine["requests"] / rate["with_value"]
            capped = cap is not None and cap < min(given, 1.0)
            told = f"{100 * given:.0f} % of the values of {target}'s {metric}"
            told += f", {100 * mine['share']:.0f} % of its rate"
            told += f" (capped at {100 * cap:.0f} %)" if capped and cap is not None else ""
            advice = "what it posts beyond its cap counts for less; is it one caller for many?"
            yield Finding(
                level="WARN" if capped else "OK",
                about=name,
                what=told,
                advice=advice if capped else "",
            )


def _clock(name: str, clock: Mapping[str, Any]) -> Iterator[Finding]:
    if "ahead" in clock["flags"]:
        told = f"its clock is {clock['most_ahead_ms'] / 1000:.1f} s ahead of ours"
        yield Finding(level="WARN", about=name, what=told, advice="set its clock (NTP)")
    if "behind" in clock["flags"]:
        told = f"nothing of it arrives sooner than {clock['least_delay_ms'] / 1000:.0f} s"
        advice = "its clock is behind, or what it posts waits somewhere"
        yield Finding(level="WARN", about=name, what=told, advice=advice)


def _joins(name: str, one: Mapping[str, Any]) -> Iterator[Finding]:
    feedback = one["events"] - one["kinds"].get("basic", {}).get("events", 0)
    if not feedback:
        return
    known, rate = one["joined"] + one["expired"], one["join_rate"]
    poor = rate is not None and known >= JOIN_KNOWN and rate < JOIN_WARN
    share = "none joined yet" if rate is None else f"{100 * rate:.1f} % joined"
    dead = ", ".join(f"{count} {reason}" for reason, count in one["dead_by_reason"].items())
    told = f"{feedback} events, {share}, {one['waiting']} waiting for their request"
    advice = "does it send the engine's request id, or an external id the engine was given?"
    yield Finding(
        level="WARN" if poor else "OK",
        about=name,
        what=told + (f"; dead: {dead}" if dead else ""),
        advice=advice if poor else "",
    )
