"""What a target looks like: at a glance, and setting by setting. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from controller import exporting
from controller.api import shapes, watched
from controller.api.ports import Services
from controller.baselines import baseline_in_force
from controller.desired import Desired, Wishes, wishes
from controller.exporting import Export, ExportForm
from controller.fleet import Replica
from controller.history.times import rfc3339
from controller.history.worth import worth_words
from controller.holdback.wishing import held
from controller.looking import VIEW_SPAN_S
from controller.notes import noted
from controller.rating import Rating, ScopedRates, terms
from controller.reconciler import differs, not_offered
from controller.rollback import known_segment
from controller.settings import TargetSettings
from controller.store.port import Tx
from controller.trial.budget import budget_of
from controller.trials import Trial
from policies.budgets import TrialBudget
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.lifecycle import LAYERED
from policies.policy import Mode
from policies.runtime_config import RuntimeConfig
from policies.settings import digest, place
from signals.errors import NotFound, Unavailable
from signals.events import MICROS
from signals.features.model import ATOM_S
from signals.features.view import feature_values

MAX_AGE_S = 0.5
"""A replica that was read this recently is not asked again."""
VERDICTS = 5


def declared(services: Services, target: str) -> TargetSettings:
    """What the file says of a target. Raises ``NotFound``."""
    found = services.settings.targets.get(target)
    if found is None:
        known = sorted(services.settings.targets)
        raise NotFound(f"no target {target!r}", field="target", value=target, allowed=known)
    return found


def check_known(services: Services, target: str | None, found: Collection[object]) -> None:
    """An empty list is of a target that is declared: a slip of the pen is told. What is kept of one
    that is declared no more can still be listed. Raises ``NotFound``."""
    if target is not None and not found:
        declared(services, target)


def line(services: Services, tx: Tx, target: str) -> dict[str, Any]:
    """One target in a list."""
    running = _running(tx, target)
    return {
        "name": target,
        "maximize": declared(services, target).maximize,
        "control": tx.control(target),
        "trial": shapes.trial_line(running) if running is not None else None,
    }


def glance(services: Services, target: str, *, now_us: int) -> dict[str, Any]:
    """Everything that ``trimtab status TARGET`` shows."""
    aim = declared(services, target)
    seen = _look(services, target)
    with services.store.read() as tx:
        shown = line(services, tx, target)
        wished = _wishes(services, tx, target, now_us)
        modes = tx.modes(target)
        overrides = _overrides(tx, target, now_us)
        done = [
            t
            for t in tx.trials(target=target, running=False)
            if t.ruling is not None and t.ruling.verdict is not None
        ]
        waiting = tx.policies(target=target, states=("pending",))
        spent = budget_of(services.settings.trial, noted(tx, target), now_us=now_us)
        worth = worth_words(tx, target, now_us=now_us, holdback=aim.holdback is not None)
        drift = watched.drift(tx, target)
        wall = watched.wall(tx, target, now_us=now_us, model=services.settings.plant)
    specs = seen.knobs if seen is not None else ()
    knobs = [_knob(spec, aim, wished.shared, modes, seen) for spec in specs]
    for knob in knobs:
        knob["overrides"] = [one for one in overrides if one["knob"] in (None, knob["knob"])]
    return {
        **shown,
        "on_kill": aim.on_kill,
        "knobs": knobs,
        "pending": [shapes.policy(one) for one in waiting],
        "verdicts": [shapes.trial_line(one) for one in done[:VERDICTS]],
        "attainment": _attainment(services, target, now_us),
        "budget": _budget(spent, now_us),
        "worth": worth,
        "watermark_us": services.features.watermark_us(target),
        "replicas": [_replica(one, wished) for one in services.fleet.of(target)],
        "engines": services.features.engines(target),
        "drift": drift,
        "wall": wall,
    }


def settings(services: Services, target: str, *, now_us: int) -> dict[str, Any]:
    """Baseline, desired, observed, and what differs."""
    declared(services, target)
    _look(services, target)
    with services.store.read() as tx:
        wished = _wishes(services, tx, target, now_us)
        baseline = tx.baseline(target)
    wish = wished.shared
    return {
        "kind": "now",
        "target": target,
        "baseline": shapes.baseline(baseline),
        "desired": {
            "settings": {knob: shapes.effective(one) for knob, one in wish.settings.items()},
            "candidate": {at: shapes.effective(one) for at, one in wish.candidate.items()},
            "digest": digest({knob: one.setting for knob, one in wish.settings.items()}),
            "trial": wish.trial,
            "hold": wish.hold,
            "left_alone": wish.left_alone,
        },
        "replicas": [_replica(one, wished, whole=True) for one in services.fleet.of(target)],
    }


def exported(
    services: Services, target: str, form: ExportForm, at_us: int | None, *, now_us: int
) -> Export:
    """The settings in force, or at a time, for another start. Raises ``Conflict``: unknown."""
    declared(services, target)
    seen = services.fleet.glimpse(target, max_age_s=MAX_AGE_S)
    if at_us is None and seen is None:
        raise Unavailable(f"the engine of {target} does not answer, so its knobs are unknown")
    with services.store.read() as tx:
        if at_us is None:
            wish = _wishes(services, tx, target, now_us).shared
            found = exporting.from_wish(wish.settings, () if seen is None else seen.knobs)
        else:
            found = exporting.from_past(known_segment(tx, target, at_us).settings)
    shown_us = now_us if at_us is None else at_us
    return exporting.export(target, shown_us, rfc3339(shown_us), found, form)


def rule_features(
    services: Services, target: str, *, now_us: int, rates: ScopedRates | None = None
) -> Mapping[str, float]:
    """What rules see now, computed from the same windows by the same function as the loop does.

    ``rates``: of ``rates_of``; None: without them.
    """
    since_us = now_us - (VIEW_SPAN_S + ATOM_S) * MICROS
    return feature_values(
        services.features.windows(target, from_us=since_us, to_us=now_us),
        services.features.seconds(target, from_us=since_us, to_us=now_us),
        now_us=now_us,
        span_s=VIEW_SPAN_S,
        intents=declared(services, target).intents,
        rates=rates,
    )


def rates_of(services: Services, target: str) -> ScopedRates:
    """The business rates of a target and its intents, by the same reading as the loop's."""
    rating = Rating(
        features=services.features,
        settings=services.settings.features,
        terms=lambda: terms(services.store, now_us=services.clock()),
    )
    return rating.of(target, declared(services, target).intents, with_open=True)


def _wishes(services: Services, tx: Tx, target: str, now_us: int) -> Wishes:
    aim = declared(services, target)
    return wishes(
        baseline_in_force(tx.baseline(target), aim),
        tx.policies(target=target, states=sorted(LAYERED), limit=1000),
        _running(tx, target) or held(noted(tx, target), now_us=now_us),
        tx.control(target),
        tx.overrides(target=target, state="active", limit=1000),
        on_kill=aim.on_kill,
        now_us=now_us,
    )


def _look(services: Services, target: str) -> RuntimeConfig | None:
    """Ask all replicas side by side; what the first one shows, None when it does not answer."""
    replicas = services.fleet.of(target)
    return services.fleet.look(replicas, max_age_s=MAX_AGE_S)[0]


def _overrides(tx: Tx, target: str, now_us: int) -> list[dict[str, Any]]:
    found = tx.overrides(target=target, state="active", limit=1000)
    return [shapes.override(one) for one in found if one.in_force(now_us)]


def _running(tx: Tx, target: str) -> Trial | None:
    return next(iter(tx.trials(target=target, running=True, limit=1)), None)


def _knob(
    spec: KnobSpec,
    aim: TargetSettings,
    wish: Desired,
    modes: dict[str, Mode],
    seen: RuntimeConfig | None,
) -> dict[str, Any]:
    return {
        "knob": spec.name,
        "unit": spec.unit,
        "low": spec.low,
        "capacity": spec.capacity,
        "capability": spec.capability,
        "ladder": aim.knobs.of(spec.name).values(spec),
        "mode": aim.knobs.mode(spec.name, modes.get(spec.name)),
        "managed_by": "file" if aim.knobs.managed(spec.name) else None,
        "desired": shapes.effective(wish.settings.get(spec.name)),
        "observed": seen.setting(spec.name) if seen is not None else None,
        "intents": _of_intents(spec, wish, seen),
    }


def _of_intents(spec: KnobSpec, wish: Desired, seen: RuntimeConfig | None) -> list[dict[str, Any]]:
    """Intents that have, or should have, a setting of their own; in a session split also what the
    candidate's sessions have."""
    found = []
    for scope in spec.scopes:
        at = place(spec.name, scope)
        theirs = wish.candidate.get(at)
        own = None if scope == TARGET_SCOPE else wish.settings.get(at)
        shown = None if seen is None or scope == TARGET_SCOPE else seen.setting(spec.name, scope)
        if own is not None or shown is not None or theirs is not None:
            found.append(
                {
                    "scope": scope,
                    "desired": shapes.effective(own),
                    "observed": shown,
                    "candidate": shapes.effective(theirs),
                    "candidate_observed": None if seen is None else seen.theirs(spec.name, scope),
                }
            )
    return found


def _replica(replica: Replica, wished: Wishes, *, whole: bool = False) -> dict[str, Any]:
    seen, wish = replica.shown(), wished.of(replica.name)
    shown: dict[str, Any] = {
        "name": replica.name,
        "url": replica.url,
        "reachable": seen is not None,
        "problem": replica.problem,
        "refused": replica.refused,
        "differs": differs(wish, seen) if seen is not None else None,
        "not_offered": not_offered(wish, seen) if seen is not None else None,
        "trial": wish.trial,
    }
    if seen is not None:
        shown |= {"incarnation": seen.incarnation, "version": seen.version, "hold": seen.hold}
    return shown | {"observed": seen} if whole else shown


def _budget(found: TrialBudget, now_us: int) -> dict[str, Any]:
    fdr = found.kind == "fdr"
    return {
        "kind": found.kind,
        "per_day": None if fdr else found.per_day,
        "scopes": {
            scope: {
                "begun": found.begun(scope, now_us),
                "level": found.level(scope) if fdr else None,
                "next_us": found.next_us(scope, now_us),
            }
            for scope in found.scopes
        },
    }


def _attainment(services: Services, target: str, now_us: int) -> dict[str, dict[str, float | None]]:
    now = rule_features(services, target, now_us=now_us)
    return {
        name: {
            "now": now.get(f"{name}.attainment"),
            "wanted": intent.slo.attainment,
            "arrivals_per_s": now.get(f"{name}.arrivals_per_s"),
            "tokens_per_s": now.get(f"{name}.tokens_per_s"),
            "waiting": now.get(f"{name}.waiting"),
        }
        for name, intent in declared(services, target).intents.items()
    }
