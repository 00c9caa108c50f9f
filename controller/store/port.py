"""The controller's memory, as the loop and the API need it. Owned by its users, not by SQL.

Everything that belongs together is written in one transaction: a move and its audit entry, the
window cursor and what was decided from it. Transitions are compare-and-set on ``rev``: a writer
who lost raises ``Conflict`` and has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct

from controller.learner.port import Choice
from controller.store.acts_port import BaselineTx, ChangeTx, OverrideTx
from controller.store.past_port import (
    AnswerTx,
    ArchiveTx,
    DeliveryTx,
    HistoryTx,
    SegmentTx,
    TreeTx,
)
from controller.trials import Trial
from policies.audit import Entry
from policies.lifecycle import State
from policies.policy import Mode, OriginKind, Policy, Verdict
from policies.settings import Setting
from signals.definitions import Definition, ManagedBy
from signals.settings import MetricSettings

Role = Literal["viewer", "producer", "operator", "approver", "auditor", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


class Principal(Struct, frozen=True, kw_only=True):
    """Who is calling. ``id`` is the key's id, never the key.

    ``targets`` and ``intents`` bound every role: who does not cover all intents acts only on scopes
    of his. Producers are bounded by ``kinds`` and ``names``, by ``rate_per_s`` (events) and by
    ``influence``: the largest share of any rate's weight that this producer's values may have.
    ``team`` owns metric definitions.
    """

    id: str
    name: str
    role: Role
    targets: tuple[str, ...] = ()
    intents: tuple[str, ...] = ("*",)
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    rate_per_s: float | None = None
    influence: float = 1.0
    team: str = ""
    expires_us: int | None = None
    rotated_us: int | None = None
    revoked_us: int | None = None


class Foreign(Struct, frozen=True, kw_only=True):
    """A change that was not ours: kept, shown, and that knob only observes until ``until_us``."""

    target: str
    knob: str
    setting: Setting
    seen_us: int
    until_us: int
    change_id: str | None


class Control(Struct, frozen=True, kw_only=True):
    """What the operator says of a target: hold, kill or detach, by whom, since when, why."""

    target: str
    hold: bool = False
    killed: bool = False
    detached: bool = False
    actor: str | None = None
    reason: str | None = None
    since_us: int | None = None


class Decision(Struct, frozen=True, kw_only=True):
    """Enough to replay one decision bit for bit (invariant 10).

    ``choice``: a learner's draw, whole; the state that it names is kept beside it (``learner``).
    ``masked``: by action, why it might not be chosen; a learner's record without a choice says that
    nothing was worth drawing.
    """

    id: str
    target: str
    at_us: int
    source: str
    context: dict[str, float]
    actions: tuple[str, ...]
    chosen: str
    propensity: float
    model: str
    seed: int
    cursor: int
    policy_id: str | None = None
    denied: str | None = None
    guardrail: str | None = None
    figures: dict[str, float] = {}
    choice: Choice | None = None
    masked: dict[str, str] = {}


class Drawn(Struct, frozen=True, kw_only=True):
    """A decision without what became of it: all that drawing it again may see."""

    id: str
    target: str
    at_us: int
    source: str
    choice: Choice | None = None


class Act(Struct, frozen=True, kw_only=True):
    """An audit entry that is to be: index, and a later time if need be, come as it is stored."""

    at_us: int
    actor: str
    action: str
    subject: str
    target: str
    details: dict[str, Any]


class AuditQuery(Struct, frozen=True, kw_only=True):
    """Which entries. ``action`` ends in ``.`` for a family. ``before``: indexes below this one.

    ``from_us`` inclusive, ``to_us`` exclusive. ``but``: a family that is left out.
    """

    target: str | None = None
    subject: str | None = None
    actor: str | None = None
    action: str | None = None
    but: str | None = None
    from_us: int | None = None
    to_us: int | None = None
    before: int | None = None
    limit: int = 100


class PolicyFilter(Struct, frozen=True, kw_only=True):
    """Which policies. ``from_us`` inclusive, ``to_us`` exclusive: when they were proposed."""

    knob: str | None = None
    scope: str | None = None
    origin: OriginKind | None = None
    proposed_by: str | None = None
    verdict: Verdict | None = None
    from_us: int | None = None
    to_us: int | None = None


class Tx(
    OverrideTx,
    ChangeTx,
    BaselineTx,
    SegmentTx,
    HistoryTx,
    DeliveryTx,
    AnswerTx,
    TreeTx,
    ArchiveTx,
    Protocol,
):
    """One transaction. Reads see its own writes."""

    def policy(self, policy_id: str) -> Policy:
        """Raises ``NotFound``."""

    def policies(
        self,
        *,
        target: str | None = None,
        states: Sequence[State] | None = None,
        limit: int = 200,
        before: str | None = None,
        wanted: PolicyFilter | None = None,
    ) -> list[Policy]:
        """Newest first (ids rise with time); ``before`` is an id, for pages."""

    def add_policy(self, policy: Policy) -> Policy:
        """Insert a policy in state ``proposed``; one audit entry ``policy.proposed``."""

    def move(
        self,
        policy: Policy,
        after: State,
        *,
        actor: str,
        at_us: int,
        details: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Policy:
        """Move by the lifecycle table; ``changes`` are other fields set with it.

        One audit entry ``policy.<after>``. Raises ``Conflict`` for an illegal move; a lost race may
        be told later, by the transaction's next read or its end, and then nothing of it stands.
        """

    def amend(self, policy: Policy, what: str, *, actor: str, at_us: int, **changes: Any) -> Policy:
        """Change fields of a policy that stays in its state, compare-and-set on ``rev``.

        One audit entry ``policy.<what>`` (``seconded``: one yes of several; ``sized``,
        ``confirmed``: by users' feedback). Raises ``Conflict``.
        """

    def trial(self, trial_id: str) -> Trial:
        """Raises ``NotFound``."""

    def trials(
        self, *, target: str | None = None, running: bool | None = None, limit: int = 50
    ) -> list[Trial]:
        """Newest first; ``running`` True: running or paused ones."""

    def save_trial(self, trial: Trial) -> Trial:
        """Insert or compare-and-set on ``rev``; returns it with the new ``rev``."""

    def control(self, target: str) -> Control:
        """Defaults when nothing was ever said."""

    def set_control(self, control: Control) -> None:
        """Replace it. The caller writes the audit entry."""

    def modes(self, target: str) -> dict[str, Mode]:
        """Modes set over REST, by knob (what a file declares is not here)."""

    def set_mode(self, target: str, knob: str, mode: Mode) -> None:
        """Replace it. The caller writes the audit entry."""

    def foreign(self, target: str) -> list[Foreign]:
        """Foreign changes, by knob, also outdated ones until replaced or cleared."""

    def set_foreign(self, foreign: Foreign) -> None:
        """Insert or replace by (target, knob)."""

    def clear_foreign(self, target: str, knob: str) -> None:
        """Forget it."""

    def add_decision(self, decision: Decision) -> None:
        """Append."""

    def decisions(
        self,
        *,
        target: str | None = None,
        from_us: int | None = None,
        to_us: int | None = None,
        limit: int = 100,
    ) -> list[Decision]:
        """Newest first, of those made in [from_us, to_us)."""

    def drawn(
        self,
        *,
        target: str | None = None,
        from_us: int | None = None,
        ids: Sequence[str] = (),
        limit: int = 100,
    ) -> list[Drawn]:
        """Decisions, newest first, without what became of them; ``ids``: these alone."""

    def prune_decisions(self, before_us: int, *, limit: int = 1000) -> int:
        """Forget the oldest, if they were made before; how many, at most ``limit``."""

    def keep_learner(self, target: str, digest: str, body: str, *, at_us: int) -> None:
        """Keep the state of a learner that decisions name, as used last at ``at_us``."""

    def learner(self, target: str, digest: str) -> str | None:
        """What was kept under that digest; None: never, or forgotten."""

    def prune_learners(self, before_us: int, *, limit: int = 1000) -> int:
        """Forget states that no decision since then has named; how many, at most ``limit``."""

    def note(self, key: str) -> str | None:
        """A small named value (window cursor, epoch, baseline digest, …); None when absent."""

    def set_note(self, key: str, value: str) -> None:
        """Insert or replace."""

    def append_audit(
        self,
        *,
        at_us: int,
        actor: str,
        action: str,
        subject: str,
        target: str,
        details: dict[str, Any],
    ) -> None:
        """One more entry, with canonical bytes and leaf hash.

        Its index comes from the head row, which is locked last, as the transaction ends. What is
        read through the same transaction sees it.
        """

    def append_many(self, acts: Iterable[Act]) -> int:
        """Append a history that is brought in, at once; how many entries there are then.

        It takes the actions that only a change may record: the caller brings in their rows too.
        """

    def audit(
        self,
        *,
        after: int = -1,
        limit: int = 1000,
        target: str | None = None,
        subject: str | None = None,
    ) -> list[Entry]:
        """Entries with a higher index, in order, decoded from their stored bytes."""

    def subjects(
        self, prefix: str, *, target: str | None = None, before: str | None = None, limit: int = 100
    ) -> list[str]:
        """What the audit is about, of ids with a prefix: each once, the newest first.

        ``before`` is an id, for pages.
        """

    def add_key(self, principal: Principal, token_sha256: bytes, *, actor: str, at_us: int) -> None:
        """Store a key's hash; one audit entry without the key."""

    def keys(self) -> list[Principal]:
        """All keys, without hashes, oldest first."""

    def revoke_key(self, key_id: str, *, actor: str, at_us: int) -> None:
        """Raises ``NotFound``; one audit entry."""

    def rotate_key(
        self, key_id: str, token_sha256: bytes, *, until_us: int, actor: str, at_us: int
    ) -> Principal:
        """Give a key a new token; the old one, and older ones, count until ``until_us`` at most.

        Audit entries ``key.rotated`` and ``key.superseded``. Raises ``NotFound``, ``Conflict``.
        """

    def key_by_hash(self, token_sha256: bytes) -> Principal | None:
        """The principal of a key; expired and revoked ones too (the caller checks).

        By a token that was replaced, it expires with that.
        """

    def definitions(self) -> list[Definition]:
        """The metric definitions in force, by name."""

    def versions(self, name: str) -> list[Definition]:
        """Every version of one metric, oldest first; empty when it was never declared."""

    def definition(self, name: str, version: int) -> Definition | None:
        """One version, in force or not; None when there is none."""

    def declare(
        self,
        name: str,
        metric: MetricSettings,
        *,
        managed_by: ManagedBy,
        actor: str,
        at_us: int,
    ) -> Definition:
        """Put a new version in force; one audit entry ``metric.declared`` or ``metric.changed``.

        What is in force already is returned as it is. Raises ``Conflict`` where something would
        change that is for ever. Whether the actor may is for the caller to ask.
        """

    def retire(self, name: str, *, actor: str, at_us: int) -> Definition:
        """Take a metric out of force; one audit entry ``metric.retired``. Raises ``NotFound``."""


class Store(Protocol):
    """Opens transactions. Raises ``Unavailable`` when the database does not answer."""

    def write(self) -> AbstractContextManager[Tx]:
        """BEGIN IMMEDIATE; commits at the end, rolls back on any exception."""

    def read(self) -> AbstractContextManager[Tx]:
        """A consistent snapshot; writing through it raises."""

    @property
    def writes(self) -> int:
        """Rises with every write that committed. Only one process writes (invariant 2)."""

    def close(self) -> None:
        """Idempotent."""
