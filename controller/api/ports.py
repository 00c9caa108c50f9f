"""What the control plane needs of the rest of the process; wired in the bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from controller.fleet import Fleet
from controller.keys import Authenticator
from controller.operations import Operations
from controller.settings import Settings
from controller.store.port import Store
from signals.features.batch import DeadLetter
from signals.features.model import Features


class Loop(Protocol):
    """What the running loop can say of itself."""

    def ready(self) -> str | None:
        """None when the loop is doing its work; else why it is not, in a few words."""


class DeadLetters(Protocol):
    """Signals that were accepted and then could not be used."""

    def dead_letters(self, *, after: int = 0, limit: int = 100) -> Sequence[DeadLetter]:
        """By bus offset, those above ``after``."""


class Services(Struct, frozen=True, kw_only=True):
    """Everything that routes use. ``store_file`` is read beside the store, as an auditor does.

    ``clock`` gives µs since the epoch.
    """

    settings: Settings
    store: Store
    store_file: Path
    features: Features
    dead_letters: DeadLetters
    operations: Operations
    authenticator: Authenticator
    loop: Loop
    fleet: Fleet
    clock: Callable[[], int]
