"""The past and the outside, as the store keeps them: segments, tree heads, deliveries, answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from policies.in_force import Segment

DeliveryState = Literal["waiting", "delivered", "given_up"]


class Delivery(Struct, frozen=True, kw_only=True):
    """One audit entry on its way to one webhook. ``id`` is ``<hook>:<entry>``: one each, for ever.

    ``error``: what the last attempt met, without any secret.
    """

    id: str
    hook: str
    entry: int
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

    def segment_of(self, incarnation: str, version: int) -> Segment | None:
        """The newest segment with that stamp: what a request's stamp leads to."""

    def segment_replicas(self, target: str) -> list[str]:
        """Every replica that ever had one, by name."""


class DeliveryTx(Protocol):
    """The ``deliveries`` table: webhooks that are owed."""

    def add_delivery(self, delivery: Delivery) -> None:
        """Insert; the same id again changes nothing."""

    def due_deliveries(self, now_us: int, *, limit: int = 100) -> list[Delivery]:
        """Waiting ones that are due, the longest due first."""

    def deliveries(
        self, *, hook: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[Delivery]:
        """The newest entries first."""

    def save_delivery(self, delivery: Delivery) -> None:
        """Replace it by its id."""

    def prune_deliveries(self, before_us: int) -> int:
        """Forget delivered and given-up ones that were created before; how many."""


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
