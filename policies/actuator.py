"""The port through which settings reach a running engine. Adapters live on floor 2."""

from __future__ import annotations

from typing import Protocol

from policies.runtime_config import Patch, RuntimeConfig


class Actuator(Protocol):
    """One engine (replica) whose settings can be read and changed while it runs.

    Both calls raise ``Unavailable`` when the engine does not answer in time. For ``patch`` that
    means *unknown*: it may have been applied, so read back before you decide anything. Sending the
    same patch again is always safe: a repeated ``change_id`` gets the first answer.
    """

    def read(self, *, after_seq: int = -1) -> RuntimeConfig:
        """What is in force now, and the changes above ``after_seq`` that the engine still holds."""

    def patch(self, patch: Patch) -> RuntimeConfig:
        """Apply all of it or nothing; the answer shows the values observed after application.

        Raises ``Conflict`` (``field`` is ``"epoch"`` when fenced by a higher one, ``"expected"``
        when the engine has moved on, ``"change_id"`` when that id named another change) and
        ``Rejected`` (out of range, unknown knob or scope, bad law or expiry; ``field``, ``value``
        and ``allowed`` say which).
        """
