"""What is taken out whole: history as lines and CSV, and the control report."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import msgspec

from controller.history.report import Scope, control_report
from controller.store.port import Tx
from controller.store.sql import open_store
from policies.lifecycle import State
from policies.policy import Approval, Policy
from tests.api.story import Story
from tests.store.samples import NOW_US, a_decision, a_policy


def test_history_is_exported_whole_and_opens_no_formula(told: Story) -> None:
    every = told.pages("/v1/history", "", limit=1000)
    lines = exported(told, "/v1/history", "application/x-ndjson")
    assert [msgspec.json.decode(line) for line in lines.splitlines()] == every
    rows = list(csv.DictReader(io.StringIO(exported(told, "/v1/history", "text/csv"))))
    assert [int(row["index"]) for row in rows] == [one["index"] for one in every]
    assert all(row["time"].endswith("Z") for row in rows)
    report = exported(told, "/v1/reports/control?from=1d", "text/csv", who="auditor")
    for cell in [cell for row in csv.reader(io.StringIO(report)) for cell in row]:
        assert not cell.startswith(("=", "+", "-", "@"))


def exported(told: Story, path: str, form: str, *, who: str = "viewer") -> str:
    bearer = {"Authorization": f"Bearer {told.plane.tokens[who]}", "Accept": form}
    answer = told.plane.http.get(path, headers=bearer)
    described = told.plane.app.openapi()["paths"][path.partition("?")[0]]["get"]["responses"]
    assert form in described["200"]["content"]
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(form)
    return answer.text


def test_the_control_report_names_each_exception(told: Story) -> None:
    report = told.plane.call("auditor", "GET", "/v1/reports/control?target=chat&from=1d")
    assert report.status == 200
    found = report["findings"]
    (held,) = found["stopped"]
    assert held["words"] == "held: an alarm"
    assert told.at["reverted"] <= held["at_us"] < held["until_us"] <= told.at["released"]
    (hole,) = found["unknown_spans"]
    assert hole["until_us"] is not None
    (stranger,) = found["foreign_changes"]
    assert "active_cap = 5" in stranger["words"]
    assert {one["who"] for one in found["keys_idle"]} >= {"approver"}
    assert told.plane.get("/v1/reports/control").status == 403


def test_a_key_of_some_intents_sees_the_timeline_and_not_the_audit_of_all(told: Story) -> None:
    live = told.plane.key("live", "viewer", intents=("live",))
    assert told.plane.call(live, "GET", "/v1/history?target=chat").status == 403
    assert told.plane.call(live, "GET", "/v1/targets/chat/timeline").status == 200


def test_a_key_of_one_target_names_it(told: Story) -> None:
    mine = told.plane.key("mine", "auditor", targets=("chat",))
    assert told.plane.call(mine, "GET", "/v1/history").status == 403
    assert told.plane.call(mine, "GET", "/v1/history?target=chat").status == 200
    assert told.plane.call(mine, "GET", "/v1/reports/control?target=chat").status == 200


def test_solo_approvals_overdue_reviews_and_denials_are_reported(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    with store.write() as tx:
        solo = Approval(by="key_ada", at_us=NOW_US, shown_digest="d", solo=True)
        pair = tuple(
            Approval(by=name, at_us=NOW_US, shown_digest="d") for name in ("key_ada", "key_bob")
        )
        alone = kept(tx, a_policy(), approvals=(solo,))
        two = kept(tx, a_policy(risk="high", approvals_needed=2), approvals=pair)
        denial = a_decision(denied="no", guardrail="dwell", figures={"dwell_s": 5.0})
        tx.add_decision(msgspec.structs.replace(denial, at_us=NOW_US, policy_id=None))
    with store.read() as tx:
        scope = Scope(target=None, from_us=0, to_us=NOW_US + 10, now_us=NOW_US + 10)
        found = control_report(tx, scope).findings
    store.close()
    assert [(x.subject, x.who) for x in found["solo_approvals"]] == [(alone.id, "key_ada")]
    assert [(x.subject, x.who) for x in found["four_eyes_approvals"]] == [
        (two.id, "key_ada, key_bob")
    ]
    assert {x.subject for x in found["overdue_reviews"]} == {alone.id, two.id}
    assert "dwell" in found["denied"][0].words


def kept(tx: Tx, policy: Policy, *, approvals: tuple[Approval, ...]) -> Policy:
    now = tx.add_policy(policy)
    now = tx.move(now, "pending", actor="loop", at_us=NOW_US)
    now = tx.move(
        now, "approved", actor="key_ada", at_us=NOW_US, approvals=approvals, decided_by="key_ada"
    )
    states: tuple[State, ...] = ("applying", "on_trial")
    for state in states:
        now = tx.move(now, state, actor="loop", at_us=NOW_US)
    return tx.move(now, "kept", actor="loop", at_us=NOW_US, review_us=NOW_US + 5)
