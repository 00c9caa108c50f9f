"""A person sets the baseline of a target, where no file declares it."""

from __future__ import annotations

from collections.abc import Mapping

from controller.baselines import set_baseline
from controller.detaching import DetachOperations
from controller.following import said, void_units
from controller.spec_checks import check_setting
from controller.store.port import Principal
from policies.baseline import Baseline
from policies.settings import Setting, split


class BaselineOperations(DetachOperations):
    """Baselines, beside detaching."""

    def set_baseline(
        self,
        target: str,
        settings: Mapping[str, Setting],
        *,
        called: str,
        reason: str,
        by: Principal,
    ) -> Baseline:
        """The next version; by place. Raises ``Rejected``, ``Conflict`` where a file owns it."""
        self.target(target)
        for at, setting in settings.items():
            knob, scope = split(at)
            spec = self._spec(target, knob)
            spec.check_scope(scope, field=f"settings.{at}")
            check_setting(spec, setting, at=f"settings.{at}.")
        now_us = self._clock()
        with self._store.write() as tx:
            before = tx.baseline(target)
            made = set_baseline(
                tx, target, settings, called=called, reason=said(reason), by=by.id, now_us=now_us
            )
            if before is None or made.version != before.version:
                void_units(tx, target, f"{made.words} was declared", now_us=now_us)
        self._wake()
        return made
