"""What answers look like, where they are more than a record: the schemas that OpenAPI describes.

Records are described by their own types; these add what stands beside them. A member that is
absent from a type may still be in an answer: clients ignore what they don't know.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

from controller.api.watched import DriftShown, WallShown
from controller.audit.publishing import HeadStatus
from controller.audit.verify import Verification
from controller.history.touching import Met
from controller.judge.series import Line
from controller.store.port import Control, Principal
from controller.trials import Trial
from policies.baseline import Baseline
from policies.changes import DeclaredChange
from policies.heads import PublicKeys, Restore, Rotation
from policies.overrides import Override
from policies.policy import Mode, Policy
from signals.features.model import Outcome, RequestRow
from signals.features.rates import Rate

Row = TypeVar("Row")


class Page(Struct, Generic[Row], frozen=True, kw_only=True):
    """A page; ``next`` is where the following one begins, null on the last."""

    items: list[Row]
    next: str | int | None


class Items(Struct, Generic[Row], frozen=True, kw_only=True):
    """All there are."""

    items: list[Row]


class KeyListed(Principal, frozen=True, kw_only=True):
    """A key without its secret. ``live``: neither revoked nor expired."""

    live: bool
    last_used_us: int | None


class KeyMade(Struct, frozen=True, kw_only=True):
    """A key's rights, and the key itself, this once."""

    principal: Principal
    key: str


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """Who moved a policy, when, to what; ``index`` is the audit's."""

    at_us: int
    actor: str
    action: str
    index: int


class PolicyShown(Policy, frozen=True, kw_only=True):
    """A policy, its change in words, the digest that an approval must name, what it waits for."""

    words: str  # type: ignore[assignment]  # a method of the record, a member of its answer
    shown_digest: str
    needs: str


class PolicyHistory(PolicyShown, frozen=True, kw_only=True):
    """A policy, with who moved it when."""

    history: list[HistoryEntry]


class OverrideShown(Override, frozen=True, kw_only=True):
    """An override in words too."""

    words: str  # type: ignore[assignment]  # a method of the record, a member of its answer


class BaselineShown(Baseline, frozen=True, kw_only=True):
    """A baseline's version, its digest, its settings in words by place."""

    digest: str
    words: dict[str, str]  # type: ignore[assignment]  # of the whole in the record, by place here


class RailShown(Struct, frozen=True, kw_only=True):
    """One guardrail: whom it binds, and whether it denies a proposal or lets it wait."""

    name: str
    at: str
    binds: list[str]
    words: str


class LimitsShown(Struct, frozen=True, kw_only=True):
    """The guardrails' figures for one knob, as they are in force."""

    mode: Mode
    ladder: list[int]
    low: int
    high: int
    safer: str | None
    figures: dict[str, float]


class GuardrailsShown(Struct, frozen=True, kw_only=True):
    """Every bound of one target, and what stands in the way of trials now."""

    target: str
    knobs: dict[str, LimitsShown]
    rails: list[RailShown]
    freeze_windows: list[str]
    frozen_until_us: int | None
    changes: list[DeclaredChange]
    settle_s: int
    auto_risk: str


class BaselineHistory(Struct, frozen=True, kw_only=True):
    """Every version of a target's baseline, oldest first; ``now`` is the one in force."""

    target: str
    now: BaselineShown | None
    items: list[BaselineShown]


class TrialLine(Struct, frozen=True, kw_only=True):
    """Where a trial stands, against what."""

    id: str
    policy_id: str
    target: str
    knob: str
    design: str
    hypothesis: str
    state: str
    alpha: float
    guard_alpha: float
    min_units: int
    max_units: int
    block_s: float
    washout_s: float
    units: int
    units_judged: int
    trips: int
    ruling: dict[str, Any] | None
    began_us: int | None
    ended_us: int | None


class TrialShown(Trial, frozen=True, kw_only=True):
    """A trial, and what its judge saw after each unit as lines to plot."""

    series: tuple[Line, ...]


class TargetLine(Struct, frozen=True, kw_only=True):
    """One target in a list."""

    name: str
    maximize: str
    control: Control
    trial: TrialLine | None


class ScopeBudget(Struct, frozen=True, kw_only=True):
    """What a scope has spent of its trials. ``level``: what α the next one may have, under fdr.

    ``next_us`` None: it may begin now.
    """

    begun: int
    level: float | None
    next_us: int | None


class BudgetShown(Struct, frozen=True, kw_only=True):
    """How many trials the loop may begin. ``scopes``: those that began any lately."""

    kind: str
    per_day: int | None
    scopes: dict[str, ScopeBudget]


class TargetGlance(TargetLine, frozen=True, kw_only=True):
    """One target at a glance."""

    on_kill: str
    knobs: list[dict[str, Any]]
    pending: list[PolicyShown]
    verdicts: list[TrialLine]
    attainment: dict[str, dict[str, float | None]]
    watermark_us: int
    replicas: list[dict[str, Any]]
    engines: list[dict[str, Any]]
    drift: DriftShown
    wall: WallShown | None
    budget: BudgetShown
    worth: str


class TargetSettingsShown(Struct, frozen=True, kw_only=True, tag_field="kind", tag="now"):
    """Baseline, desired and observed settings, by place."""

    target: str
    baseline: BaselineShown | None
    desired: dict[str, Any]
    replicas: list[dict[str, Any]]


class RuleFeatures(Struct, frozen=True, kw_only=True):
    """What rules see now, by name; what is unknown is absent."""

    target: str
    features: dict[str, float]
    rates: dict[str, dict[str, Rate]]


class ModeShown(Struct, frozen=True, kw_only=True):
    """What the loop may do with a knob."""

    target: str
    knob: str
    mode: Mode


class RequestShown(Struct, frozen=True, kw_only=True):
    """A request, the settings and policies it was served under, and what followed.

    ``request`` and ``stamp`` None: its row is forgotten, and ``met`` is told by when it arrived.
    """

    id: str
    request: RequestRow | None
    stamp: dict[str, Any] | None
    met: Met
    policies: list[dict[str, Any]]
    trial: dict[str, Any] | None
    outcomes: list[Outcome]


class WindowRows(Struct, frozen=True, kw_only=True):
    """Windows of a target, by time, each with counts, figures and metrics."""

    target: str
    width_s: int
    watermark_us: int
    items: list[dict[str, Any]]
    next: str | None


class LetterShown(Struct, frozen=True, kw_only=True):
    """An event that was accepted and could not be used; ``body`` is what came in, as text."""

    id: str
    partition: int
    offset: int
    target: str
    producer: str
    event_id: str
    reason: str
    detail: str
    accepted_us: int
    attempts: int
    body: str


class LetterPage(Struct, frozen=True, kw_only=True):
    """Dead letters, and how many there are by reason."""

    items: list[LetterShown]
    next: str | None
    counts: dict[str, int]


class OrphanPage(Struct, frozen=True, kw_only=True):
    """Feedback that waits for its request, and how much of it each producer has."""

    items: list[dict[str, Any]]
    next: str | None
    waiting: dict[str, int]
    orphan_s: int


class BusShown(Struct, frozen=True, kw_only=True):
    """The bus, partition by partition."""

    kind: str
    partitions: list[dict[str, Any]]
    max_bytes: int
    hard_bytes: int
    retention_s: int


class ProducerShown(Struct, frozen=True, kw_only=True):
    """A producer: what it may weigh, and since when, by whom and why it is set aside."""

    producer: str
    influence: float | None
    quarantine: dict[str, Any] | None


class IntentShown(Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """A declared intent."""

    target: str
    name: str
    class_: str
    slo: dict[str, Any]


class MetricShown(Struct, frozen=True, kw_only=True):
    """A metric's version, its definition beside it."""

    name: str
    version: int
    managed_by: str
    from_us: int
    retired_us: int | None
    layer: str
    type: str
    unit: str
    direction: str
    low: float
    high: float
    attribution_s: int
    owner: str


class Verified(Struct, frozen=True, kw_only=True):
    """Whether the audit and the rows agree, and what does not."""

    clean: bool
    result: Verification


class StatusShown(Struct, frozen=True, kw_only=True):
    """The process's word for how it is."""

    status: str


class HookTested(Struct, frozen=True, kw_only=True):
    """A test is on its way to a webhook."""

    hook: str
    event: str


class AuditHead(HeadStatus, frozen=True, kw_only=True):
    """How the log stands, and the public keys that its heads are signed with."""

    public_keys: PublicKeys


class InclusionProof(Struct, frozen=True, kw_only=True):
    """That an entry is in a tree: RFC 9162, 2.1.3; hashes in hex."""

    index: int
    size: int
    root: str
    leaf_hash: str
    path: list[str]


class ConsistencyProof(Struct, frozen=True, kw_only=True):
    """That a tree is an older one, grown: RFC 9162, 2.1.4; hashes in hex."""

    first: int
    first_root: str
    second: int
    second_root: str
    path: list[str]


class KeyRotated(Struct, frozen=True, kw_only=True):
    """The log's heads are signed with a new key from now on."""

    rotation: Rotation
    public_keys: PublicKeys


class Restored(Struct, frozen=True, kw_only=True):
    """The log goes on from an older head, and says so."""

    restore: Restore
