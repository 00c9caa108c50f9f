"""What is owed to the outside: webhook deliveries, and the answers to idempotency keys."""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from controller.store.past_port import Answered, Delivery, DeliveryState
from controller.store.rows import Rows, bounded, decoded, encoded
from controller.store.tables import deliveries, idempotent_answers
from signals.errors import Conflict


class DeliveryRows(Rows):
    """The ``deliveries`` and ``idempotent_answers`` tables."""

    def add_delivery(self, delivery: Delivery) -> None:
        """The same id again changes nothing."""
        connection = self._for_writing()
        query = select(deliveries.c.id).where(deliveries.c.id == delivery.id)
        if connection.execute(query).one_or_none() is None:
            connection.execute(insert(deliveries).values(_row(delivery)))

    def due_deliveries(self, now_us: int, *, limit: int = 100) -> list[Delivery]:
        """The longest due first."""
        columns = deliveries.c
        query = select(columns.body).where(columns.state == "waiting", columns.due_us <= now_us)
        query = query.order_by(columns.due_us).limit(bounded(limit))
        return [decoded(body, Delivery) for body in self._connection.execute(query).scalars()]

    def deliveries(
        self, *, hook: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[Delivery]:
        """The newest entries first."""
        columns = deliveries.c
        query = select(columns.body)
        if hook is not None:
            query = query.where(columns.hook == hook)
        if state is not None:
            query = query.where(columns.state == state)
        query = query.order_by(columns.entry.desc(), columns.id).limit(bounded(limit))
        return [decoded(body, Delivery) for body in self._connection.execute(query).scalars()]

    def save_delivery(self, delivery: Delivery) -> None:
        """Replace it by its id."""
        self._replace(deliveries, _row(delivery))

    def prune_deliveries(self, before_us: int) -> int:
        """Waiting ones stay, however old."""
        columns = deliveries.c
        connection = self._for_writing()
        query = select(columns.body).where(columns.state != "waiting")
        bodies = connection.execute(query).scalars()
        found = [decoded(body, Delivery) for body in bodies]
        old = [one.id for one in found if one.created_us < before_us]
        for delivery_id in old:
            connection.execute(delete(deliveries).where(columns.id == delivery_id))
        return len(old)

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
        try:
            self._for_writing().execute(insert(idempotent_answers).values(row))
        except IntegrityError as error:
            raise Conflict("the idempotency key is in use", field="Idempotency-Key") from error

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
