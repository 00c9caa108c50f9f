"""A law at work: its definition, where it stands, and what it reads."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from policies import laws
from policies.laws import Law, LawState, Variable


class Variables(Protocol):
    """Where laws read their exogenous variable."""

    def read(
        self, variable: Variable, class_: str | None, *, window_s: float, now_s: float
    ) -> float:
        """The variable over the last ``window_s`` seconds."""


class RunningLaw(Struct, frozen=True, kw_only=True):
    """A law and its state. ``advance`` answers the same object when nothing moved."""

    law: Law
    state: LawState

    @property
    def value(self) -> int:
        """The knob's value in force."""
        return self.state.value

    def advance(self, variables: Variables, *, now_s: float) -> RunningLaw:
        """The law after one look at its variable."""
        x = variables.read(
            self.law.variable, self.law.class_, window_s=self.law.window_s, now_s=now_s
        )
        state = laws.advance(self.law, self.state, x=x, now_s=now_s)
        return self if state is self.state else RunningLaw(law=self.law, state=state)


def begin(law: Law, before: RunningLaw | None, variables: Variables, *, now_s: float) -> RunningLaw:
    """Put a law in force: it looks at once, so the first value is already the right one.

    A law that is set again unchanged goes on where it stood, with its hysteresis and its dwell.
    """
    running = before
    if running is None or running.law != law:
        running = RunningLaw(law=law, state=laws.start(law, now_s=now_s))
    return running.advance(variables, now_s=now_s)
