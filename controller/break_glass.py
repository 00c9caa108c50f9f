"""Hold and kill without the control plane: latch, then PATCH, with nothing but files and engines.

For when ``serve`` or its store is what is broken. Addresses come from the configuration, the key
from ``keys/control.key``: whoever can read that file may do this. The latch stands until
``trimtab release``; a running loop reads it before every PATCH, and the store follows it.
"""

from __future__ import annotations

import getpass
import os
from contextlib import AbstractContextManager, ExitStack
from typing import Final, Literal

from controller.control import ControlReport, said
from controller.fleet import Fleet, Replica, monotonic_s
from controller.keys import wall_us
from controller.latch import Latch, Latched, LatchState
from controller.layout import Layout
from controller.operations import Operations
from controller.processes.addresses import control_urls
from controller.processes.secret_files import read_secret
from controller.rules.firing import Rules
from controller.settings import Settings
from controller.state import Declared
from controller.store.port import Principal, Tx
from controller.store.sql import SqlReader
from engine.adapters.http import HttpActuator
from signals.errors import NotFound, Rejected, TrimtabError, Unavailable

Verb = Literal["hold", "kill"]

NOT_OURS = "break-glass."
"""Begins change ids when the store can't say how the controller's own begin."""
STATES: Final[dict[Verb, LatchState]] = {"hold": "held", "kill": "killed"}


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


def act(settings: Settings, target: str, verb: Verb, reason: str) -> ControlReport:
    """Latch and reach every replica; the report lists those that were not. Raises ``Rejected``."""
    aim = settings.targets.get(target)
    if aim is None:
        known = sorted(settings.targets)
        raise NotFound(f"no target {target!r}", field="target", value=target, allowed=known)
    layout = Layout(settings.state_dir)
    latch, name = Latch(layout.latch), _who()
    by = Principal(id=f"break-glass:{name}", name=name, role="operator")
    latched = Latched(state=STATES[verb], actor=by.id, reason=said(reason), since_us=wall_us())
    latch.set(target, latched)
    declared = Declared(
        name=target,
        target=aim,
        rules=Rules(),
        trial=settings.trial,
        guardrails=settings.guardrails,
        serve=settings.serve,
        plant=settings.plant,
    )
    with ExitStack() as stack:
        store = ReadOnlyStore(SqlReader(layout.store_db, settings.store))
        stack.callback(store.close)
        fleet = Fleet({target: _replicas(settings, target, store, stack)}, latch)
        operations = Operations(
            store,
            fleet,
            {target: declared},
            clock=wall_us,
            mono=monotonic_s,
            wake=lambda: None,
        )
        return operations.carry_out(target, latched, by)


def _who() -> str:
    """The name of whoever acts; containers run people without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"uid{os.getuid()}"


def _replicas(
    settings: Settings, target: str, store: ReadOnlyStore, stack: ExitStack
) -> list[Replica]:
    key_file = Layout(settings.state_dir).key("control")
    try:
        key = read_secret(key_file)
    except OSError as error:
        raise Rejected(f"no control key at {key_file}: {error.strerror}") from error
    ours, timeout_s = _ours(store), settings.serve.actuator_timeout_ms / 1000
    found = []
    for url in control_urls(settings, settings.targets[target]):
        actuator = HttpActuator(url, key, timeout_s=timeout_s)
        stack.callback(actuator.close)
        epoch = _epoch(actuator)
        found.append(Replica(url, actuator, ours=ours, epoch=epoch, mono=monotonic_s))
    return found


def _epoch(actuator: HttpActuator) -> int:
    """The epoch that the engine accepts now: a person acts beside the controller, not above it."""
    try:
        return actuator.read().epoch
    except TrimtabError:
        return 0


def _ours(store: ReadOnlyStore) -> str:
    """How the controller's change ids begin, so that the loop knows this for no stranger's."""
    try:
        with store.read() as tx:
            return (tx.note("controller") or NOT_OURS) + f"break-glass.{wall_us()}."
    except TrimtabError:
        return NOT_OURS + f"{wall_us()}."
