"""The worth report: what the loop was worth in a week, and what it did. From the audit alone.

With a holdback the worth is measured: blocks as usual against blocks on the baseline, drawn by
chance. Without one nobody can say what would have been; then there are only the effects that trials
of the week found when they were kept, each against what stood at its time, and marked as such: the
trials that are kept are those in which chance helped too, so that their sum is rather too much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct, structs

from controller.holdback.worth import LEAST_STRATA, estimates, summed
from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery, Tx
from policies.policy import Effect
from signals.errors import NotFound, Rejected
from signals.events import MICROS

WEEK_US: Final = 7 * 86_400 * MICROS
AT_ONCE: Final = 1000
MOST: Final = 20_000
"""Entries of one kind that are read; ``cut`` says that there are more."""


class BlocksSeen(Struct, frozen=True, kw_only=True):
    """Blocks of one arm: those that count, of them lifted ones, and those that do not."""

    counted: int = 0
    lifted: int = 0
    void: int = 0


class KeptThen(Struct, frozen=True, kw_only=True):
    """A policy that was kept. ``effect``: what its own trial found."""

    policy: str
    at_us: int
    words: str
    effect: Effect | None = None


class WorthReport(Struct, frozen=True, kw_only=True):
    """One target's. ``worth``: as usual − baseline, U first; empty where it was not measured.

    ``holdback``: whether one is declared now. ``strata``: those that have a difference.
    ``verdicts``: of trials that ended, by verdict. ``trials_sum``: of the kept trials' own effects;
    no measure of the worth. ``cut``: there are more entries than were read.
    """

    target: str
    from_us: int
    to_us: int
    holdback: bool
    words: str = ""
    as_usual: BlocksSeen = BlocksSeen()
    baseline: BlocksSeen = BlocksSeen()
    strata: int = 0
    worth: tuple[Effect, ...] = ()
    kept: tuple[KeptThen, ...] = ()
    trials: int = 0
    verdicts: dict[str, int] = {}
    emergencies: int = 0
    glass_broken: int = 0
    trials_sum: Effect | None = None
    cut: bool = False


class _Reader:
    def __init__(self, tx: Tx, target: str, from_us: int, to_us: int) -> None:
        self._tx = tx
        self._query = AuditQuery(target=target, from_us=from_us, to_us=to_us, limit=AT_ONCE)
        self.cut = False

    def lines(self, action: str) -> Iterator[AuditLine]:
        """Entries of an action, or of a family with its dot; newest first."""
        query = structs.replace(self._query, action=action)
        for _ in range(MOST // AT_ONCE):
            found = self._tx.audit_lines(query)
            yield from found
            if len(found) < AT_ONCE:
                return
            query = structs.replace(query, before=found[-1].index)
        self.cut = True


def worth_report(tx: Tx, target: str, *, from_us: int, to_us: int, holdback: bool) -> WorthReport:
    """One transaction's view of what was recorded in [from, to)."""
    read = _Reader(tx, target, from_us, to_us)
    strata = list(read.lines("holdback.stratum"))
    ds = [_figures((line.details or {}).get("d")) for line in strata]
    kept = tuple(_kept(read))
    effects = [one.effect for one in kept if one.effect is not None]
    report = WorthReport(
        target=target,
        from_us=from_us,
        to_us=to_us,
        holdback=holdback,
        as_usual=_blocks(strata, "candidate"),
        baseline=_blocks(strata, "baseline"),
        strata=sum(bool(d) for d in ds),
        worth=estimates(ds),
        kept=kept,
        trials=sum(1 for _ in read.lines("trial.frozen")),
        verdicts=_verdicts(read),
        emergencies=sum(_acted(tx, line.subject) for line in read.lines("policy.in_force")),
        glass_broken=sum(line.actor.startswith("break-glass:") for line in read.lines("control.")),
        trials_sum=summed(effects),
        cut=read.cut,
    )
    return structs.replace(report, words=_words(report))


def worth_words(tx: Tx, target: str, *, now_us: int, holdback: bool) -> str:
    """One line of the last 7 days, for a glance: the worth alone."""
    begins_us = now_us - WEEK_US
    read = _Reader(tx, target, begins_us, now_us + 1)
    strata = list(read.lines("holdback.stratum")) if holdback else []
    ds = [_figures((line.details or {}).get("d")) for line in strata]
    report = WorthReport(
        target=target,
        from_us=begins_us,
        to_us=now_us + 1,
        holdback=holdback,
        baseline=_blocks(strata, "baseline"),
        strata=sum(bool(d) for d in ds),
        worth=estimates(ds),
    )
    return _words(report)


def week_of(text: str) -> tuple[int, int]:
    """[from, to) of an ISO week in UTC, in µs. Raises ``Rejected``.

    >>> begins_us, ends_us = week_of("2026-W01")
    >>> datetime.fromtimestamp(begins_us / 1e6, UTC).isoformat(), ends_us - begins_us == WEEK_US
    ('2025-12-29T00:00:00+00:00', True)
    """
    year, _, week = text.partition("-W")
    try:
        if len(year) != 4 or len(week) != 2:
            raise ValueError(text)
        begins = datetime.fromisocalendar(int(year), int(week), 1).replace(tzinfo=UTC)
    except ValueError:
        raise Rejected(
            f"{text!r} is no week", field="week", value=text, allowed="an ISO week, e.g. 2026-W49"
        ) from None
    begins_us = round(begins.timestamp()) * MICROS
    return begins_us, begins_us + WEEK_US


def _blocks(strata: list[AuditLine], arm: str) -> BlocksSeen:
    every = [one for line in strata for one in (line.details or {}).get("blocks", ())]
    mine = [one for one in every if one["arm"] == arm]
    counted = [one for one in mine if one["values"] is not None]
    lifted = sum(one["lifted"] is not None for one in counted)
    return BlocksSeen(counted=len(counted), lifted=lifted, void=len(mine) - len(counted))


def _acted(tx: Tx, policy_id: str) -> bool:
    """Whether it was an emergency's act, and no step of its release."""
    try:
        return tx.policy(policy_id).eases is None
    except NotFound:
        return True


def _kept(read: _Reader) -> Iterator[KeptThen]:
    """Oldest first. One whose verdict lies in an archive has no effect here."""
    effects = {}
    for line in read.lines("trial.verdict"):
        details = line.details or {}
        effects[details.get("policy")] = _effect(details.get("effect"))
    for line in reversed(list(read.lines("policy.kept"))):
        changes = (line.details or {}).get("changes") or {}
        yield KeptThen(
            policy=line.subject,
            at_us=line.at_us,
            words=str(changes.get("cause") or "kept"),
            effect=effects.get(line.subject),
        )


def _verdicts(read: _Reader) -> dict[str, int]:
    found = Counter(str((x.details or {}).get("verdict")) for x in read.lines("trial.verdict"))
    found["HARMED"] += sum(1 for _ in read.lines("trial.tripped"))
    return {verdict: n for verdict, n in sorted(found.items()) if n}


def _effect(said: Mapping[str, Any] | None) -> Effect | None:
    """As the audit has it: figures as text."""
    if said is None:
        return None
    figures = {name: float(said[name]) for name in ("estimate", "low", "high")}
    return Effect(metric=str(said["metric"]), source=str(said["source"]), **figures)


def _figures(said: Mapping[str, Any] | None) -> dict[str, float]:
    return {name: float(value) for name, value in (said or {}).items()}


def _words(report: WorthReport) -> str:
    """In one line what can be said of the worth."""
    if report.worth:
        first = report.worth[0]
        return (
            f"{first.metric} {first.estimate:+.4g} over the baseline (95 % {first.low:+.4g} to"
            f" {first.high:+.4g}, {report.strata} strata, {report.baseline.counted} blocks held"
            " back)"
        )
    if report.holdback or report.strata:
        return (
            f"not known yet: {report.strata} strata of the holdback, at least {LEAST_STRATA} are"
            " needed; a block begins only where something that was kept differs from the baseline"
        )
    if report.trials_sum is None:
        return "not measured: no holdback is declared"
    found = report.trials_sum
    return (
        f"not measured: no holdback is declared; trials alone found {found.metric}"
        f" {found.estimate:+.4g} (95 % {found.low:+.4g} to {found.high:+.4g}) when they were kept,"
        " which is rather too much"
    )
