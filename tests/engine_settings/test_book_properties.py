"""The settings book under any order of patches, arrivals, holds and waiting."""

from __future__ import annotations

import itertools

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.settings_in_force import digest
from policies.laws import Law
from policies.runtime_config import SettingChange, TrialStamp
from tests.engine_settings.plant import KNOBS, Bench, at, chat_law

CAPS = st.integers(1, 64)
GAPS_S = st.floats(0.0, 30.0)
LAWS = st.builds(chat_law, CAPS, CAPS, min_dwell_s=st.floats(0.0, 5.0))


class AnyLife(RuleBasedStateMachine):
    """A model that knows only the deadline and the frozen value; the book must agree with it."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.now_s = 0.0
        self.left_s: float | None = None
        self.held = False
        self.version = 0
        self.holds_value: int | None = None

    @rule(gap_s=GAPS_S)
    def wait(self, gap_s: float) -> None:
        self.now_s += gap_s
        if self.left_s is not None and not self.held:
            self.left_s -= gap_s
        self.bench.book.pass_time(at(self.now_s))
        if self.left_s is not None and not self.held and self.left_s <= 1e-6:
            self.left_s = None
            self.version += 1

    @rule(value=st.one_of(st.none(), CAPS), expires_in_s=st.one_of(st.none(), st.floats(0.5, 60.0)))
    def set_value(self, value: int | None, expires_in_s: float | None) -> None:
        self._patch(SettingChange(knob="active_cap", value=value, expires_in_s=expires_in_s))
        assert self.bench.observed == (32 if value is None else value)

    @rule(law=LAWS, expires_in_s=st.one_of(st.none(), st.floats(0.5, 60.0)))
    def set_law(self, law: Law, expires_in_s: float | None) -> None:
        self._patch(SettingChange(knob="active_cap", law=law, expires_in_s=expires_in_s))

    @rule(tokens=st.integers(1, 1000), class_=st.sampled_from(["interactive", "batch"]))
    def arrive(self, tokens: int, class_: str) -> None:
        self.bench.meter.note(class_, tokens=tokens, now_s=self.now_s)

    @precondition(lambda self: not self.held)
    @rule()
    def hold(self) -> None:
        self.bench.book.pass_time(at(self.now_s))
        self.bench.book.apply(self.bench.patch(hold=True), at(self.now_s))
        self.version += 1
        self.held = True
        self.holds_value = self.bench.observed

    @precondition(lambda self: self.held)
    @rule()
    def release(self) -> None:
        self.bench.book.apply(self.bench.patch(hold=False), at(self.now_s))
        self.version += 1
        self.held = False
        self.holds_value = None

    @rule(block=st.integers(0, 9))
    def stamp_block(self, block: int) -> None:
        trial = TrialStamp(id="t", block=block, arm="baseline")
        before = self.bench.book.stamp.digest
        self.bench.book.apply(self.bench.patch(trial=trial), at(self.now_s))
        self.version += 1
        assert self.bench.book.stamp.digest == before

    def _patch(self, change: SettingChange) -> None:
        self.bench.book.apply(self.bench.patch(change), at(self.now_s))
        self.version += 1
        self.left_s = change.expires_in_s
        if self.held:
            self.holds_value = self.bench.observed

    @invariant()
    def version_counts_patches_and_expiries_only(self) -> None:
        if self.left_s is None or self.left_s > 1e-6:
            assert self.bench.book.stamp.version == self.version

    @invariant()
    def every_value_is_in_range(self) -> None:
        values = self.bench.book.values()
        assert all(spec.low <= values[spec.name] <= spec.capacity for spec in KNOBS)

    @invariant()
    def nothing_moves_while_held(self) -> None:
        if self.holds_value is not None:
            self.bench.book.pass_time(at(self.now_s))
            assert self.bench.observed == self.holds_value

    @invariant()
    def the_log_has_no_gap_and_ends_at_the_present(self) -> None:
        seen = self.bench.book.view(at(self.now_s))
        assert [c.seq for c in seen.changes] == list(range(seen.log_from, len(seen.changes)))
        assert [c.version for c in seen.changes] == sorted(c.version for c in seen.changes)
        moves = [c for c in seen.changes if c.knob == "active_cap"]
        assert moves[-1].after == self.bench.observed
        for before, after in itertools.pairwise(moves):
            assert after.before == before.after

    @invariant()
    def the_digest_can_be_made_again_from_what_is_shown(self) -> None:
        seen = self.bench.book.view(at(self.now_s))
        assert seen.digest == digest({s.knob: s.law or s.value for s in seen.settings})


AnyLife.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestAnyLife = AnyLife.TestCase
