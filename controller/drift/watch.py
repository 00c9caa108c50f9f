"""One figure watched for drift, block by block: its residual given the context, and two detectors.

::

    (context, figure) ──► residual ──► Page–Hinkley ─┐
                                  └──► two windows ──┴─► drifted: one of them ──► no trial starts

A trial compares arms under one engine; while the engine itself changes, neither arm is what the
plan was frozen for. An alarm only keeps trials from starting: it is no verdict and changes no
setting.

>>> watch = Watch(figure="ttft:live")
>>> for block in range(60):
...     watch = watch.update((1.0 + block % 7,), 2.0 * (block % 7) + 0.1 * (-1) ** (block % 3))
>>> watch.why_not()
''
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import msgspec
from msgspec import Struct

from controller.drift.context import ContextResidual
from controller.drift.page_hinkley import PageHinkley
from controller.drift.port import Detector
from controller.drift.two_window import TwoWindow

LAST = 5
"""Blocks that the figure of an alarm is of."""


class Watch(Struct, frozen=True, kw_only=True):
    """A figure's model and detectors. ``figure`` names it in words, such as ``ttft:live``."""

    figure: str
    model: ContextResidual = ContextResidual()
    page_hinkley: PageHinkley = PageHinkley()
    two_window: TwoWindow = TwoWindow()

    def update(self, context: Sequence[float], y: float) -> Self:
        """After one more block: its exogenous context and the figure (log latency, a rate)."""
        model, x = self.model.update(context, y)
        if x is None:
            return msgspec.structs.replace(self, model=model)
        return msgspec.structs.replace(
            self,
            model=model,
            page_hinkley=self.page_hinkley.update(x),
            two_window=self.two_window.update(x),
        )

    @property
    def off(self) -> float:
        """By how many deviations the last blocks are off what their load explains, on average."""
        last = self.two_window.values[-LAST:]
        return sum(last) / len(last) if last else 0.0

    def why_not(self) -> str:
        """Why no trial may start, in words; empty while nothing drifts."""
        named: dict[str, Detector] = {
            "Page–Hinkley": self.page_hinkley,
            "two windows": self.two_window,
        }
        found = [name for name, detector in named.items() if detector.drifted]
        if not found:
            return ""
        return (
            f"{self.figure} is not what its load explains ({' and '.join(found)}, over "
            f"{self.model.n} blocks): the engine has changed"
        )


def start_blocked(watches: Iterable[Watch]) -> str:
    """The first reason why no trial may start on a target, by its watched figures; or none."""
    return next(filter(None, (watch.why_not() for watch in watches)), "")
