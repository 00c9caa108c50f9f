"""What arrives may differ from what arrives beside it: an intent's setting, a session's arm."""

from __future__ import annotations

from typing import Any

import pytest

from policies.runtime_config import SessionSplit
from policies.session_split import arm_of
from tests.contract.conftest import Config, Control
from tests.contract.engines import EngineUnderTest
from tests.engine_telemetry.ingesting import wait

ASKED, LOW, LOWER = 40, 24, 16
SPLIT = {"salt": "a1b2", "share": 0.5}
TRIAL: Config = {"id": "t1", "block": 3, "split": SPLIT}
SESSIONS = [f"s-{n}" for n in range(4)]


def arm(session: str) -> str:
    return arm_of(SessionSplit(salt="a1b2", share=0.5), session)


def per_request(control: Control) -> tuple[str, str, str]:
    """The knob, and two intents that may have their own of it."""
    spec = next(one for one in control.get()["knobs"] if one["per_request"])
    first, second = spec["scopes"][1:3]
    return spec["name"], first, second


def candidate(knob: str, intent: str, **fields: Any) -> Config:
    return {
        "knob": knob,
        "scope": intent,
        "value": LOWER,
        "arm": "candidate",
        "policy_id": "p1",
        "expires_in_s": 60.0,
    } | fields


def test_an_intents_setting_counts_for_its_requests_alone_and_null_inherits_again(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    knob, mine, other = per_request(control)
    before = control.get()
    put = control.patch({"knob": knob, "scope": mine, "value": LOW, "policy_id": "p1"})
    own = next(s for s in put["settings"] if s["scope"] == mine)
    assert (own["knob"], own["value"], own["policy_id"]) == (knob, LOW, "p1")
    assert put["changes"][-1]["scope"] == mine
    assert put["digest"] != before["digest"]
    assert engine_under_test.chat("s", mine, ASKED).tokens == LOW
    assert engine_under_test.chat("s", other, ASKED).tokens == ASKED
    gone = control.patch({"knob": knob, "scope": mine})
    assert gone["digest"] == before["digest"]
    assert all(s["scope"] == "target" for s in gone["settings"])
    assert engine_under_test.chat("s", mine, ASKED).tokens == ASKED


def test_a_split_gives_each_session_its_own_arm_with_its_settings_and_its_stamp(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    knob, mine, other = per_request(control)
    applied = control.patch(candidate(knob, mine), trial=TRIAL)
    assert applied["trial"] == TRIAL
    assert [(s["knob"], s["value"], s["arm"]) for s in applied["candidate"]] == [
        (knob, LOWER, "candidate")
    ]
    assert all(s["scope"] == "target" for s in applied["settings"])
    assert len({arm(session) for session in SESSIONS}) == 2
    digests = {}
    for session in SESSIONS:
        answer = engine_under_test.chat(session, mine, ASKED)
        assert answer.stamp["trial"] == {"id": "t1", "block": 3, "arm": arm(session)}
        assert answer.tokens == (LOWER if arm(session) == "candidate" else ASKED)
        assert answer.stamp.get("policies", []) == (["p1"] if arm(session) == "candidate" else [])
        digests[arm(session)] = answer.stamp["digest"]
        elsewhere = engine_under_test.chat(session, other, LOW)
        assert elsewhere.tokens == LOW
        assert elsewhere.stamp["trial"]["arm"] == arm(session)
    assert digests["baseline"] == applied["digest"] != digests["candidate"]


def test_a_session_keeps_its_arm_in_the_next_block_and_the_trials_end_ends_it(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    knob, mine, _ = per_request(control)
    control.patch(candidate(knob, mine), trial=TRIAL)
    again = control.patch(trial=TRIAL | {"block": 4})
    assert len(again["candidate"]) == 1
    theirs = next(one for one in SESSIONS if arm(one) == "candidate")
    answer = engine_under_test.chat(theirs, mine, ASKED)
    assert (answer.tokens, answer.stamp["trial"]["block"]) == (LOWER, 4)
    rested = control.patch({"knob": knob, "scope": mine, "arm": "candidate"}, trial=TRIAL)
    assert (rested["candidate"], rested["trial"]) == ([], TRIAL)
    control.patch(candidate(knob, mine), trial=TRIAL)
    assert control.patch(trial={"id": "t2", "block": 0, "split": SPLIT})["candidate"] == []
    control.patch(candidate(knob, mine), trial=TRIAL)
    assert control.patch()["candidate"] == []
    after = engine_under_test.chat(theirs, mine, ASKED)
    assert (after.tokens, after.stamp.get("trial")) == (ASKED, None)


def test_when_the_candidate_expires_the_trial_ends_in_the_engine_itself(
    control: Control, engine_under_test: EngineUnderTest
) -> None:
    knob, mine, _ = per_request(control)
    applied = control.patch(candidate(knob, mine, expires_in_s=0.4), trial=TRIAL)
    wait.until(lambda: control.get()["trial"] is None, "the candidate expires")
    seen = control.get()
    assert seen["candidate"] == []
    assert seen["digest"] == applied["digest"], "what all have has not changed"
    last = seen["changes"][-1]
    assert (last["cause"], last["arm"], last["policy_id"]) == ("expiry", "candidate", "p1")
    theirs = next(one for one in SESSIONS if arm(one) == "candidate")
    assert engine_under_test.chat(theirs, mine, ASKED).tokens == ASKED


@pytest.mark.parametrize(
    ("setting", "trial", "field"),
    [
        ({}, None, "settings[0].arm"),
        ({}, {"id": "t1", "block": 0, "arm": "candidate"}, "settings[0].arm"),
        ({"arm": "baseline"}, TRIAL, "settings[0].arm"),
        ({"knob": "active_cap", "scope": "target", "value": 2}, TRIAL, "settings[0].arm"),
        ({"expires_in_s": None}, TRIAL, "settings[0].expires_in_s"),
        ({"fallback": {"value": 20}}, TRIAL, "settings[0].fallback"),
        ({}, {"id": "t1", "block": 0}, "trial.arm"),
        ({}, TRIAL | {"arm": "candidate"}, "trial.arm"),
        ({}, TRIAL | {"split": {"salt": "", "share": 0.5}}, "trial.split.salt"),
        ({}, TRIAL | {"split": {"salt": "x" * 65, "share": 0.5}}, "trial.split.salt"),
        ({}, TRIAL | {"split": {"salt": "x", "share": 1.0}}, "trial.split.share"),
        ({}, TRIAL | {"split": {"salt": "x", "share": 0}}, "trial.split.share"),
    ],
)
def test_a_split_that_cannot_be_is_refused_with_its_field(
    control: Control, setting: Config, trial: Config | None, field: str
) -> None:
    knob, mine, _ = per_request(control)
    before = control.get()["version"]
    refused = control.send(control.change(candidate(knob, mine) | setting, trial=trial))
    assert refused.status_code == 422
    assert refused.json()["field"] == field
    assert control.get()["version"] == before
