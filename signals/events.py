"""What travels on the bus. One envelope, ``Signal``; basic signals carry one of four records.

Times on the wire of business systems are RFC 3339; inside, every time is an integer number of
microseconds since the Unix epoch (``*_us``), so sums are exact and order-free.

An engine's records, in the life of one request::

    arrived ──► [running] ──► finished            every second: second        once: started
    (stamp, deadline inputs)  (ttft, tpot, status)  (load, tokens, steps)      (step curve)

A request belongs for ever to the stamp it *arrived* under.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from signals.counts import WindowCounts

Kind = Literal["basic", "semantic", "business", "command"]
Status = Literal["ok", "error", "cancelled", "rejected"]
Arm = Literal["baseline", "candidate"]

ErasedBy = Literal["request", "session", "external"]

MICROS = 1_000_000


MEMORY_EXHAUSTED = "memory exhausted"
"""What ``Finished.error`` says of requests whose engine ran out of memory, and died of it."""


class SeenTrial(Struct, frozen=True, kw_only=True):
    """The trial part of a stamp, as the engine reported it."""

    id: str
    block: int
    arm: Arm


class SeenStamp(Struct, frozen=True, kw_only=True):
    """The settings a record was made under, as the engine reported them."""

    target: str
    replica: str
    incarnation: str
    version: int
    digest: str
    trial: SeenTrial | None = None
    policies: tuple[str, ...] = ()


class Arrived(Struct, frozen=True, kw_only=True, tag_field="record", tag="arrived"):
    """A request was accepted (or refused by the full queue: ``finished`` follows at once)."""

    seq: int
    stamp: SeenStamp
    request_id: str
    intent: str
    class_: str = field(name="class")
    arrival_us: int
    prompt_tokens: int
    max_tokens: int
    external_id: str | None = None
    session_id: str | None = None


class Finished(Struct, frozen=True, kw_only=True, tag_field="record", tag="finished"):
    """A request ended. Repeats ``arrived``'s identity so that it stands alone.

    ``ttft_us`` None: no token was ever produced. ``tpot_us``: mean time per output token after the
    first, None with fewer than two tokens.
    """

    seq: int
    stamp: SeenStamp
    request_id: str
    intent: str
    class_: str = field(name="class")
    arrival_us: int
    finished_us: int
    status: Status
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    queue_us: int | None = None
    ttft_us: int | None = None
    tpot_us: int | None = None
    preemptions: int = 0
    error: str | None = None
    external_id: str | None = None
    session_id: str | None = None


class StepMoments(Struct, frozen=True, kw_only=True):
    """Integer sums over engine steps: b = decoding sequences, f = prefill tokens, t = step µs.

    Enough to fit t = base + c·b + p·f by least squares, and mergeable in any order.
    """

    n: int = 0
    b: int = 0
    f: int = 0
    t: int = 0
    bb: int = 0
    bf: int = 0
    ff: int = 0
    bt: int = 0
    ft: int = 0
    tt: int = 0


class IntentLoad(Struct, frozen=True, kw_only=True):
    """One intent's load in one second."""

    arrivals: int = 0
    offered_tokens: int = 0
    output_tokens: int = 0
    waiting: int = 0
    running: int = 0


class Second(Struct, frozen=True, kw_only=True, tag_field="record", tag="second"):
    """About one second of the engine; cut at each change of stamp, so none spans two blocks.

    ``waiting`` and ``running`` are as they stand at ``to_us``. ``prefix_lookups`` and
    ``prefix_hits``: prompt tokens looked up in the prefix cache, and found there. ``dropped``:
    telemetry records lost to a full ring since the engine started.
    """

    seq: int
    stamp: SeenStamp
    from_us: int
    to_us: int
    intents: dict[str, IntentLoad]
    kv_blocks_used: int
    kv_blocks_total: int
    preemptions: int = 0
    steps: StepMoments
    knobs: dict[str, int]
    dropped: int = 0
    prefix_lookups: int = 0
    prefix_hits: int = 0


class CurvePoint(Struct, frozen=True, kw_only=True):
    """A measured step at boot: ``decode`` sequences, ``prefill`` tokens, median ``step_us``."""

    decode: int
    prefill: int
    step_us: int


class KvLayout(Struct, frozen=True, kw_only=True):
    """How an engine keeps keys and values: a pool of ``blocks`` of ``block_tokens`` tokens each.

    A token takes 2 (key and value) × ``layers`` × ``kv_heads`` × ``head_dim`` values of
    ``value_bits`` each.
    """

    layers: int
    kv_heads: int
    head_dim: int
    value_bits: int
    block_tokens: int
    blocks: int


class Started(Struct, frozen=True, kw_only=True, tag_field="record", tag="started"):
    """An engine came up: what it is (``fingerprint``) and the step curve it measured at boot.

    ``kv``: how it keeps keys and values (None: it does not say).
    """

    seq: int
    stamp: SeenStamp
    at_us: int
    fingerprint: str
    curve: tuple[CurvePoint, ...]
    kv: KvLayout | None = None


class Counted(Struct, frozen=True, kw_only=True, tag_field="record", tag="counted"):
    """One 5 s window of one intent, counted at the edge instead of request by request.

    (``source``, the window) names it; a higher ``revision`` replaces what a lower one said, and the
    window is the merge of its sources' latest. ``counts`` may hold no outcomes: users' acts are
    joined here. A source posts ``counted`` and ``named`` instead of ``arrived`` and ``finished``;
    its ``second`` records stay as they are, and are not in its counts, which hold no readings
    of gauges either. ``at_us``: when it said so.
    """

    seq: int
    stamp: SeenStamp
    at_us: int
    source: str
    intent: str
    start_us: int
    revision: int
    counts: WindowCounts


class NamedRequest(Struct, frozen=True, kw_only=True):
    """A request that feedback may name."""

    request_id: str
    intent: str
    class_: str = field(name="class")
    arrival_us: int
    external_id: str | None = None
    session_id: str | None = None


class Named(Struct, frozen=True, kw_only=True, tag_field="record", tag="named"):
    """Requests that were counted at the edge: known for joins, and counted nowhere else."""

    seq: int
    stamp: SeenStamp
    at_us: int
    requests: tuple[NamedRequest, ...]


Record = Arrived | Finished | Second | Started | Counted | Named


class LetterSelection(Struct, frozen=True, kw_only=True):
    """Dead letters by what they are: those that meet every part given, the oldest first.

    ``after``: above this offset; ``limit``: so many at most. A command never takes more than the
    feature stage's ``command_letters``, whatever is asked.
    """

    reason: str | None = None
    producer: str | None = None
    target: str | None = None
    after: int = 0
    limit: int = 1000


class ReplayLetters(Struct, frozen=True, kw_only=True, tag_field="command", tag="replay"):
    """Fold these dead letters again, as if they came now: by their offsets on the bus, and those
    of ``where``. ``actor``: who asked, for the record.
    """

    actor: str
    offsets: tuple[int, ...] = ()
    where: LetterSelection | None = None


class DiscardLetters(Struct, frozen=True, kw_only=True, tag_field="command", tag="discard"):
    """Drop these dead letters for good, chosen like those of a replay."""

    actor: str
    offsets: tuple[int, ...] = ()
    where: LetterSelection | None = None


class Quarantine(Struct, frozen=True, kw_only=True, tag_field="command", tag="quarantine"):
    """Set aside what the producer ``name`` posts from now on; ``on`` False ends that.

    It holds in the partition that the command's target is in, for every target there.
    Feedback (business and semantic) becomes dead letters ``quarantined``: kept, not counted, and
    replayable. An engine's own records are never set aside, for without them nothing is known.
    """

    actor: str
    name: str
    on: bool
    reason: str


class Erase(Struct, frozen=True, kw_only=True, tag_field="command", tag="erase"):
    """Let go of whose request, session or external id this is, in the command's target.

    ``ids``: the id as it is stored, or as it is now and as it was stored before.
    """

    actor: str
    by: ErasedBy
    ids: tuple[str, ...]


Command = ReplayLetters | DiscardLetters | Quarantine | Erase
"""What an operator wants of the feature stage. It travels on the bus like everything else, so it is
carried out once, in order, and a replay carries it out again."""


class Signal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One feedback event, as accepted. Dedupe key: (``producer``, ``id``).

    Business and semantic signals name a request by ``request_id``, ``external_id`` or
    ``session_id`` and carry ``name`` and ``value`` of a declared metric, read by the version of its
    ``definition`` that was in force when they were accepted. A score names the ``model`` version
    that gave it, and counts once for (request, metric, model). Basic signals carry ``data``; their
    ``id`` is ``<replica>.<incarnation>.<seq>``. Commands come from the control plane only.
    """

    id: str
    producer: str
    kind: Kind
    name: str
    target: str
    time_us: int
    value: float | None = None
    request_id: str | None = None
    external_id: str | None = None
    session_id: str | None = None
    definition: int | None = None
    model: str | None = None
    data: Record | None = None
    command: Command | None = None
