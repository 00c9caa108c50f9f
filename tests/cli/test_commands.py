"""What the operator types, against a control plane over real HTTP."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from docs.commands import names
from tests.cli.conftest import Served
from tests.cli.running import Trimtab
from tests.signals.processes import free_port


@pytest.mark.parametrize("name", sorted(names()))
def test_every_command_explains_itself(tmp_path: Path, name: str) -> None:
    done = Trimtab(tmp_path)(*name.split()[1:], "--help")
    assert done.code == 0
    assert done.out.startswith("Usage: ")
    told = [line for line in done.out.splitlines()[2:] if line.strip()]
    assert len(told[0].split()) > 2, "a command says what it does"


def proposed(served: Served, value: str = "16") -> str:
    done = served.as_("operator")(
        "policies", "propose", "chat", "active_cap", value, "-m", "a test", "--json"
    )
    assert done.code == 0, done.err
    return str(done.json["id"])


def rejected(served: Served, policy_id: str) -> None:
    done = served.as_("operator")("policies", "reject", policy_id, "-m", "no")
    assert (done.code, done.out) == (0, f"{policy_id} is rejected: active_cap 8 → 16\n")


def test_a_policy_is_proposed_shown_approved_by_another_and_reverted(served: Served) -> None:
    policy_id = proposed(served)
    ana, bob = served.as_("operator"), served.as_("other")
    shown = bob("policies", "show", policy_id)
    assert "active_cap 8 → 16" in shown.out
    assert "reason    a test" in shown.out
    digest = bob("policies", "show", policy_id, "--json").json["shown_digest"]
    own = ana("policies", "approve", policy_id, "--digest", digest)
    assert own.code == 2
    assert "can't approve his own" in own.err
    approved = bob("policies", "approve", policy_id, stdin="y\n")
    assert approved.code == 0
    assert f"digest    {digest}" in approved.out
    assert f"{policy_id} is approved" in approved.out
    served.plane.world.run(1)
    for verb, state in (("pause", "paused"), ("revert", "reverting")):
        assert f"is {state}" in ana("policies", verb, policy_id, "-m", "enough").out
    served.plane.world.run(1)
    listed = ana("policies", "list", "--target", "chat", "--json").json["items"]
    assert {one["id"]: one["state"] for one in listed}[policy_id] == "reverted"
    assert served.plane.world.trial().plan.id in ana("trials", "list").out


def test_what_users_feedback_takes_is_shown_before_anybody_approves(served: Served) -> None:
    made = served.as_("operator")(
        "policies", "propose", "chat", "active_cap", "16", "-m", "a test",
        "--guard", "answer_copied=0.02", "--primary", "answer_copied=0.2", "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    policy_id = made.json["id"]
    served.plane.world.run(3)
    shown = served.as_("other")("policies", "show", policy_id)
    assert "guard     answer_copied no worse by 0.02" in shown.out
    assert "tried by  answer_copied, a difference of 0.2" in shown.out
    assert (
        "needs     as things are it can't be tried: answer_copied can be the primary" in shown.out
    )
    rejected(served, policy_id)
    wrong = served.as_("operator")(
        "policies", "propose", "chat", "active_cap", "16", "-m", "a test", "--guard", "copied"
    )
    assert wrong.code == 2 and "METRIC=NUMBER" in wrong.err


def test_an_approval_can_be_declined_at_the_prompt(served: Served) -> None:
    policy_id = proposed(served)
    declined = served.as_("other")("policies", "approve", policy_id, stdin="n\n")
    assert declined.code == 1
    assert served.plane.world.policy(policy_id).state == "pending"
    rejected(served, policy_id)


def test_a_law_is_proposed_from_a_file(served: Served, tmp_path: Path) -> None:
    law = tmp_path / "law.yaml"
    law.write_text(
        "variable: arrivals\nclass: interactive\nwindow_s: 2\ndefault: 64\n"
        "steps: [{above: 0, value: 8}]\n"
    )
    words = ("policies", "propose", "chat", "active_cap", "--law", str(law), "-m", "try it")
    done = served.as_("operator")(*words, "--json")
    assert done.json["setting"]["law"]["steps"] == [{"above": 0, "value": 8}]
    served.as_("operator")("policies", "reject", done.json["id"], "-m", "no")


def test_status_shows_what_is_and_what_should_be(served: Served) -> None:
    done = served.as_("viewer")("status", "chat")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    cap = next(line for line in lines if line[:1] == ["active_cap"])
    assert cap[1:5] == ["observe", "8", "8", "sequences"]
    assert "replica  r0 at book:, incarnation life1; as wished" in done.out
    everything = served.as_("viewer")("status", "--json").json
    assert [one["name"] for one in everything["items"]] == ["chat"]


def test_hold_kill_and_release_say_what_was_read_back(served: Served) -> None:
    ana = served.as_("operator")
    for verb in ("hold", "kill", "release"):
        done = ana(verb, "chat", "-m", "a test")
        assert done.code == 0, done.err
        assert done.out.startswith(f"{verb} chat in ")
        assert "as wished" in done.out
        if verb != "release":
            assert "a test" in ana("status", "chat").out.splitlines()[0]
    assert ana("release", "chat", "-m", "again").code == 2


def test_an_engine_out_of_reach_is_listed_and_fails_the_command(served: Served) -> None:
    ana, engine = served.as_("operator"), served.plane.world.engine
    engine.reachable = False
    served.plane.world.now_s += 5
    done = ana("hold", "chat", "-m", "a test")
    engine.reachable = True
    assert done.code == 3
    assert "unreachable" in done.out
    assert ana("release", "chat", "-m", "back").code == 0


def test_a_mode_is_set_and_a_wrong_one_refused_with_what_is_allowed(served: Served) -> None:
    ana = served.as_("operator")
    assert ana("mode", "chat", "step_token_budget", "approve").out.endswith("is on approve\n")
    refused = ana("mode", "chat", "step_token_budget", "yes")
    assert refused.code == 2
    assert "'observe', 'approve' or 'auto'" in refused.err


def test_why_tells_a_requests_story(served: Served) -> None:
    served.plane.world.run(2)
    vera = served.as_("viewer")
    found = vera("requests", "chat", "--intent", "batch", "--json").json["items"]
    done = vera("why", found[0]["request_id"])
    assert done.code == 0
    assert "policies  none: the baseline was in force" in done.out
    assert found[0]["digest"] in done.out
    assert vera("why", "chat.none").code == 2


def test_a_key_is_bounded_to_an_intent_and_ends_when_it_is_told_to(served: Served) -> None:
    admin = served.as_("admin")
    words = ("--role", "approver", "--target", "chat", "--intent", "live", "--expires-in", "30d")
    made = admin("keys", "create", "eva", *words, "--json").json["principal"]
    assert (made["targets"], made["intents"]) == (["chat"], ["live"])
    soon = admin("keys", "list", "--expiring-in", "31d", "--json").json["items"]
    assert [one["name"] for one in soon] == ["eva"]
    assert admin("keys", "list", "--expiring-in", "29d", "--json").json["items"] == []
    assert admin("keys", "create", "eva", "--role", "viewer", "--expires-in", "soon").code == 2


def test_no_key_is_made_or_rotated_that_could_not_be_written_down(
    served: Served, tmp_path: Path
) -> None:
    admin, out = served.as_("admin"), tmp_path / "uma.key"
    out.write_text("somebody's")
    for place, why in ((out, "never overwritten"), (tmp_path / "none" / "uma.key", "no folder")):
        refused = admin("keys", "create", "uma", "--role", "viewer", "--out", str(place))
        assert (refused.code, why in refused.err) == (2, True)
    found = admin("keys", "list", "--json").json["items"]
    assert "uma" not in [one["name"] for one in found]
    assert served.as_("viewer")("status").code == 0
    vera = next(one["id"] for one in found if one["name"] == "viewer")
    assert admin("keys", "rotate", vera, "--grace", "0s", "--out", str(out)).code == 2
    assert served.as_("viewer")("status").code == 0


def test_a_key_is_written_to_a_file_of_its_own(served: Served, tmp_path: Path) -> None:
    admin, out = served.as_("admin"), tmp_path / "ana.key"
    made = admin("keys", "create", "ana", "--role", "viewer", "--out", str(out))
    assert made.code == 0, made.err
    assert out.read_text().strip() not in made.out
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    served.plane.tokens["ana"] = out.read_text().strip()
    assert served.as_("ana")("status").code == 0
    listed = admin("keys", "list", "--json").json["items"]
    key_id = next(one["id"] for one in listed if one["name"] == "ana")
    rotated = admin("keys", "rotate", key_id, "--grace", "0s")
    assert rotated.code == 0
    assert "only time it is shown" in rotated.out
    assert admin("keys", "revoke", key_id).code == 0
    refused = served.as_("ana")("status")
    assert refused.code == 2
    assert "revoked" in refused.err


def test_the_audit_is_verified_exported_and_an_edited_copy_found_out(
    served: Served, tmp_path: Path
) -> None:
    policy_id = proposed(served)
    vera = served.as_("auditor")
    assert vera("audit", "verify").out.endswith("clean\n")
    lines = vera("audit", "export").out.splitlines()
    assert [json.loads(line)["index"] for line in lines] == list(range(len(lines)))
    with served.plane.world.store.read() as tx:
        assert len(tx.audit()) == len(lines)
    copy = tmp_path / "copy.db"
    with sqlite3.connect(served.plane.folder / "store.db") as source:
        source.backup(sqlite3.connect(copy))
    assert vera("audit", "verify", "--db", str(copy)).code == 0
    assert vera("audit", "export", "--db", str(copy)).out.splitlines() == lines
    with sqlite3.connect(copy) as db:
        db.execute("UPDATE policies SET state = 'kept' WHERE id = ?", (policy_id,))
    edited = vera("audit", "verify", "--db", str(copy))
    assert edited.code == 1
    assert f"policy {policy_id}: row says kept" in edited.out
    rejected(served, policy_id)


def test_a_viewer_may_look_and_nothing_else(served: Served) -> None:
    vera = served.as_("viewer")
    assert vera("policies", "list").code == 0
    for words in (("hold", "chat", "-m", "x"), ("keys", "list")):
        refused = vera(*words)
        assert refused.code == 2
        assert "viewer is viewer" in refused.err


def test_no_control_plane_is_said_with_its_address(tmp_path: Path) -> None:
    key = tmp_path / "some.key"
    key.write_text("x")
    url = f"http://127.0.0.1:{free_port()}"
    done = Trimtab(tmp_path)("--url", url, "--key-file", str(key), "status")
    assert done.code == 3
    assert url in done.err
    assert "trimtab up" in done.err


@pytest.mark.parametrize("held", [b"tt_one\ntt_two\n", b"", b"\xff\xfe", b"two words"])
def test_a_file_that_is_no_key_is_refused_and_not_shown(tmp_path: Path, held: bytes) -> None:
    key = tmp_path / "some.key"
    key.write_bytes(held)
    done = Trimtab(tmp_path)("--key-file", str(key), "status")
    assert (done.code, "holds no key" in done.err) == (2, True)
    assert "tt_one" not in done.err


def test_a_missing_key_says_how_to_get_one(tmp_path: Path) -> None:
    done = Trimtab(tmp_path)("status")
    assert done.code == 2
    assert "trimtab init" in done.err


def test_init_makes_state_and_keys_once_for_their_owner_only(tmp_path: Path) -> None:
    trimtab = Trimtab(tmp_path)
    made = trimtab("init", "--json").json["made"]
    names = {"admin.key", "audit.key", "control.key", "privacy.key", "serve.key"}
    assert {Path(one).name for one in made} == names
    assert {stat.S_IMODE(Path(one).stat().st_mode) for one in made} == {0o600}
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert trimtab("init", "--json").json["made"] == []
    assert trimtab("audit", "verify", "--db", str(tmp_path / "state/store.db")).code == 0
    Path(made[0]).unlink()
    assert trimtab("init", "--json").json["made"] == [made[0]]


def test_check_lists_every_problem_and_an_unsound_rule(tmp_path: Path) -> None:
    config = tmp_path / "trimtab.yaml"
    trimtab = Trimtab(tmp_path)
    config.write_text("serve: {prot: 1, port: 0}\n")
    done = trimtab("check")
    assert done.code == 2
    assert "serve.prot" in done.err and "serve.port" in done.err
    shutil.copy(Path(__file__).parents[2] / "trimtab.yaml", config)
    assert trimtab("check").out == "the configuration is sound\nchat: 2 rules\n"
    config.write_text(config.read_text().replace("live.attainment < 0.9", "live.atainment < 0.9"))
    done = trimtab("check")
    assert done.code == 2
    assert "targets.chat.rules[0].when" in done.err


def test_settings_can_be_searched(tmp_path: Path) -> None:
    trimtab = Trimtab(tmp_path)
    found = trimtab("settings", "list", "trial.alpha", "--json").json
    assert [(one["path"], one["default"]) for one in found] == [("trial.alpha", "0.01")]
    assert trimtab("settings", "docs").out.startswith("# Settings\n")


def test_what_is_given_wrong_is_named_with_its_value_and_what_is_allowed(served: Served) -> None:
    look = served.as_("viewer")
    for words, told in (
        (("decisions", "--target", "chatt"), "no target 'chatt'; allowed: chat\n"),
        (("replay", "--since", "noon"), "'noon' is no moment; allowed: 10m, 2h"),
        (("guardrails", "evaluate", "chat", "active_cap"), "allowed: a value of the knob's ladder"),
        (("guardrails", "evaluate", "chat", "active_cap", "8", "--as", "me"), "value: 'me'"),
    ):
        done = look(*words)
        assert done.code == 2, words
        assert told in done.err


def test_guardrails_that_are_asked_twice_say_of_what(served: Served) -> None:
    told = served.as_("viewer")("guardrails", "evaluate", "chat", "active_cap", "16").out
    asked = [line.split()[:3] for line in told.splitlines() if line.startswith("knob ")]
    assert asked == [["knob", "a", "proposal"], ["knob", "a", "start"]]
