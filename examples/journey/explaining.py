"""Chapter: why one request was bad, an audit that verifies, and a copy with one edited row."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from examples.journey.sample import TARGET
from examples.journey.stage import Stage

VERIFY_S = 60.0


class UnnoticedError(Exception):
    """An edited row was not named, or a clean audit was not clean."""


def explain(stage: Stage, edited: dict[str, Any] | None) -> None:
    """``why`` for a bad request, then the audit; ``edited``: the policy to alter in a copy."""
    stage.screen.chapter("Why, and proof")
    _why(stage)
    verified = stage.viewer.get("/v1/audit/verify")
    if not verified["clean"]:
        raise UnnoticedError(f"the audit is not clean: {verified['result']['findings'][:3]}")
    result = verified["result"]
    stage.screen.say(
        f"audit verify: clean; {result['entries']} entries, {result['policies']} policies, "
        f"{result['keys']} keys, root {result['root'][:16]}…"
    )
    if edited is not None:
        _tamper(stage, edited)


def _why(stage: Stage) -> None:
    found = [
        row
        for intent in ("live", "batch")
        for row in stage.viewer.get(
            "/v1/requests", target=TARGET, intent=intent, good="false", limit=20
        )["items"]
    ]
    if not found:
        stage.screen.say("no request missed its SLO")
        return
    under_policy = [row for row in found if row["policies"]] or found
    told = stage.viewer.get(f"/v1/requests/{under_policy[0]['request_id']}")
    row, trial = told["request"], told["trial"]
    stage.screen.say(
        f"why {row['request_id']}: {row['intent']}, {row['status'] or 'unfinished'}, "
        f"TTFT {_ms(row['ttft_us'])}, TPOT {_ms(row['tpot_us'])}, queue {_ms(row['queue_us'])}"
    )
    stage.screen.say(
        f"  served under digest {row['digest']}, version {row['version']}"
        + (f", block {trial['block']} ({trial['arm']}) of {trial['id']}" if trial else "")
    )
    for policy in told["policies"]:
        history = " → ".join(
            f"{step['action'].removeprefix('policy.')} by {stage.who(step['actor'])}"
            for step in policy.get("history", ())
            if step["action"] in ("policy.proposed", "policy.approved")
        )
        stage.screen.say(f"  policy {policy['id']} {policy.get('words', '')}: {history}")
    for outcome in told["outcomes"]:
        stage.screen.say(f"  its user: {outcome['metric']} = {outcome['value']:g}")


def _tamper(stage: Stage, policy: dict[str, Any]) -> None:
    """Edit one row of a copy, and let the command line name it."""
    copy = stage.state_dir / "edited-copy.db"
    copy_database(stage.state_dir / "store.db", copy)
    before, after = policy["state"], "rejected"
    with closing(sqlite3.connect(copy)) as db, db:
        db.execute("UPDATE policies SET state = ? WHERE id = ?", (after, policy["id"]))
    stage.screen.say(f"on a copy, one row is edited: policy {policy['id']} {before} → {after}")
    told = subprocess.run(
        [sys.executable, "-m", "controller.cli", "audit", "verify", "--db", os.fspath(copy)],
        capture_output=True,
        text=True,
        timeout=VERIFY_S,
        check=False,
    )
    named = [line for line in told.stdout.splitlines() if policy["id"] in line]
    if told.returncode == 0 or not named:
        raise UnnoticedError(f"the edited row was not named:\n{told.stdout}{told.stderr}")
    stage.screen.say("\n".join(f"audit verify: {line}" for line in named[:2]))


def copy_database(source: Path, copy: Path) -> None:
    """A consistent copy of a live SQLite database."""
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(copy)) as into,
    ):
        live.backup(into)


def _ms(us: int | None) -> str:
    return "–" if us is None else f"{us / 1000:.0f} ms"
