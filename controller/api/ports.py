"""What the control plane needs of the rest of the process; wired in the bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from controller.audit.desk import AuditDesk
from controller.erasing import Erasures
from controller.feedback import FeedbackOperations
from controller.fleet import Fleet
from controller.inspection import Inspection
from controller.keys import Authenticator
from controller.operations import Operations
from controller.rules.firing import Timers
from controller.settings import Settings
from controller.store.address import StoreAddress
from controller.store.port import Store
from signals.bus.port import BusStatus
from signals.features.model import Features


class Loop(Protocol):
    """What the running loop can say of itself."""

    def ready(self) -> str | None:
        """None when the loop is doing its work; else why it is not, in a few words."""

    def timers(self, target: str) -> Timers:
        """How a target's rules stood at its last step."""


class FollowedFile(Protocol):
    """The file whose rules are followed."""

    @property
    def problem(self) -> str | None:
        """Why the file as it is now is not in force; None: it is."""

    @property
    def restart(self) -> tuple[str, ...]:
        """Its settings, beside rules, that need a restart."""


class Services(Struct, frozen=True, kw_only=True):
    """Everything that routes use. ``store_file`` is read beside the store, as an auditor does.

    ``bus`` tells how each partition of the log stands; ``clock`` gives µs since the epoch.
    """

    settings: Settings
    store: Store
    store_file: StoreAddress | Path
    features: Features
    inspection: Inspection
    bus: Callable[[], Mapping[int, BusStatus]]
    operations: Operations
    feedback: FeedbackOperations
    erasures: Erasures
    authenticator: Authenticator
    loop: Loop
    fleet: Fleet
    audit: AuditDesk
    clock: Callable[[], int]
    rules: FollowedFile | None = None
