"""Acts on engines that the store has not heard of yet: one small file each, until it has.

For holds and kills past the control plane, and for those that came while the store did not answer.
The loop reads them into the audit when the store is back, each once: its id is noted there in the
same transaction, so a crash between that and the removal of the file repeats nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from controller.latch import Latched
from controller.store.port import Tx
from signals.errors import Broken

AT_ONCE = 100
"""Files read in one transaction; more follow in the next."""

ActKind = Literal["control.reached", "control.break_glass"]


class Act(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody did to a target's engines, and what became of it at each replica.

    ``latched`` None: a release. ``replicas``: name -> what was read back there.
    """

    id: str
    kind: ActKind
    target: str
    by: str
    at_us: int
    verb: str
    reason: str
    latched: Latched | None
    replicas: dict[str, str]
    took_ms: float


class ActJournal:
    """A folder of acts; made with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, act: Act) -> None:
        """Durable when this returns."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._folder / f"{act.id}.part"
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(act))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path(act))

    def pending(self, target: str) -> list[Act]:
        """Those of a target that wait, the oldest first. Raises ``Broken`` for a damaged one."""
        found = sorted(self._folder.glob(f"{target}.*.json"))[:AT_ONCE]
        return [_decoded(path) for path in found]

    def forget(self, act: Act) -> None:
        """It is in the audit."""
        self._path(act).unlink(missing_ok=True)

    def _path(self, act: Act) -> Path:
        return self._folder / f"{act.id}.json"


def record(tx: Tx, act: Act) -> None:
    """Put an act into the audit, unless it is there."""
    if tx.note(f"act:{act.id}") is not None:
        return
    details: dict[str, Any] = {
        "verb": act.verb,
        "reason": act.reason,
        "replicas": act.replicas,
        "took_ms": act.took_ms,
    }
    tx.set_note(f"act:{act.id}", str(act.at_us))
    tx.append_audit(
        at_us=act.at_us,
        actor=act.by,
        action=act.kind,
        subject=act.target,
        target=act.target,
        details=details,
    )


def act_id(target: str, at_us: int) -> str:
    """Sorts by time within a target; the process makes it one of its own."""
    return f"{target}.{at_us:017d}.{os.getpid()}"


def _decoded(path: Path) -> Act:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Act)
    except msgspec.MsgspecError as error:
        raise Broken(f"{path.name} in the journal of acts is damaged: {error}") from error
