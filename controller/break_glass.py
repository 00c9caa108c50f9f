"""Hold, kill, release without the control plane: latch, then PATCH, with files and engines only.

For when ``serve`` or its store is what is broken. Addresses come from the configuration, the key
from ``keys/control.key``: whoever can read that file may do this. The latch stands until a release;
a running loop reads it before every PATCH, and the store follows it.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final, Literal

from controller.act_journal import ActKind
from controller.bounded import Bounded
from controller.control import OURS, ControlOperations, ControlReport
from controller.fleet import Fleet, Replica, monotonic_s
from controller.following import said
from controller.keys import wall_us
from controller.latch import Latch, Latched, LatchState
from controller.layout import Layout
from controller.processes.addresses import control_urls
from controller.processes.secret_files import read_secret
from controller.rules.firing import Rules
from controller.settings import Settings
from controller.state import BREAK_GLASS, Declared
from controller.store.port import Principal, Tx
from controller.store.sql import SqlReader
from engine.adapters.http import HttpActuator
from signals.errors import Conflict, NotFound, Rejected, TrimtabError, Unavailable

Verb = Literal["hold", "kill", "release"]

STATES: Final[dict[Verb, LatchState]] = {
    "hold": "held",
    "kill": "killed",
    "release": "released",
}


class ReadOnlyStore:
    """A store that is read if it can be and never written: ``serve`` is its one writer."""

    def __init__(self, reader: SqlReader) -> None:
        self._reader = reader
        self.read = reader.read
        self.close = reader.close

    @property
    def writes(self) -> int:
        """None of its own."""
        return 0

    def write(self) -> AbstractContextManager[Tx]:
        """Never. Raises ``Unavailable``."""
        raise Unavailable("only serve writes the store")


def act(settings: Settings, targets: Sequence[str], verb: Verb, reason: str) -> list[ControlReport]:
    """Latch and reach every replica; the reports list those that were not. Raises ``Rejected``.

    Detached targets are left out, as by the control plane; ``Conflict`` where no other is named.
    Who did it, why, and what was read back where goes into a file beside the latch, which the loop
    puts into the audit when the store is back.
    """
    for target in targets:
        _known(settings, target)
    layout = Layout(settings.state_dir)
    latch, by = Latch(layout.latch), _who()
    change = Latched(state=STATES[verb], actor=by.id, reason=said(reason), since_us=wall_us())
    chosen = [target for target in targets if latch.set(target, change, over=OURS)]
    if not chosen:
        raise Conflict("detached: nothing is sent there until it is attached", field="target")
    with ExitStack() as stack:
        store = ReadOnlyStore(SqlReader(settings.store.address(layout.store_db), settings.store))
        stack.callback(store.close)
        replicas = _replicas(settings, chosen, store, stack)
        fleet = Fleet(
            replicas,
            latch,
            deadline_s=settings.control.deadline_ms / 1000,
            threads=settings.control.threads,
        )
        stack.callback(fleet.close)
        operations = BreakGlass(
            store,
            fleet,
            {name: _declared(settings, name) for name in chosen},
            clock=wall_us,
            mono=monotonic_s,
            wake=lambda: None,
        )
        return operations.carry_out(chosen, change, by)


class BreakGlass(ControlOperations):
    """The same acts, told apart in the audit."""

    act_kind: ActKind = "control.break_glass"


def _known(settings: Settings, target: str) -> None:
    if target not in settings.targets:
        known = sorted(settings.targets)
        raise NotFound(f"no target {target!r}", field="target", value=target, allowed=known)


def _declared(settings: Settings, target: str) -> Declared:
    return Declared(
        name=target,
        target=settings.targets[target],
        rules=Rules(),
        trial=settings.trial,
        guardrails=settings.guardrails,
        serve=settings.serve,
        plant=settings.plant,
        control=settings.control,
    )


def _who() -> Principal:
    """Whoever acts; containers run people without a name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        name = f"uid{os.getuid()}"
    return Principal(id=f"break-glass:{name}", name=name, role="operator")


def _replicas(
    settings: Settings, targets: Sequence[str], store: ReadOnlyStore, stack: ExitStack
) -> dict[str, list[Replica]]:
    """By target. A person acts beside the controller, not above it: whatever epoch is in force."""
    key_file = Layout(settings.state_dir).key("control")
    try:
        key = read_secret(key_file)
    except OSError as error:
        raise Rejected(f"no control key at {key_file}: {error.strerror}") from error
    ours = _ours(store, within_s=settings.control.store_ms / 1000)
    timeout_s = min(settings.serve.actuator_timeout_ms, settings.control.deadline_ms) / 1000
    found: dict[str, list[Replica]] = {}
    for target in targets:
        for url in control_urls(settings, settings.targets[target]):
            actuator = HttpActuator(url, key, timeout_s=timeout_s)
            stack.callback(actuator.close)
            replica = Replica(url, actuator, ours=ours, epoch=None, mono=monotonic_s)
            found.setdefault(target, []).append(replica)
    return found


def _ours(store: ReadOnlyStore, *, within_s: float) -> str:
    """How the controller's change ids begin, so that the loop knows this for no stranger's."""

    def noted() -> str | None:
        with store.read() as tx:
            return tx.note("controller")

    asked: Bounded[str | None] = Bounded("reading the store")
    try:
        begins = asked.ask(noted, within_s=within_s)
    except TrimtabError:
        begins = None
    return f"{begins or ''}{BREAK_GLASS}{wall_us()}."
