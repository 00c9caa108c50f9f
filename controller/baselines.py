"""The baseline of a target: from its file at the start, or set by a person over REST.

What the file declares is owned by the file: a changed file is a new version, recorded with its
digest when ``serve`` starts. Where the file declares none, a person may set one.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.config.targets import TargetSettings
from controller.following import void_units
from controller.store.port import Tx
from policies.baseline import Baseline
from policies.settings import Setting
from signals.errors import Conflict

FILE = "file:trimtab.yaml"
"""The actor of what the configuration file declares; whoever edited it is in its own history."""


def baseline_in_force(stored: Baseline | None, target: TargetSettings) -> dict[str, Setting]:
    """By place: the version in the store, else what the file declares."""
    return target.baseline_settings() if stored is None else dict(stored.settings)


def bring_in_baseline(tx: Tx, name: str, target: TargetSettings, *, now_us: int) -> Baseline | None:
    """Put the file's baseline in force, unless it is; None where nobody declared any.

    A file that declares none any more lets go of it: the settings stay, and REST may change them.
    """
    now = tx.baseline(name)
    if not target.baseline and (now is None or now.managed_by == "api"):
        return now
    settings = target.baseline_settings() if target.baseline or now is None else now.settings
    owner, reason = ("file", "declared") if target.baseline else ("api", "let go of")
    made = tx.declare_baseline(
        Baseline(
            target=name,
            version=1 if now is None else now.version + 1,
            settings=settings,
            managed_by="file" if owner == "file" else "api",
            by=FILE,
            reason=f"{reason} by the configuration file",
            from_us=now_us,
        )
    )
    if now is not None and made.version != now.version:
        void_units(tx, name, f"{made.words} was declared", now_us=now_us)
    return made


def set_baseline(
    tx: Tx,
    name: str,
    settings: Mapping[str, Setting],
    *,
    called: str,
    reason: str,
    by: str,
    now_us: int,
    version: int | None = None,
) -> Baseline:
    """A new version, by a person. ``version``: the one he saw; None: whatever it is.

    Raises ``Conflict``: a file owns it (``managed_by``), or somebody changed it meanwhile.
    """
    now = tx.baseline(name)
    if now is not None and now.managed_by == "file":
        raise Conflict(
            f"the baseline of {name} is declared by the configuration file; change it there",
            field="managed_by",
            value="file",
        )
    last = 0 if now is None else now.version
    if version is not None and version != last:
        raise Conflict(
            f"the baseline of {name} is at version {last}",
            field="version",
            value=version,
            allowed=last,
        )
    return tx.declare_baseline(
        Baseline(
            target=name,
            version=last + 1,
            name=called,
            settings=dict(settings),
            managed_by="api",
            by=by,
            reason=reason,
            from_us=now_us,
        )
    )
