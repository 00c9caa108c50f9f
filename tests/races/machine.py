"""Operators, the loop, crashes and dying engines in any order, held against the model.

The store, the loop, the latch and the engine's settings are real; time is passed in. After every
rule, the audit has grown by exactly what the model says, and store, latch and model agree. An act
that the model refuses is refused, and nothing whatever has changed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controller.audit.verify import verify
from controller.latch import Latch
from controller.store.port import Principal, Tx
from policies.audit import Entry
from policies.lifecycle import State
from policies.policy import Policy
from policies.settings import Setting
from signals.errors import Rejected
from tests.loop.cases import anything
from tests.loop.world import World
from tests.races.model import LAYERED, Known, Model, Written

TARGET = "chat"
NAMES = ("ada", "bob", "eve")
PEOPLE = {name: Principal(id=f"key_{name}", name=name, role="operator") for name in NAMES}
CHIEF = Principal(id="key_chief", name="chief", role="admin")
COUNTED = ("policy.", "control.held", "control.killed", "control.released", "mode.set")
"""Actions that the model predicts. Beside them are the loop's facts and what was reached where."""
BASELINE = {"active_cap": 8, "step_token_budget": 256}
SETTLES_S = 40.0
TRIAL_S = 60.0
QUICK: dict[str, Any] = {"block_s": 2.0, "washout_s": 0.2, "min_requests": 1, "alpha": 0.2}

Verb = Literal["approve", "reject", "revert", "pause", "resume"]
VERBS: tuple[Verb, ...] = get_args(Verb)

who = st.sampled_from(NAMES)
which = st.integers(0, 1_000)
caps = st.sampled_from((2, 4, 16, 32))


class Races(RuleBasedStateMachine):
    """One target and three people."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="trimtab-machine-"))
        self.world = World(self.folder, quality=anything, max_units=8, **QUICK)
        self.world.traffic = False
        self.model = Model(TARGET)
        self.heard = -1
        self.reasons = 0
        self.world.run(1)
        self.listen()

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
        self.say_yes(self.chosen(of, "pending"), PEOPLE[by], digest=None if honest else "0" * 16)

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

    # -- everything else -------------------------------------------------------------------

    @rule(ticks=st.integers(1, 12))
    def time_passes(self, ticks: int) -> None:
        self.world.run(ticks / 10)
        self.follow()

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
            control = tx.control(TARGET)
        assert stored == {known.id: known.state for known in self.model.policies.values()}
        said = "held" if control.hold else "killed" if control.killed else "free"
        latched = Latch(self.folder / "latch.json").read().get(TARGET)
        assert said == self.model.control == ("free" if latched is None else latched.state)

    def teardown(self) -> None:
        """Everything comes to its end, the engine to its baseline, and the audit verifies."""
        try:
            self.settle()
            found = verify(self.folder / "store.db")
            assert found.clean, found.findings
        finally:
            self.world.store.close()
            shutil.rmtree(self.folder)

    def settle(self) -> None:
        """Nothing may be stuck."""
        if self.model.control != "free":
            self.try_release(CHIEF)
        until_s = self.world.now_s + SETTLES_S
        while (left := self.model.live()) and self.world.now_s < until_s:
            for known in left:
                if known.state == "pending":
                    self.try_out("reject", known, CHIEF)
                elif known.state in ("on_trial", "paused", "in_force", "kept"):
                    self.try_out("revert", known, CHIEF)
            self.world.run(0.3)
            self.follow()
        assert not left, f"stuck: {left}"
        self.world.run(1)
        self.follow()
        assert self.world.engine.book.values() == BASELINE

    # -- how it is done --------------------------------------------------------------------

    def chosen(self, of: int, *states: State) -> Known:
        """One in such a state."""
        found = [p for p in self.model.policies.values() if p.state in states]
        return found[of % len(found)]

    def proposed(self, by: Principal, value: int) -> Policy | None:
        """A new one, unless many wait already."""
        if len([p for p in self.model.live() if p.state in ("pending", "approved")]) >= 8:
            return None
        setting = Setting(value=value)
        made = self.world.operations.propose(TARGET, "active_cap", setting, self.reason(), by=by)
        self.heard_only(self.model.born(made, by))
        return made

    def say_yes(self, known: Known, by: Principal, digest: str | None = None) -> None:
        shown = digest or known.digest
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
        self.act(
            lambda: self.model.release(by),
            lambda: self.world.operations.release(TARGET, self.reason(), by=by),
        )

    def act(self, model: Callable[[], list[Written] | None], real: Callable[[], object]) -> None:
        """Do it in both; they must agree on whether it may be, and on what was written."""
        before = self.everything()
        expected = model()
        try:
            real()
        except Rejected as refused:
            assert expected is None, f"the model allows it: {refused.detail}"
            assert refused.status in (403, 404, 409, 422)
            assert self.everything() == before, f"refused, and yet changed: {refused.detail}"
            return
        assert expected is not None, "the model refuses it"
        self.heard_only(expected)

    def heard_only(self, expected: list[Written]) -> None:
        """The audit has grown by this and by nothing else that counts."""
        found = [(e.actor, e.action, e.subject) for e in self.listen() if counts(e)]
        assert Counter(found) == Counter(expected)

    def follow(self) -> None:
        """Let the model hear what the loop did; it did so in nobody's name."""
        names = {person.id for person in (*PEOPLE.values(), CHIEF)}
        for entry in self.listen():
            assert entry.actor not in names, entry
        with self.world.store.read() as tx:
            for policy in tx.policies(target=TARGET, limit=1000):
                self.model.follow(policy)

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
        tx.baselines(TARGET),
        [entry.index for entry in tx.audit(limit=10_000)],
    )


def counts(entry: Entry) -> bool:
    """Whether the model predicts such entries."""
    return entry.action.startswith(COUNTED)
