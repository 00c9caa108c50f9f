"""What an operator or auditor asks about the past, against a control plane over real HTTP."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.history.times import rfc3339
from tests.cli.conftest import Served
from tests.cli.running import Trimtab


class Told:
    """A change tried and taken back, and the command line beside it."""

    def __init__(self, served: Served) -> None:
        plane = served.plane
        self.plane = plane
        plane.world.run(2)
        self.before = rfc3339(plane.world.clock_us())
        self.policy_id = str(plane.approved()["id"])
        plane.world.run(30, until=lambda: plane.world.cap() == 16)
        plane.world.run(1)
        self.during = rfc3339(plane.world.clock_us())
        self.request_id = plane.world.rows.requests[-1].request_id
        plane.post(f"/v1/policies/{self.policy_id}/revert", {"reason": "enough"})
        plane.world.run(2)
        self.trimtab: Trimtab = served.as_("operator")
        self.auditor: Trimtab = served.as_("auditor")


@pytest.fixture(scope="module")
def told(served: Served) -> Iterator[Told]:
    yield Told(served)


def test_settings_at_a_time_name_their_makers_and_entries(told: Told) -> None:
    done = told.trimtab("settings", "show", "chat", "--at", told.during, "--intent", "live")
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("active_cap")]
    assert told.policy_id in line
    assert "16" in line.split()
    assert "audit entry" in done.out


def test_a_time_that_is_none_is_refused_with_what_is_allowed(told: Told) -> None:
    done = told.trimtab("settings", "show", "chat", "--at", "yesterday 3am")
    assert done.code == 2
    assert "RFC 3339" in done.err


def test_two_times_are_put_beside_each_other(told: Told) -> None:
    done = told.trimtab("settings", "diff", "chat", "--from", told.before, "--to", told.during)
    assert f"r0  active_cap: 8 → 16, made by policy {told.policy_id}" in done.out


def test_was_it_trimtab_is_answered_first(told: Told) -> None:
    yes = told.trimtab("status", "chat", "--since", told.before)
    assert "was it Trimtab? YES" in yes.out.splitlines()[0]
    assert told.policy_id in yes.out
    told.plane.world.run(3)
    no = told.trimtab("status", "chat", "--since", "1s")
    assert "was it Trimtab? NO" in no.out.splitlines()[0]
    told.plane.world.engine.reachable = False
    told.plane.world.run(3)
    unknown = told.trimtab("status", "chat", "--since", "2s")
    assert "was it Trimtab? UNKNOWN" in unknown.out.splitlines()[0]
    assert "not been read back" in unknown.out
    told.plane.world.engine.reachable = True
    told.plane.world.run(1)
    assert told.trimtab("status", "--since", "1s").code == 2


def test_why_lists_what_touched_a_request_and_how_to_prove_it(told: Told) -> None:
    done = told.trimtab("why", told.request_id)
    assert f"policy    {told.policy_id}: active_cap 8 → 16; reason: a test" in done.out
    assert "approved by" in done.out
    assert "in force  active_cap 16" in done.out
    assert "prove it  trimtab audit prove" in done.out


def test_a_timeline_goes_on_where_the_page_ended(told: Told) -> None:
    first = told.trimtab("timeline", "chat", "--limit", "3")
    more = first.out.splitlines()[-1].partition("--before ")[2]
    rest = told.trimtab("timeline", "chat", "--before", more, "--limit", "1000", "--json")
    whole = told.trimtab("timeline", "chat", "--limit", "1000", "--json").json["items"]
    assert rest.json["items"] == whole[3:]
    policies = told.trimtab("timeline", "chat", "--kind", "policy", "--from", told.before)
    assert "reverted" in policies.out
    assert "settings" not in policies.out


def test_history_is_a_page_or_a_whole_file(told: Told) -> None:
    page = told.trimtab("history", "--subject", told.policy_id, "--action", "policy.")
    assert "policy.approved" in page.out
    rows = list(csv.DictReader(io.StringIO(told.trimtab("history", "--as", "csv").out)))
    lines = told.trimtab("history", "--as", "jsonl").out.splitlines()
    assert len(rows) == len(lines) == int(rows[0]["index"]) + 1
    assert told.trimtab("history", "--as", "xml").code == 2


def test_the_control_report_is_the_auditors(told: Told, tmp_path: Path) -> None:
    done = told.auditor("report", "control", "--target", "chat", "--since", "1d")
    assert done.code == 0, done.err
    assert "refused by a guardrail" in done.out
    table = told.auditor("report", "control", "--as", "csv").out
    assert table.splitlines()[0].startswith("section,target,from")
    assert told.trimtab("report", "control").code == 2


def test_the_worth_of_a_loop_that_nobody_measures_is_not_told_as_if_it_were(told: Told) -> None:
    done = told.trimtab("report", "worth", "chat")
    assert done.code == 0, done.err
    assert "worth of chat" in done.out
    assert "not measured: no holdback is declared" in done.out
    assert "trials   1 begun" in done.out
    assert "worth    not measured" in told.trimtab("status", "chat").out
    assert "budget   target: 1 of 4 trials begun within 24 h" in told.trimtab("status", "chat").out
    empty = told.trimtab("report", "worth", "--week", "2020-W01", "--json").json
    assert [one["trials"] for one in empty["items"]] == [0]
    refused = told.trimtab("report", "worth", "--week", "2026-W99")
    assert refused.code == 2
    assert "an ISO week" in refused.err
