"""What people say, as the store keeps it: overrides, declared changes, baselines. Owned by users.

Each write is one audit entry in the same transaction, and the entry binds the row: it holds the
digest of the row's body (``content``), so the verifier finds a row that was altered beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from policies.baseline import Baseline
from policies.changes import DeclaredChange
from policies.overrides import Override, OverrideState


class OverrideTx(Protocol):
    """The ``overrides`` table."""

    def override(self, override_id: str) -> Override:
        """Raises ``NotFound``."""

    def overrides(
        self,
        *,
        target: str | None = None,
        state: OverrideState | None = None,
        before: str | None = None,
        limit: int = 200,
    ) -> list[Override]:
        """Newest first; ``before`` is the last id of the page before."""

    def add_override(self, override: Override) -> Override:
        """Insert an active one; audit entry ``override.set``. Raises ``Conflict``: id taken."""

    def end_override(self, override: Override, *, cause: str, actor: str, at_us: int) -> Override:
        """Compare-and-set on ``rev``; audit entry ``override.ended``. Raises ``Conflict``."""


class ChangeTx(Protocol):
    """The ``declared_changes`` table."""

    def declared_change(self, change_id: str) -> DeclaredChange:
        """Raises ``NotFound``."""

    def declared_changes(
        self,
        *,
        target: str | None = None,
        from_us: int | None = None,
        to_us: int | None = None,
        before: str | None = None,
        limit: int = 200,
    ) -> list[DeclaredChange]:
        """Newest first, of those that overlap [from_us, to_us)."""

    def add_declared_change(self, change: DeclaredChange, *, at_us: int) -> DeclaredChange:
        """Audit entry ``change.declared``, by ``change.by``."""

    def end_declared_change(self, change_id: str, *, actor: str, at_us: int) -> DeclaredChange:
        """Audit entry ``change.ended``. Raises ``NotFound``, ``Conflict`` when it is over."""


class BaselineTx(Protocol):
    """The ``baselines`` table."""

    def baseline(self, target: str) -> Baseline | None:
        """The version in force; None before any was declared."""

    def baselines(self, target: str) -> Sequence[Baseline]:
        """Every version, oldest first."""

    def declare_baseline(self, baseline: Baseline) -> Baseline:
        """Audit entry ``baseline.declared``. ``version`` must follow the last: else ``Conflict``.

        Settings that are in force already are answered as they are, without a new version.
        """
