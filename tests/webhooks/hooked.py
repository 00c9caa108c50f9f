"""What the tests of webhooks share: acts that are recorded, and hooks that are told of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from controller.keys import wall_us
from controller.settings import Settings
from controller.store.past_port import Delivery
from controller.store.port import Principal
from controller.store.sql import SqlStore
from controller.webhooks.operating import HookState, states
from controller.webhooks.posting import read_secrets
from controller.webhooks.running import secret_file, webhooks_running
from controller.webhooks.signing import new_secret
from tests.cli.running import until
from tests.webhooks.receiving import Receiver, receiving

ADA = Principal(id="key_ada", name="ada", role="operator")
QUICK: dict[str, Any] = {"poll_ms": 10, "backoff_s": 0.02, "backoff_max_s": 0.1, "timeout_s": 2.0}


class Hooked:
    """A store, and its webhooks; they run inside ``running``."""

    def __init__(self, folder: Path, store: SqlStore, stack: ExitStack) -> None:
        self.folder = folder
        self.store = store
        self._stack = stack
        self._hooks: dict[str, dict[str, Any]] = {}
        self._bounds: dict[str, Any] = dict(QUICK)

    def receiver(self, name: str, *events: str, **more: Any) -> Receiver:
        """A receiver that is told of these events."""
        found = self._stack.enter_context(receiving())
        self.declare(name, found.url, *events, **more)
        return found

    def declare(self, name: str, url: str, *events: str, **more: Any) -> None:
        """A hook, wherever it leads."""
        self._hooks[name] = {"url": url, "events": events or ("*",), **more}
        path = secret_file(self.settings, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(new_secret(name.encode().ljust(32, b".")) + "\n")

    def bound(self, **bounds: Any) -> None:
        """Other bounds than the quick ones."""
        self._bounds |= bounds

    @property
    def settings(self) -> Settings:
        hooks = {"hooks": self._hooks, **self._bounds}
        return Settings.model_validate({"state_dir": self.folder, "webhooks": hooks})

    def secrets(self, name: str) -> tuple[bytes, ...]:
        return read_secrets(secret_file(self.settings, name))

    @contextmanager
    def running(self) -> Iterator[None]:
        """As serve runs them; every hook has begun when this is entered."""
        with webhooks_running(self.settings, self.store, threading.Event(), clock=wall_us):
            until(lambda: all(self._begun(name) for name in self._hooks), "every hook begins")
            yield

    def act(self, action: str = "mode.set", target: str = "chat", **details: Any) -> None:
        """Something is recorded."""
        with self.store.write() as tx:
            tx.append_audit(
                at_us=wall_us(),
                actor="key_ada",
                action=action,
                subject="active_cap",
                target=target,
                details=details,
            )

    def state(self, name: str) -> HookState:
        with self.store.read() as tx:
            return next(one for one in states(tx, self.settings.webhooks) if one.name == name)

    def deliveries(self, name: str) -> list[Delivery]:
        """Oldest first."""
        with self.store.read() as tx:
            return tx.deliveries(hook=name, limit=1000)[::-1]

    def actions(self) -> list[str]:
        with self.store.read() as tx:
            return [entry.action for entry in tx.audit()]

    def settled(self, name: str, state: str, count: int) -> None:
        """Wait until so many deliveries stand so."""
        until(
            lambda: sum(one.state == state for one in self.deliveries(name)) >= count,
            f"{count} deliveries of {name} are {state}",
        )

    def _begun(self, name: str) -> bool:
        with self.store.read() as tx:
            return tx.note(f"webhooks:{name}") is not None
