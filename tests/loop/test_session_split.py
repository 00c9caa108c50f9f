"""A split of sessions between wish and engine: what is sent, and what is told afterwards."""

from __future__ import annotations

import msgspec
import pytest

from controller.desired import Desired, desired
from controller.past import record
from controller.reconciler import differs, plan_patch
from controller.state import PlantInput
from controller.store.port import Control
from controller.trial import blocks
from controller.trial.splitting import by_session
from controller.trials import Trial
from engine.knobs import ANSWER_TOKENS, embedded_knobs
from engine.metering import ArrivalMeter
from engine.settings_book import SettingsBook
from engine.settings_in_force import EngineIdentity, Instant
from policies.overrides import Override
from policies.policy import Policy
from policies.runtime_config import Patch, RuntimeConfig, SettingChange, TrialStamp
from policies.settings import Setting
from signals.events import MICROS, StepMoments
from tests.loop import test_desired

KNOBS = embedded_knobs(
    capacity_active=64,
    capacity_budget=512,
    boot_active_cap=None,
    boot_step_token_budget=None,
    capacity_answer=512,
    intents=("live", "batch"),
)
NOW_US = 1_000_000_000
PLACE = f"{ANSWER_TOKENS}@batch"


def running(*, tripped: bool = False) -> Trial:
    """A trial of the jobs' bound, whose first block waits to be applied."""
    plan = msgspec.structs.replace(
        test_desired.trial(64, "candidate").plan,
        knob=ANSWER_TOKENS,
        scope="batch",
        design="session_split",
        baseline=Setting(value=512),
        candidate=Setting(value=64),
    )
    begun = blocks.begin(Trial(plan=plan, began_us=0), now_us=0)
    return blocks.with_unit(begun, msgspec.structs.replace(begun.units[0], tripped=tripped))


def wish(on: Trial | None, *overrides: Override, hold: bool = False) -> Desired:
    return desired(
        {},
        [],
        on,
        Control(target="chat", hold=hold),
        overrides,
        on_kill="last_stable",
        now_us=NOW_US,
    )


class Engine:
    """The real settings book."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.changes = 0
        meter = ArrivalMeter(("interactive", "batch"))
        identity = EngineIdentity(target="chat", replica="r0", incarnation="life")
        self.book = SettingsBook(
            identity, KNOBS, meter, meter.classes, remembered=8, now=self.instant()
        )

    def instant(self) -> Instant:
        return Instant(mono_s=self.now_s, wall_s=self.now_s)

    def view(self) -> RuntimeConfig:
        return self.book.view(self.instant())

    def bring(self, wished: Desired) -> Patch | None:
        """What a reconciler sends, applied."""
        self.changes += 1
        patch = plan_patch(
            wished, self.view(), epoch=1, change_id=f"ctl.{self.changes}", now_us=NOW_US
        )
        if patch is not None:
            self.book.apply(patch, self.instant())
        return patch


def test_the_engine_keeps_its_setting_and_the_candidates_sessions_get_theirs_with_an_end() -> None:
    engine, wished = Engine(), wish(running())
    assert wished.settings == {}
    assert differs(wished, engine.view()) == (f"{PLACE} (candidate)", "trial")
    patch = engine.bring(wished)
    assert patch is not None
    (change,) = patch.settings
    assert (change.arm, change.knob, change.scope) == ("candidate", ANSWER_TOKENS, "batch")
    assert (change.value, change.fallback, change.policy_id) == (64, None, "p9")
    assert change.expires_in_s == pytest.approx(45.0)
    assert differs(wished, engine.view()) == ()
    assert engine.bring(wished) is None


def test_the_next_block_sends_the_candidate_again_for_its_new_end() -> None:
    engine, trial = Engine(), running()
    engine.bring(wish(trial))
    engine.now_s += 30.0
    ended = msgspec.structs.replace(trial.units[0].blocks[0], ended_us=NOW_US)
    later = blocks.with_unit(trial, msgspec.structs.replace(trial.units[0], blocks=(ended,)))
    engine.bring(wish(blocks.begin(later, now_us=NOW_US)))
    (shown,) = engine.view().candidate
    assert shown.expires_in_s == pytest.approx(45.0)
    assert engine.view().trial == TrialStamp(id="tri", block=1, split=trial.plan.sessions)


def test_a_tripped_unit_has_the_baseline_in_both_arms_and_still_tells_them_apart() -> None:
    engine = Engine()
    engine.bring(wish(running()))
    engine.bring(wish(running(tripped=True)))
    seen = engine.view()
    assert seen.candidate == ()
    assert seen.trial is not None and seen.trial.split is not None


@pytest.mark.parametrize("ends", ["over", "hold"])
def test_its_end_and_a_hold_take_the_candidate_away(ends: str) -> None:
    engine = Engine()
    engine.bring(wish(running()))
    engine.bring(wish(running(), hold=True) if ends == "hold" else wish(None))
    seen = engine.view()
    assert (seen.candidate, seen.trial, seen.hold) == ((), None, ends == "hold")


def test_what_a_person_pins_for_that_intent_is_over_both_arms() -> None:
    pin = Override(
        id="pin_1",
        target="chat",
        kind="pin",
        knob=ANSWER_TOKENS,
        scope="batch",
        setting=Setting(value=100),
        reason="by hand",
        by="ada",
        created_us=0,
        expires_us=NOW_US + 60 * MICROS,
    )
    wished = wish(running(), pin)
    assert wished.candidate == {}
    assert wished.settings[PLACE].setting.value == 100


def test_the_past_tells_what_the_candidates_sessions_had_and_from_when_until_when() -> None:
    engine = Engine()
    past, _ = record(None, engine.view())
    engine.now_s += 5.0
    engine.bring(wish(running()))
    past, (split,) = record(past, engine.view())
    assert split.candidate[PLACE].value == 64
    assert (split.candidate[PLACE].policy_id, PLACE in split.settings) == ("p9", False)
    assert split.from_us == round(1005.0 * MICROS)
    theirs = split.met_by("candidate", "their digest")
    assert (theirs.settings[PLACE].value, theirs.digest) == (64, "their digest")
    assert split.met_by("baseline", split.digest) == split
    engine.now_s += 46.0
    engine.book.pass_time(engine.instant())
    past, (after,) = record(past, engine.view())
    assert (after.known, after.cause, after.candidate, after.trial) == (True, "expiry", {}, None)
    assert after.digest == split.digest, "what all had stayed as it was"


def test_a_controller_that_comes_late_still_reads_what_is_split_now() -> None:
    engine = Engine()
    engine.bring(wish(running()))
    late = msgspec.structs.replace(engine.view(), changes=())
    past, (segment,) = record(None, late)
    assert segment.candidate[PLACE].value == 64
    assert past.candidate == segment.candidate


def test_only_one_intents_setting_that_counts_at_arrival_is_split_and_where_sessions_are_seen() -> (
    None
):
    answer, cap = KNOBS[2], KNOBS[0]
    assert (answer.per_request, cap.per_request) == (True, False)
    seen = msgspec.structs.replace(_plant(), with_session={"batch": 0.95, "live": 0.5})
    assert by_session(_policy("batch"), answer, seen)
    assert not by_session(_policy("live"), answer, seen), "half of its users name no session"
    assert not by_session(_policy("target"), answer, seen)
    assert not by_session(_policy("batch"), cap, seen)
    assert not by_session(_policy("batch"), answer, _plant())


def test_a_stranger_s_change_of_the_candidate_is_in_the_log_as_the_candidates() -> None:
    engine = Engine()
    engine.bring(wish(running()))
    seen = engine.view()
    theirs = SettingChange(
        knob=ANSWER_TOKENS, scope="batch", value=128, arm="candidate", expires_in_s=60.0
    )
    engine.book.apply(
        Patch(
            change_id="mine",
            epoch=1,
            expected=seen.expected,
            settings=(theirs,),
            trial=seen.trial,
        ),
        engine.instant(),
    )
    last = engine.view().changes[-1]
    assert (last.arm, last.scope, last.before, last.after) == ("candidate", "batch", 64, 128)
    assert differs(wish(running()), engine.view()) == (f"{PLACE} (candidate)",)


def _policy(scope: str) -> Policy:
    return msgspec.structs.replace(
        test_desired.policy("p9", "approved", 64), knob=ANSWER_TOKENS, scope=scope
    )


def _plant() -> PlantInput:
    return PlantInput(
        moments=StepMoments(),
        curve=(),
        prefill_per_decode=0.0,
        arrivals=(),
        offered=(),
        deadline_s={},
        drain_p95_s=1.0,
        fingerprint="",
    )
