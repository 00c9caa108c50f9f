"""Operators, the loop, crashes and dying engines in any order, held against the model.

The store, the loop, the latch and the engine's settings are real; time is passed in. After every
rule, the audit has grown by exactly what the model says, and store, latch and model agree. An act
that the model refuses is refused, and nothing whatever has changed. When nobody acts, the engine
comes to have what the model folds; in the end everything comes to its end and the audit verifies.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controller.audit.verify import verify
from controller.latch import Latch
from controller.override_acts import OverrideRequest
from controller.store.address import StoreAddress
from controller.store.port import Principal, Tx
from policies.audit import Entry
from policies.lifecycle import State
from policies.overrides import OverrideKind
from policies.policy import Policy
from policies.settings import Setting
from signals.errors import Conflict, Rejected
from tests.loop.cases import anything
from tests.loop.world import World
from tests.races.model import LAYERED, Known, Model, Written

TARGET: Final = "chat"
PEOPLE: Final = {
    "ada": Principal(id="key_ada", name="ada", role="operator"),
    "bob": Principal(id="key_bob", name="bob", role="operator"),
    "eve": Principal(id="key_eve", name="eve", role="approver"),
}
CHIEF: Final = Principal(id="key_chief", name="chief", role="admin")
COUNTED: Final = (
    "policy.",
    "override.",
    "change.",
    "baseline.",
    "mode.set",
    "control.held",
    "control.killed",
    "control.released",
)
"""Actions that the model predicts. Beside them are the loop's facts and what was reached where."""
CAP: Final = "active_cap"
ENDS: Final[dict[State, Literal["reject", "revert"]]] = {
    "pending": "reject",
    "on_trial": "revert",
    "paused": "revert",
    "in_force": "revert",
    "kept": "revert",
}
QUICK: Final[dict[str, Any]] = {
    "block_s": 2.0,
    "washout_s": 0.2,
    "min_requests": 1,
    "alpha": 0.2,
    "max_units": 8,
}
QUIET_S, TRIAL_S, SETTLES_S = 1.0, 60.0, 40.0
MOST_OPEN = 6

Verb = Literal["approve", "reject", "revert", "pause", "resume"]
VERBS: tuple[Verb, ...] = get_args(Verb)

who = st.sampled_from(sorted(PEOPLE))
which = st.integers(0, 1_000)
caps = st.sampled_from((2, 4, 16, 32))


class Races(RuleBasedStateMachine):
    """One target and three people. ``make_store``: an empty database; None: a SQLite file."""

    make_store: ClassVar[Callable[[], StoreAddress] | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="trimtab-machine-"))
        make = type(self).make_store
        store = None if make is None else make()
        self.world = World(self.folder, quality=anything, store=store, **QUICK)
        self.world.declared = msgspec.structs.replace(
            self.world.declared,
            guardrails=self.world.declared.guardrails.model_copy(update={"settle_s": 1}),
        )
        self.world.start_controller()
        self.world.traffic = False
        self.model = Model(TARGET, baseline={CAP: Setting(value=8)})
        self.heard = -1
        self.reasons = 0
        self.world.run(QUIET_S)
        self.follow()

    # -- people ----------------------------------------------------------------------------

    @rule(by=who, value=caps)
    def propose(self, by: str, value: int) -> None:
        self.proposed(PEOPLE[by], value)

    @rule(by=who, value=caps)
    def propose_and_have_it_tried(self, by: str, value: int) -> None:
        made = self.proposed(PEOPLE[by], value)
        for name, other in PEOPLE.items():
            if made is not None and name != by:
                self.say_yes(self.model.policies[made.id], other)
        self.time_passes(3)

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
    @rule(by=who, of=which, verb=st.sampled_from((*VERBS, "release")))
    def whatever_it_is(self, by: str, of: int, verb: Verb | Literal["release"]) -> None:
        """An act on whatever there is, whether it makes sense or not."""
        if verb == "release":
            self.try_release(PEOPLE[by])
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

    @rule(by=who)
    def change_the_baseline_that_a_file_owns(self, by: str) -> None:
        settings = {CAP: Setting(value=4)}
        self.act(
            lambda: None,
            lambda: self.world.operations.set_baseline(
                TARGET, settings, called="mine", reason=self.reason(), by=PEOPLE[by]
            ),
        )

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

    @precondition(lambda self: self.model.control == "free" and self.model.has("on_trial"))
    @rule()
    def a_trial_ends(self) -> None:
        self.world.traffic = True
        self.world.run(TRIAL_S, until=lambda: not self.world.policies("on_trial"))
        self.world.traffic = False
        self.follow()

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
        """Everything comes to its end, the engine to its baseline, and the audit verifies."""
        try:
            self.settle()
            found = verify(self.world.address)
            assert found.clean, found.findings
        finally:
            self.world.store.close()
            shutil.rmtree(self.folder)

    def settle(self) -> None:
        """Nothing may be stuck."""
        if self.model.control != "free":
            self.try_release(CHIEF)
        for one in list(self.model.overrides.values()):
            self.act(
                lambda one=one: self.model.unset(one, CHIEF),  # type: ignore[misc]
                lambda one=one: self.world.operations.end_override(  # type: ignore[misc]
                    one.id, self.reason(), by=CHIEF
                ),
            )
        for change_id in list(self.model.changes):
            self.end_change(change_id, CHIEF)
        until_s = self.world.now_s + SETTLES_S
        while (left := self.model.live()) and self.world.now_s < until_s:
            for known in sorted(left, key=lambda one: one.id, reverse=True):
                verb = ENDS.get(known.state)
                if verb is not None:
                    self.try_out(verb, known, CHIEF)
            self.world.run(0.3)
            self.follow()
        assert not left, f"stuck: {[(known.id, known.state) for known in left]}"
        self.world.run(QUIET_S)
        assert self.world.cap() == 8

    # -- how it is done --------------------------------------------------------------------

    def quiet(self) -> bool:
        """Let a while pass; whether the engine has what the model folds."""
        self.world.run(QUIET_S)
        self.follow()
        trial = self.world.engine.stamp.trial
        wished = self.model.value(CAP, None if trial is None else trial.arm)
        return wished is None or self.world.cap() == wished

    def chosen(self, of: int, *states: State) -> Known:
        """One in such a state."""
        found = [p for p in self.model.policies.values() if p.state in states]
        return found[of % len(found)]

    def proposed(self, by: Principal, value: int) -> Policy | None:
        """A new one; None where a guardrail denies it, which changes nothing."""
        setting, before = Setting(value=value), self.everything()
        twin = self.model.open_twin(CAP, setting)
        try:
            made = self.world.operations.propose(TARGET, CAP, setting, self.reason(), by=by)
        except Conflict as denied:
            assert "guardrail" in denied.detail
            assert twin or "duplicate" not in denied.detail, denied.detail
            assert self.everything() == before
            return None
        assert not twin, "the same change twice"
        self.heard_only(self.model.born(made, by))
        return made

    def say_yes(self, known: Known, by: Principal, digest: str | None = None) -> None:
        shown = digest or known.policy.shown_digest
        self.act(
            lambda: self.model.approve(known, by, shown),
            lambda: self.world.operations.approve(known.id, shown, by=by),
        )

    def try_out(self, verb: Verb, known: Known, by: Principal) -> None:
        """One act on one policy."""
        if verb == "approve":
            self.say_yes(known, by)
            return
        model, real = getattr(self.model, verb), getattr(self.world.operations, verb)
        words = () if verb == "resume" else (self.reason(),)
        self.act(lambda: model(known, by), lambda: real(known.id, *words, by=by))

    def try_release(self, by: Principal) -> None:
        self.world.now_s += 0.001
        self.act(
            lambda: self.model.release(by),
            lambda: self.world.operations.release(TARGET, self.reason(), by=by),
        )

    def end_change(self, change_id: str, by: Principal) -> None:
        self.model.now_us = self.world.clock_us()
        ended = self.act(
            lambda: self.model.end_change(self.model.changes[change_id], by),
            lambda: self.world.operations.end_change(change_id, by=by),
        )
        if ended is not None:
            self.model.changes[change_id] = ended

    def act(
        self,
        model: Callable[[], list[Written] | None],
        real: Callable[[], Any],
        *,
        more: Callable[[Any], Sequence[Written]] = lambda done: (),
    ) -> Any:
        """Do it in both; they must agree on whether it may be, and on what was written.

        ``more``: entries that name what was made. Answers what was done; None: it was refused.
        """
        before = self.everything()
        expected = model()
        try:
            done = real()
        except Rejected as refused:
            assert expected is None, f"the model allows it: {refused.detail}"
            assert refused.status in (409, 422)
            assert self.everything() == before, f"refused, and yet changed: {refused.detail}"
            return None
        assert expected is not None, "the model refuses it"
        self.heard_only([*expected, *more(done)])
        return done

    def heard_only(self, expected: Sequence[Written]) -> None:
        """The audit has grown by this and by nothing else that counts."""
        found = [(e.actor, e.action, e.subject) for e in self.listen() if counts(e)]
        assert Counter(found) == Counter(expected)

    def follow(self) -> None:
        """Let the model hear what the loop did; it did so in nobody's name."""
        names = {person.id for person in (*PEOPLE.values(), CHIEF)}
        for entry in self.listen():
            assert entry.actor not in names, entry
        with self.world.store.read() as tx:
            self.model.follow(
                tx.policies(target=TARGET, limit=1000),
                tx.trials(target=TARGET, running=True),
                tx.overrides(target=TARGET, state="active"),
            )

    def listen(self) -> list[Entry]:
        """The entries since the last time."""
        with self.world.store.read() as tx:
            found = tx.audit(after=self.heard)
        self.heard += len(found)
        return found

    def everything(self) -> tuple[object, ...]:
        """All that a refused act may not change."""
        with self.world.store.read() as tx:
            rows = stored(tx)
        latch = Latch(self.folder / "latch.json").read()
        return (*rows, latch, self.world.engine.stamp)

    def reason(self) -> str:
        self.reasons += 1
        return f"reason {self.reasons}"


def stored(tx: Tx) -> tuple[object, ...]:
    """Everything of the target that people can change, and how long the audit is."""
    return (
        tx.policies(target=TARGET, limit=1000),
        tx.trials(target=TARGET, limit=1000),
        tx.control(TARGET),
        tx.modes(TARGET),
        tx.overrides(target=TARGET, limit=1000),
        tx.declared_changes(target=TARGET, limit=1000),
        list(tx.baselines(TARGET)),
        len(tx.audit(limit=10_000)),
    )


def counts(entry: Entry) -> bool:
    """Whether the model predicts such entries."""
    return entry.action.startswith(COUNTED)
