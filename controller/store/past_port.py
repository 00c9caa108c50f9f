"""The past and the outside, as the store keeps them: segments, tree heads, deliveries, answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from policies.in_force import Segment

if TYPE_CHECKING:
    from controller.store.port import AuditQuery

DeliveryState = Literal["waiting", "delivered", "given_up"]


class Delivery(Struct, frozen=True, kw_only=True):
    """One audit entry on its way to one webhook. ``id`` is ``<hook>:<entry>``: one each, for ever.

    ``event``: the entry's action. ``created_us``: since when it is owed, or asked for again.
    ``error``: what the last attempt met, without any secret.
    """

    id: str
    hook: str
    entry: int
    event: str = ""
    state: DeliveryState = "waiting"
    due_us: int
    attempts: int = 0
    created_us: int
    error: str | None = None


class Answered(Struct, frozen=True, kw_only=True):
    """What an idempotency key was used for. ``status`` None: the first call is not answered yet."""

    request_sha256: bytes
    at_us: int
    status: int | None
    body: bytes | None


class Archive(Struct, frozen=True, kw_only=True):
    """Entries ``first`` to ``last`` in ``file`` (its name), whose SHA-256 is ``sha256`` (hex).

    ``frames``: where in the file each run of ``frame_entries`` entries begins, in bytes.
    """

    first: int
    last: int
    file: str
    sha256: str
    bytes: int
    frame_entries: int
    frames: tuple[int, ...]
    at_us: int
    by: str


class AuditLine(Struct, frozen=True, kw_only=True):
    """An audit entry as people look at it. ``details`` None: its bytes lie in an archive.

    ``leaf_hash``: in hex; what a proof is for.
    """

    index: int
    at_us: int
    actor: str
    action: str
    subject: str
    target: str
    leaf_hash: str
    details: dict[str, Any] | None = None


class HistoryTx(Protocol):
    """The audit looked at from all sides. Only for transactions that read."""

    def audit_lines(self, wanted: AuditQuery) -> list[AuditLine]:
        """A page of the audit, newest first; archived entries too."""

    def audit_actions(self, prefix: str = "") -> list[str]:
        """Each action there is, by name."""

    def audit_index_at(self, at_us: int) -> int | None:
        """The first entry at or after a time; None: there is none yet."""


class SegmentTx(Protocol):
    """The ``segments`` table: what engines had, from when until when."""

    def add_segment(self, segment: Segment, *, actor: str, at_us: int) -> None:
        """Append; the replica's open segment ends where this begins.

        Audit entry ``settings.observed`` with the whole segment, subject ``segment.replica``.
        """

    def segment_at(self, target: str, replica: str, at_us: int) -> Segment | None:
        """The segment that covers an instant; None before the first."""

    def segments(
        self,
        target: str,
        *,
        replica: str | None = None,
        from_us: int | None = None,
        to_us: int | None = None,
        limit: int = 1000,
    ) -> list[Segment]:
        """Those that overlap [from_us, to_us), in order of time."""

    def segments_before(
        self,
        target: str,
        *,
        before: tuple[int, int],
        from_us: int,
        known: bool | None = None,
        limit: int = 100,
    ) -> list[Segment]:
        """Those that begin at or after ``from_us`` and before (from_us, entry), latest first.

        ``known``: only those that are, or only those of which nobody can say what was in force.
        """

    def segment_of(self, incarnation: str, version: int) -> Segment | None:
        """The newest segment with that stamp: what a request's stamp leads to."""

    def segment_replicas(self, target: str) -> list[str]:
        """Every replica that ever had one, by name."""


class DeliveryTx(Protocol):
    """The ``deliveries`` table: webhooks that are owed."""

    def add_delivery(self, delivery: Delivery) -> None:
        """Insert; the same id again changes nothing."""

    def delivery(self, delivery_id: str) -> Delivery:
        """Raises ``NotFound``."""

    def due_deliveries(
        self, now_us: int, *, hook: str | None = None, limit: int = 100
    ) -> list[Delivery]:
        """Waiting ones that are due, the longest due first, of one instant by entry."""

    def deliveries(
        self,
        *,
        hook: str | None = None,
        state: DeliveryState | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Delivery]:
        """The newest entries first; ``before``: only of entries below this one, for pages."""

    def delivery_counts(self, hook: str) -> dict[DeliveryState, int]:
        """How many there are in each state; states without any are left out."""

    def save_delivery(self, delivery: Delivery) -> None:
        """Replace it by its id."""

    def prune_deliveries(self, before_us: int, *, limit: int = 1000) -> int:
        """Forget delivered and given-up ones that were last tried before; how many, at most
        ``limit``."""


class AnswerTx(Protocol):
    """The ``idempotent_answers`` table."""

    def answered(self, principal: str, key: str) -> Answered | None:
        """What this caller used the key for; None when he did not."""

    def claim_answer(self, principal: str, key: str, request_sha256: bytes, at_us: int) -> None:
        """Begin. Raises ``Conflict`` where the key is taken."""

    def finish_answer(self, principal: str, key: str, status: int, body: bytes) -> None:
        """Keep what was answered."""

    def drop_answer(self, principal: str, key: str) -> None:
        """Forget a claim that came to nothing."""

    def prune_answers(self, before_us: int) -> int:
        """Forget what is older; how many."""


class TreeTx(Protocol):
    """Leaf hashes, and the signed heads as they were published (a copy: the sink's word counts)."""

    def audit_size(self) -> int:
        """Entries in the audit."""

    def leaf_hashes(self, first: int, last: int) -> Sequence[bytes]:
        """Of entries ``first`` to ``last`` inclusive, in order."""

    def add_tree_head(self, size: int, at_us: int, body: str) -> None:
        """Append a signed head, as it was published."""

    def tree_heads(self, *, limit: int = 100) -> list[str]:
        """The newest first."""


class ArchiveTx(Protocol):
    """The ``audit_archives`` table: entries whose bytes are in a file, or may go there."""

    def archives(self) -> Sequence[Archive]:
        """Oldest first."""

    def stored_entries(self, first: int, *, limit: int = 1000) -> list[tuple[int, bytes, bytes]]:
        """Index, leaf hash and bytes from ``first`` up, in order; ends before one without bytes."""

    def index_before(self, before_us: int) -> int:
        """The highest index whose entry is older; -1 where there is none."""

    def add_archive(self, archive: Archive, *, actor: str) -> None:
        """Audit entry ``audit.sealed``; from now on the bytes of these entries may leave."""

    def drop_stored(self, first: int, last: int) -> int:
        """Let go of the bytes of entries ``first`` to ``last``, which an archive covers.

        How many went.
        """
