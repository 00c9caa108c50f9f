"""Operators, the loop, crashes and dying engines in any order, held against the model.

The store, the loop, the latch and the engine's settings are real; time is passed in. After every
rule, the audit has grown by exactly what the model says, and store, latch and model agree. An act
that the model refuses is refused, and nothing whatever has changed. When nobody acts, the engine
comes to have what the model folds; in the end everything comes to its end and the audit verifies.
"""

from __future__ import annotations

from typing import Literal, get_args

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controller.latch import Latch
from controller.override_acts import OverrideRequest
from policies.overrides import OverrideKind
from policies.settings import Setting
from tests.races.comparing import CAP, MOST_OPEN, PEOPLE, TARGET, VERBS, Both, Verb
from tests.races.model import LAYERED

Other = Literal["release", "baseline"]
OTHERS: tuple[Other, ...] = get_args(Other)

who = st.sampled_from(sorted(PEOPLE))
which = st.integers(0, 1_000)
caps = st.sampled_from((2, 4, 16, 32))


class Races(Both, RuleBasedStateMachine):
    """One target and three people."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    # -- people ----------------------------------------------------------------------------

    @rule(by=who, value=caps)
    def propose(self, by: str, value: int) -> None:
        self.proposed(PEOPLE[by], value)

    @rule(by=who, value=caps, to_the_end=st.booleans())
    def propose_and_have_it_tried(self, by: str, value: int, to_the_end: bool) -> None:
        made = self.proposed(PEOPLE[by], value)
        for name, other in PEOPLE.items():
            if made is not None and name != by:
                self.say_yes(self.model.policies[made.id], other)
        self.time_passes(3)
        if to_the_end and self.model.control == "free":
            self.try_to_the_end()

    @precondition(lambda self: self.model.has("pending"))
    @rule(by=who, of=which, honest=st.integers(0, 5))
    def approve(self, by: str, of: int, honest: int) -> None:
        known = self.chosen(of, "pending")
        self.say_yes(known, PEOPLE[by], digest=None if honest else "0" * 16)

    @precondition(lambda self: self.model.has("pending"))
    @rule(by=who, of=which)
    def reject(self, by: str, of: int) -> None:
        self.try_out("reject", self.chosen(of, "pending"), PEOPLE[by])

    @precondition(lambda self: self.model.has(*LAYERED))
    @rule(by=who, of=which)
    def revert(self, by: str, of: int) -> None:
        self.try_out("revert", self.chosen(of, *LAYERED), PEOPLE[by])

    @precondition(lambda self: self.model.has("on_trial"))
    @rule(by=who)
    def pause(self, by: str) -> None:
        self.try_out("pause", self.chosen(0, "on_trial"), PEOPLE[by])

    @precondition(lambda self: self.model.has("paused"))
    @rule(by=who)
    def resume(self, by: str) -> None:
        self.try_out("resume", self.chosen(0, "paused"), PEOPLE[by])

    @rule(by=who, verb=st.sampled_from(("hold", "kill")))
    def latch(self, by: str, verb: Literal["hold", "kill"]) -> None:
        self.world.now_s += 0.001
        self.act(
            lambda: getattr(self.model, verb)(PEOPLE[by]),
            lambda: getattr(self.world.operations, verb)(TARGET, self.reason(), by=PEOPLE[by]),
        )

    @precondition(lambda self: self.model.control != "free")
    @rule(by=who)
    def release(self, by: str) -> None:
        self.try_release(PEOPLE[by])

    @precondition(lambda self: self.model.policies)
    @rule(by=who, of=which, verb=st.sampled_from((*VERBS, *OTHERS)))
    def whatever_it_is(self, by: str, of: int, verb: Verb | Other) -> None:
        """An act on whatever there is, whether it makes sense or not."""
        if verb == "release":
            self.try_release(PEOPLE[by])
            return
        if verb == "baseline":
            self.change_the_baseline_that_a_file_owns(PEOPLE[by])
            return
        policies = list(self.model.policies.values())
        self.try_out(verb, policies[of % len(policies)], PEOPLE[by])

    @rule(by=who, kind=st.sampled_from(get_args(OverrideKind)), value=caps, long=st.booleans())
    def set_over(self, by: str, kind: OverrideKind, value: int, long: bool) -> None:
        wanted = OverrideRequest(
            target=TARGET,
            kind=kind,
            knob=CAP,
            setting=None if kind == "freeze" else Setting(value=value),
            reason=self.reason(),
            expires_in_s=60.0 if long else 2.0,
        )
        person = PEOPLE[by]
        made = self.act(
            lambda: self.model.override(kind, CAP, person),
            lambda: self.world.operations.override(wanted, by=person),
            more=lambda one: [(person.id, "override.set", one.id)],
        )
        if made is not None:
            self.model.overrides[made.id] = made

    @precondition(lambda self: self.model.overrides)
    @rule(by=who, of=which)
    def unset(self, by: str, of: int) -> None:
        found = list(self.model.overrides.values())
        one, person = found[of % len(found)], PEOPLE[by]
        self.act(
            lambda: self.model.unset(one, person),
            lambda: self.world.operations.end_override(one.id, self.reason(), by=person),
        )

    @precondition(lambda self: len(self.model.changes) < MOST_OPEN)
    @rule(by=who, duration_s=st.sampled_from((None, 1, 3)))
    def declare_a_change(self, by: str, duration_s: int | None) -> None:
        made = self.world.operations.declare_change(
            TARGET, "deploy", self.reason(), by=PEOPLE[by], duration_s=duration_s
        )
        self.model.changes[made.id] = made
        self.heard_only([(PEOPLE[by].id, "change.declared", made.id)])

    @precondition(lambda self: self.model.changes)
    @rule(by=who, of=which)
    def end_a_change(self, by: str, of: int) -> None:
        found = list(self.model.changes.values())
        self.end_change(found[of % len(found)].id, PEOPLE[by])

    # -- everything else -------------------------------------------------------------------

    @rule(ticks=st.integers(1, 12))
    def time_passes(self, ticks: int) -> None:
        self.world.run(ticks / 10)
        self.follow()

    @rule()
    def nobody_acts(self) -> None:
        """The engine comes to have what it should; a moment later where something just expired."""
        if not self.quiet():
            assert self.quiet(), f"the engine has {self.world.cap()}"

    @rule(what=st.sampled_from(("serve", "engine")))
    def something_is_killed(self, what: str) -> None:
        """Nothing is closed or said; whatever was in memory is gone."""
        if what == "serve":
            self.world.store.close()
            self.world.start_controller()
        else:
            self.world.engine.die()
        self.world.run(0.1)
        self.follow()

    # -- what must hold --------------------------------------------------------------------

    @invariant()
    def store_latch_and_model_agree(self) -> None:
        with self.world.store.read() as tx:
            stored = {one.id: one.state for one in tx.policies(target=TARGET, limit=1000)}
            active = {one.id for one in tx.overrides(target=TARGET, state="active")}
            control = tx.control(TARGET)
        assert stored == {known.id: known.state for known in self.model.policies.values()}
        assert active == set(self.model.overrides)
        said = "held" if control.hold else "killed" if control.killed else "free"
        latched = Latch(self.folder / "latch.json").read().get(TARGET)
        assert said == self.model.control == ("free" if latched is None else latched.state)

    def teardown(self) -> None:
        """See ``Both.end``."""
        self.end()
