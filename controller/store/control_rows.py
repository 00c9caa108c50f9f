"""What people said of a target, what others changed, and small named values."""

from __future__ import annotations

from sqlalchemy import delete, select

from controller.store.port import Control, Foreign
from controller.store.rows import Rows, decoded, encoded
from controller.store.tables import controls, foreign_changes, modes, notes
from policies.policy import Mode


class ControlRows(Rows):
    """The ``controls``, ``modes``, ``foreign_changes`` and ``notes`` tables."""

    def control(self, target: str) -> Control:
        """Defaults when nothing was ever said."""
        query = select(controls.c.body).where(controls.c.target == target)
        body = self._connection.execute(query).scalar_one_or_none()
        return Control(target=target) if body is None else decoded(body, Control)

    def set_control(self, control: Control) -> None:
        """Replace it."""
        self._replace(controls, {"target": control.target, "body": encoded(control)})

    def modes(self, target: str) -> dict[str, Mode]:
        """By knob, in the knobs' order."""
        query = select(modes.c.knob, modes.c.mode).where(modes.c.target == target)
        rows = self._connection.execute(query.order_by(modes.c.knob))
        return {row.knob: row.mode for row in rows}

    def set_mode(self, target: str, knob: str, mode: Mode) -> None:
        """Replace it."""
        self._replace(modes, {"target": target, "knob": knob, "mode": mode})

    def foreign(self, target: str) -> list[Foreign]:
        """By knob."""
        query = select(foreign_changes.c.body).where(foreign_changes.c.target == target)
        bodies = self._connection.execute(query.order_by(foreign_changes.c.knob)).scalars()
        return [decoded(body, Foreign) for body in bodies]

    def set_foreign(self, foreign: Foreign) -> None:
        """Insert or replace."""
        row = {"target": foreign.target, "knob": foreign.knob, "body": encoded(foreign)}
        self._replace(foreign_changes, row)

    def clear_foreign(self, target: str, knob: str) -> None:
        """Forget it; nothing happens where there is none."""
        same = (foreign_changes.c.target == target, foreign_changes.c.knob == knob)
        self._for_writing().execute(delete(foreign_changes).where(*same))

    def note(self, key: str) -> str | None:
        """None when absent."""
        query = select(notes.c.value).where(notes.c.key == key)
        return self._connection.execute(query).scalar_one_or_none()

    def set_note(self, key: str, value: str) -> None:
        """Insert or replace."""
        self._replace(notes, {"key": key, "value": value})
