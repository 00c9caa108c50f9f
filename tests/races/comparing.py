"""How the machine acts in both, the product and the model, and compares what came of it."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

import msgspec

from controller.audit.verify import verify
from controller.latch import Latch
from controller.store.address import StoreAddress
from controller.store.port import Principal, Tx
from policies.audit import Entry
from policies.lifecycle import State
from policies.policy import Policy
from policies.settings import Setting
from signals.errors import Conflict, Rejected
from tests.loop.cases import anything
from tests.loop.world import World
from tests.races.model import Known, Model, Written

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
    "guard_alpha": 0.2,
    "max_units": 8,
}
QUIET_S, TRIAL_S, SETTLES_S = 1.0, 120.0, 40.0
MOST_OPEN = 6

Verb = Literal["approve", "reject", "revert", "pause", "resume"]
VERBS: tuple[Verb, ...] = get_args(Verb)


class Both:
    """A world and its model. ``make_store``: an empty database; None: a SQLite file."""

    make_store: ClassVar[Callable[[], StoreAddress] | None] = None
    written: ClassVar[Counter[str]] = Counter()
    """What people did, by action, over all runs."""

    def begin(self) -> None:
        """A fresh world."""
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
        self.tried_to_the_end = False
        self.reasons = 0
        self.world.run(QUIET_S)
        self.follow()

    def end(self) -> None:
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

    def try_to_the_end(self) -> None:
        """Once in a life, for it takes long: traffic, until what is on trial has its verdict."""
        if self.tried_to_the_end or not self.model.has("on_trial"):
            return
        self.tried_to_the_end = self.world.traffic = True
        self.world.run(TRIAL_S, until=lambda: not self.world.policies("on_trial"))
        self.world.traffic = False
        self.follow()

    def change_the_baseline_that_a_file_owns(self, by: Principal) -> None:
        settings = {CAP: Setting(value=4)}
        self.act(
            lambda: None,
            lambda: self.world.operations.set_baseline(
                TARGET, settings, called="mine", reason=self.reason(), by=by
            ),
        )

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
        self.written.update(action for _, action, _ in found)

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
