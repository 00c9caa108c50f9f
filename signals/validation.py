"""What an event must be like to be accepted; the rest is refused with field and what is allowed.

Cheap on purpose: it is on ingest's hot path, so what holds for a whole post (which metrics are
declared, what the key covers) is found out once per post and name, and an accepted event costs
about a microsecond.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from signals.basic_events import check_basic
from signals.commands import check_command
from signals.definitions import Definition
from signals.errors import Rejected
from signals.events import MICROS, Signal
from signals.rules import (
    ID_RULE,
    MAX_ID,
    MAX_LISTED,
    REQUEST_ID_RULE,
    Rules,
    allow,
    check_id,
    in_time,
    match_id,
    target_of_request,
    time_us,
)
from signals.values import Number
from signals.wire import Posted

NEAR: Final = 3
NAMED_BY: Final = ("request_id", "external_id", "session_id")


class _Admitted(Struct, frozen=True, gc=False):
    """A (kind, metric, target) that is declared and that the key covers."""

    number: Number
    version: int


class Judge:
    """Judges the events of one post.

    >>> from datetime import UTC, datetime
    >>> from signals.definitions import StaticDefinitions
    >>> from signals.ingest.keys import Producer
    >>> from signals.settings import IngestSettings, MetricSettings
    >>> judge = Judge(Rules(
    ...     producer=Producer(name="shop", kinds=frozenset({"business"})),
    ...     definitions=StaticDefinitions({"copied": MetricSettings()}).current(),
    ...     targets={"chat"},
    ...     settings=IngestSettings(), now_us=1_700_000_000_000_000))
    >>> posted = Posted(id="1", kind="business", name="copied", value=True,
    ...     external_id="order-7", time=datetime.fromtimestamp(1_700_000_000, UTC))
    >>> signal = judge.check(posted)
    >>> signal.value, signal.target
    (1.0, 'chat')
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._producer = rules.producer.name
        self._pseudonyms = rules.pseudonyms
        self._earliest_us = rules.now_us - rules.settings.horizon_s * MICROS
        self._latest_us = rules.now_us + rules.settings.skew_s * MICROS
        self._admitted: dict[tuple[str, str, str], _Admitted] = {}

    def check(self, posted: Posted) -> Signal:
        """The signal, ready for the bus.

        Raises ``Rejected``, or ``Denied`` when the key is narrower.
        """
        kind = posted.kind
        if match_id(posted.id) is None:
            raise Rejected("the id is not usable", field="id", allowed=ID_RULE)
        if kind == "command":
            return check_command(posted, self._rules)
        if posted.command is not None:
            raise Rejected("only commands carry a command", field="command")
        if kind == "basic":
            return check_basic(posted, self._rules)
        return self._feedback(posted)

    def _feedback(self, posted: Posted) -> Signal:
        """A business or semantic event."""
        if posted.data is not None:
            raise Rejected("only basic events carry data", field="data")
        kind, name = posted.kind, posted.name
        target = self._target(posted)
        admitted = self._admitted.get((kind, name, target)) or self._admit(kind, name, target)
        if kind == "semantic" or posted.model is not None:
            _check_model(posted)
        at_us = time_us(posted.time)
        if not self._earliest_us <= at_us <= self._latest_us:
            in_time(at_us, self._rules)
        if self._pseudonyms is not None:
            posted = self._pseudonyms.posted(posted)
        return Signal(
            id=posted.id,
            producer=self._producer,
            kind=kind,
            name=name,
            target=target,
            time_us=at_us,
            value=admitted.number.read(posted.value),
            request_id=posted.request_id,
            external_id=posted.external_id,
            session_id=posted.session_id,
            definition=admitted.version,
            model=posted.model,
        )

    def _admit(self, kind: str, name: str, target: str) -> _Admitted:
        """Find out, once per post, that such events are taken. Raises ``Rejected``."""
        definition = _definition(kind, name, self._rules.definitions)
        allow(kind, name, target, self._rules)
        admitted = _Admitted(Number.of(definition.metric), definition.version)
        self._admitted[kind, name, target] = admitted
        return admitted

    def _target(self, posted: Posted) -> str:
        """The target: from the request id when there is one, else named, else the only one."""
        external_id, session_id = posted.external_id, posted.session_id
        if posted.request_id is not None:
            if external_id is not None or session_id is not None:
                raise _not_by_one_id()
            return _agreed_target(posted.request_id, posted.target)
        if (external_id is None) == (session_id is None):
            raise _not_by_one_id()
        if external_id is not None:
            check_id(external_id, "external_id")
        if session_id is not None:
            check_id(session_id, "session_id")
        return self._only_target() if posted.target is None else posted.target

    def _only_target(self) -> str:
        """The one target that an event without any can be about. Raises ``Rejected``."""
        allowed = self._rules.producer.targets
        declared = self._rules.targets
        possible = sorted(each for each in declared if "*" in allowed or each in allowed)
        if len(possible) == 1:
            return possible[0]
        raise Rejected(
            "name the target: there is more than one" if possible else "the key has no target here",
            field="target",
            allowed=possible[:MAX_LISTED],
        )


def _not_by_one_id() -> Rejected:
    return Rejected("name the request by exactly one id", field="request_id", allowed=NAMED_BY)


def _check_model(posted: Posted) -> None:
    if posted.kind != "semantic":
        raise Rejected("only scores name the model that gave them", field="model")
    if posted.model is None:
        raise Rejected(
            "a score names the version of the model that gave it", field="model", allowed=ID_RULE
        )
    check_id(posted.model, "model")
    if posted.request_id is None:
        # By another id it could not be told from the same score under a request's own.
        raise Rejected("a score names its request", field="request_id", allowed=REQUEST_ID_RULE)


def _definition(kind: str, name: str, definitions: Mapping[str, Definition]) -> Definition:
    definition = definitions.get(name)
    if definition is None:
        near = _near(name[:MAX_ID], tuple(definitions))
        raise Rejected(
            f"metric {name[:MAX_ID]!r} is not declared",
            field="name",
            value=name[:MAX_ID],
            allowed=near or sorted(definitions)[:MAX_LISTED],
        )
    layer = definition.metric.layer
    if layer != kind:
        raise Rejected(f"metric {name!r} is a {layer} metric", field="kind", allowed=layer)
    return definition


@lru_cache(maxsize=1024)
def _near(name: str, declared: tuple[str, ...]) -> list[str]:
    """Declared names like ``name``; remembered, for a typo comes with every event of a post."""
    return difflib.get_close_matches(name, declared, NEAR)


def _agreed_target(request_id: str, target: str | None) -> str:
    named = target_of_request(request_id)
    if named is None:
        raise Rejected(
            "not a request id",
            field="request_id",
            value=request_id[:MAX_ID],
            allowed=REQUEST_ID_RULE,
        )
    if target is not None and target != named:
        raise Rejected(
            "the request id names another target",
            field="target",
            value=target[:MAX_ID],
            allowed=named,
        )
    return named
