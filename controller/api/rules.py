"""``/v1/rules``: how rules stand, and what they would have done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Response
from pydantic import Field

from controller.api.access import Caller, Wired, check_target
from controller.api.answers import Answer
from controller.api.bodies import Body
from controller.api.past_views import read_backs
from controller.api.ports import Services
from controller.api.problems import documented
from controller.api.rule_standing import RulesShown, standing
from controller.history.times import OR_AGO, moment
from controller.rating import Rating, terms
from controller.rule_loading import load_rules
from controller.rule_tests import (
    NOT_EVALUATED,
    PastSettings,
    RuleTest,
    retraced,
    told,
    views_for,
)
from controller.rules.firing import Rules
from controller.rules.settings import RuleSettings
from controller.state import Declared
from signals.errors import Rejected
from signals.events import MICROS
from signals.features.model import ATOM_S
from signals.settings import Name

router = APIRouter(prefix="/v1", tags=["declarations"])

MOST_RULES: Final = 64


class RuleTestBody(Body):
    """Which rules, on which past. ``candidates``: rules not in force, tested instead."""

    target: Name
    rules: tuple[Name, ...] = Field(
        default=(), max_length=MOST_RULES, description="ids; none: every one"
    )
    candidates: tuple[RuleSettings, ...] | None = Field(
        default=None, max_length=MOST_RULES, description="as a file declares them"
    )
    from_: Annotated[str, Field(alias="from", max_length=40, description=OR_AGO)] = "1h"
    to: Annotated[str, Field(max_length=40, description=OR_AGO)] = "now"


@router.get("/rules", responses=documented(404, 422))
def listed(services: Wired, target: str | None = None) -> Response:
    """Every rule in force: what it reads, its last answer and since when, when it fired last.

    ``problem`` says why the configuration file as it is now is not in force.
    """
    names = [target] if target is not None else list(services.settings.targets)
    file = services.rules
    return Answer(
        RulesShown(
            items=[one for name in names for one in standing(services, name)],
            problem=None if file is None else file.problem,
            restart=[] if file is None else list(file.restart),
        )
    )


@router.post("/rules/test", responses=documented(404, 422))
def tested(body: RuleTestBody, services: Wired, caller: Caller) -> Response:
    """Test rules on history: when each would have fired, and what it would have proposed.

    Nothing is changed, and nothing is recorded. The stored 5 s windows go through the same view
    and the same timers as in the loop, one look at each window's end. ``recovery`` says whether
    the condition cleared by itself, so with no setting changed, within ``rule_tests.recovery_s``.
    Guardrails are not evaluated.
    """
    check_target(caller, body.target)
    declared = services.operations.target(body.target)
    rules = _rules(services, declared, body)
    from_us, to_us, cut = _span(services, body)
    rating = Rating(
        features=services.features,
        settings=services.settings.features,
        terms=lambda: terms(services.store, now_us=services.clock()),
    )
    past = retraced(
        rules,
        views_for(rules, declared, services.features, rating),
        from_us=from_us,
        to_us=to_us,
        until_us=services.clock(),
        at=services.settings.rule_tests,
    )
    seen = services.fleet.first(declared.name).read(max_age_s=60.0)
    specs = {} if seen is None else {spec.name: spec for spec in seen.knobs}
    read = read_backs(services, declared.name)
    with services.store.read() as tx:
        names = tx.segment_replicas(declared.name)
        replica = seen.replica if seen is not None else next(iter(names), "")
        then = PastSettings(tx, declared.name, replica, read)
        results = tuple(told(one, declared, then, specs) for one in past)
    return Answer(
        RuleTest(
            target=declared.name,
            from_us=from_us,
            to_us=to_us,
            resolution_s=ATOM_S,
            recovery_s=services.settings.rule_tests.recovery_s,
            cut=cut,
            guardrails=NOT_EVALUATED,
            rules=results,
        )
    )


def _rules(services: Services, declared: Declared, body: RuleTestBody) -> Rules:
    """The rules asked about. Raises ``Rejected`` for one that is unknown or does not compile."""
    found = declared.rules
    if body.candidates is not None:
        found = load_rules(declared.target, services.settings.metrics, declared=body.candidates)
    return _chosen(found, body.rules) if body.rules else found


def _chosen(found: Rules, ids: Sequence[str]) -> Rules:
    known = [rule.id for rule in found.rules]
    for rule_id in ids:
        if rule_id not in known:
            raise Rejected(
                f"there is no rule {rule_id!r}", field="rules", value=rule_id, allowed=known
            )
    chosen = tuple(rule for rule in found.rules if rule.id in ids)
    return msgspec.structs.replace(found, rules=chosen)


def _span(services: Services, body: RuleTestBody) -> tuple[int, int, str]:
    """From, to, and why it is shorter than asked. Raises ``Rejected`` for what is too long."""
    now_us, bounds = services.clock(), services.settings.rule_tests
    from_us = moment(body.from_, field="from", now_us=now_us)
    to_us = moment(body.to, field="to", now_us=now_us)
    if from_us >= to_us:
        raise Rejected("from must be before to", field="from", value=body.from_)
    if to_us - from_us > bounds.max_span_s * MICROS:
        raise Rejected(
            "that is too long a time for one test",
            field="from",
            value=body.from_,
            allowed=f"at most rule_tests.max_span_s = {bounds.max_span_s} s",
        )
    kept_s = services.settings.features.atom_retention_s
    oldest_us = now_us - kept_s * MICROS
    cut = [
        f"5 s windows are kept for {kept_s} s (features.atom_retention_s)"
        if from_us < oldest_us
        else "",
        "the future is not known" if to_us > now_us else "",
    ]
    from_us, to_us = max(from_us, oldest_us), min(to_us, now_us)
    if from_us >= to_us:
        raise Rejected(
            f"nothing is kept of that time: {next(filter(None, cut))}",
            field="to",
            value=body.to,
        )
    return from_us, to_us, "; ".join(filter(None, cut))
