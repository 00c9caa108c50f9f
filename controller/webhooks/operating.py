"""What people see of the webhooks and ask of them: state, deliveries, a test, one more try."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from controller.store.past_port import Delivery, DeliveryState
from controller.store.port import Principal, Store, Tx
from controller.webhooks.relay import cursor_of
from controller.webhooks.settings import HookSettings, WebhookSettings, shown_url
from controller.webhooks.telling import REDELIVERED, TESTED
from signals.errors import Conflict, NotFound


class HookState(Struct, frozen=True, kw_only=True):
    """How a hook stands. ``lag``: entries of the audit that it has not been looked at for.

    ``url`` without its path, which can be a secret. ``error``: of the newest delivery that failed
    and was not taken since.
    """

    name: str
    url: str
    events: tuple[str, ...]
    targets: tuple[str, ...]
    lag: int
    waiting: int
    delivered: int
    given_up: int
    oldest_waiting_us: int | None
    error: str | None


def states(tx: Tx, settings: WebhookSettings) -> list[HookState]:
    """Every declared hook, by name."""
    return [_state(tx, name, hook) for name, hook in sorted(settings.hooks.items())]


def deliveries(
    tx: Tx,
    settings: WebhookSettings,
    hook: str,
    *,
    state: DeliveryState | None,
    before: int | None,
    limit: int,
) -> Sequence[Delivery]:
    """A page of a hook's deliveries, newest first. Raises ``NotFound`` for an undeclared hook."""
    _declared(settings, hook)
    return tx.deliveries(hook=hook, state=state, before=before, limit=limit)


def test(
    store: Store, settings: WebhookSettings, hook: str, *, by: Principal, clock: Callable[[], int]
) -> None:
    """Record that the hook is to be tested; the record is what it is sent. Raises ``NotFound``."""
    _declared(settings, hook)
    with store.write() as tx:
        tx.append_audit(
            at_us=clock(), actor=by.id, action=TESTED, subject=hook, target="", details={}
        )


def redeliver(
    store: Store,
    settings: WebhookSettings,
    hook: str,
    delivery_id: str,
    *,
    by: Principal,
    clock: Callable[[], int],
) -> Delivery:
    """Owe a delivery again, with the same id. Raises ``NotFound``, ``Conflict`` while it waits."""
    _declared(settings, hook)
    now_us = clock()
    with store.write() as tx:
        before = tx.delivery(delivery_id)
        if before.hook != hook:
            raise NotFound(f"no delivery {delivery_id} of {hook}", field="delivery_id")
        if before.state == "waiting":
            raise Conflict("it waits to be sent anyway", field="delivery_id", value=delivery_id)
        again = replace(before, state="waiting", due_us=now_us, attempts=0, created_us=now_us)
        tx.save_delivery(again)
        tx.append_audit(
            at_us=now_us,
            actor=by.id,
            action=REDELIVERED,
            subject=hook,
            target="",
            details={"entry": before.entry, "was": before.state},
        )
    return again


def _declared(settings: WebhookSettings, hook: str) -> HookSettings:
    found = settings.hooks.get(hook)
    if found is None:
        raise NotFound(
            f"no webhook {hook!r}", field="name", value=hook, allowed=sorted(settings.hooks)
        )
    return found


def _state(tx: Tx, name: str, hook: HookSettings) -> HookState:
    counts, cursor = tx.delivery_counts(name), cursor_of(tx, name)
    waiting = tx.deliveries(hook=name, state="waiting", limit=1000)
    latest = [*tx.deliveries(hook=name, limit=1), *waiting]
    return HookState(
        name=name,
        url=shown_url(hook.url),
        events=hook.events,
        targets=hook.targets,
        lag=0 if cursor is None else max(0, tx.audit_size() - 1 - cursor),
        waiting=counts.get("waiting", 0),
        delivered=counts.get("delivered", 0),
        given_up=counts.get("given_up", 0),
        oldest_waiting_us=min((each.created_us for each in waiting), default=None),
        error=next((each.error for each in latest if each.error is not None), None),
    )
