"""What is owed to the outside: webhook deliveries, and the answers to idempotency keys."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, func, select, update

from controller.store.past_port import Answered, Delivery, DeliveryState
from controller.store.rows import Rows, bounded, decoded, encoded
from controller.store.tables import deliveries, idempotent_answers
from signals.errors import Conflict, NotFound


class DeliveryRows(Rows):
    """The ``deliveries`` and ``idempotent_answers`` tables."""

    def add_delivery(self, delivery: Delivery) -> None:
        """The same id again changes nothing."""
        self._added(deliveries, _row(delivery))

    def delivery(self, delivery_id: str) -> Delivery:
        """Raises ``NotFound``."""
        query = select(deliveries.c.body).where(deliveries.c.id == delivery_id)
        body = self._connection.execute(query).scalar_one_or_none()
        if body is None:
            raise NotFound(f"no delivery {delivery_id}", field="delivery_id", value=delivery_id)
        return decoded(body, Delivery)

    def due_deliveries(
        self, now_us: int, *, hook: str | None = None, limit: int = 100
    ) -> list[Delivery]:
        """The longest due first, of one instant by entry."""
        columns = deliveries.c
        query = select(columns.body).where(columns.state == "waiting", columns.due_us <= now_us)
        if hook is not None:
            query = query.where(columns.hook == hook)
        query = query.order_by(columns.due_us, columns.entry).limit(bounded(limit))
        return [decoded(body, Delivery) for body in self._connection.execute(query).scalars()]

    def deliveries(
        self,
        *,
        hook: str | None = None,
        state: DeliveryState | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Delivery]:
        """The newest entries first."""
        columns = deliveries.c
        query = select(columns.body)
        if hook is not None:
            query = query.where(columns.hook == hook)
        if state is not None:
            query = query.where(columns.state == state)
        if before is not None:
            query = query.where(columns.entry < before)
        query = query.order_by(columns.entry.desc(), columns.id).limit(bounded(limit))
        return [decoded(body, Delivery) for body in self._connection.execute(query).scalars()]

    def delivery_counts(self, hook: str) -> dict[DeliveryState, int]:
        """States without any are left out."""
        columns = deliveries.c
        query = select(columns.state, func.count()).where(columns.hook == hook)
        rows = self._connection.execute(query.group_by(columns.state)).all()
        return {state: int(count) for state, count in rows}

    def save_delivery(self, delivery: Delivery) -> None:
        """Replace it by its id."""
        self._replace(deliveries, _row(delivery))

    def prune_deliveries(self, before_us: int, *, limit: int = 1000) -> int:
        """Waiting ones stay, however old."""
        columns = deliveries.c
        done = (columns.state.in_(("delivered", "given_up")), columns.due_us < before_us)
        old = select(columns.id).where(*done).order_by(columns.due_us).limit(bounded(limit))
        gone = delete(deliveries).where(columns.id.in_(old))
        return self._for_writing().execute(gone).rowcount

    def answered(self, principal: str, key: str) -> Answered | None:
        """None when he did not use it."""
        columns = idempotent_answers.c
        query = select(columns.request_sha256, columns.at_us, columns.status, columns.body)
        row = self._connection.execute(query.where(*_same(principal, key))).one_or_none()
        if row is None:
            return None
        return Answered(
            request_sha256=row.request_sha256, at_us=row.at_us, status=row.status, body=row.body
        )

    def claim_answer(self, principal: str, key: str, request_sha256: bytes, at_us: int) -> None:
        """Raises ``Conflict`` where the key is taken."""
        row = {
            "principal": principal,
            "key": key,
            "request_sha256": request_sha256,
            "at_us": at_us,
        }
        if not self._added(idempotent_answers, row):
            raise Conflict("the idempotency key is in use", field="Idempotency-Key")

    def finish_answer(self, principal: str, key: str, status: int, body: bytes) -> None:
        """Keep what was answered."""
        values = {"status": status, "body": body}
        change = update(idempotent_answers).where(*_same(principal, key)).values(values)
        self._for_writing().execute(change)

    def drop_answer(self, principal: str, key: str) -> None:
        """Nothing happens where there is none."""
        self._for_writing().execute(delete(idempotent_answers).where(*_same(principal, key)))

    def prune_answers(self, before_us: int) -> int:
        """How many were forgotten."""
        old = idempotent_answers.c.at_us < before_us
        return self._for_writing().execute(delete(idempotent_answers).where(old)).rowcount


def _same(principal: str, key: str) -> tuple[ColumnElement[bool], ...]:
    return (idempotent_answers.c.principal == principal, idempotent_answers.c.key == key)


def _row(delivery: Delivery) -> dict[str, object]:
    return {
        "id": delivery.id,
        "hook": delivery.hook,
        "entry": delivery.entry,
        "state": delivery.state,
        "due_us": delivery.due_us,
        "attempts": delivery.attempts,
        "body": encoded(delivery),
    }
