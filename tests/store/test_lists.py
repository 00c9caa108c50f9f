"""Lists are read from indexes: what they answer, with every filter, and how SQLite finds it."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import Engine, event

from controller.store import history_rows, policy_rows
from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery, PolicyFilter, Tx
from controller.store.sql import SqlStore, open_store
from policies.lifecycle import LAYERED, State
from policies.policy import Origin, OriginKind, Policy
from signals.errors import Rejected
from tests.store.samples import NOW_US, stored_in

SEED = 11
FEW = 3
"""Instead of the thousands from which on a filter counts as one that many meet."""
STATES: tuple[State, ...] = ("pending", "approved", "kept", "reverted", "expired")
TARGETS = ("chat", "mail")
KNOBS = ("active_cap", "step_token_budget")
FILTERS = (
    PolicyFilter(),
    PolicyFilter(knob="none"),
    PolicyFilter(scope="live"),
    PolicyFilter(proposed_by="nobody"),
)
KINDS: tuple[OriginKind, ...] = get_args(OriginKind)


def filled(store: SqlStore, rng: random.Random) -> list[Policy]:
    """Policies by chance, the newest first."""
    made = [
        stored_in(
            store,
            rng.choice(STATES),
            target=rng.choice(TARGETS),
            knob=rng.choice(KNOBS),
            scope=rng.choice(("target", "live")),
            origin=Origin(kind=rng.choice(KINDS), name="x"),
            proposed_by=rng.choice(("loop", "key_ada")),
            verdict=rng.choice((None, None, "HARMED", "IMPROVED")),
        )
        for _ in range(60)
    ]
    return made[::-1]


def chosen(rng: random.Random) -> tuple[str | None, tuple[State, ...] | None, PolicyFilter]:
    """Some filters, with values that some, all or no policies have."""

    def one_of(*values: Any) -> Any:
        return rng.choice((None, None, *values))

    states = one_of((), ("pending", "approved"), ("kept",), ("reverted", "kept", "pending"))
    wanted = PolicyFilter(
        knob=one_of(*KNOBS, "none"),
        scope=one_of("target", "live"),
        origin=one_of(*KINDS),
        proposed_by=one_of("loop", "key_ada", "nobody"),
        verdict=one_of("HARMED"),
    )
    return one_of(*TARGETS, "nowhere"), states, wanted


def meets(
    policy: Policy, target: str | None, states: tuple[State, ...] | None, wanted: PolicyFilter
) -> bool:
    pairs = (
        (target, policy.target),
        (wanted.knob, policy.knob),
        (wanted.scope, policy.scope),
        (wanted.origin, policy.origin.kind),
        (wanted.proposed_by, policy.proposed_by),
        (wanted.verdict, policy.verdict),
    )
    in_state = states is None or policy.state in states
    return in_state and all(value is None or value == found for value, found in pairs)


def in_pages(page: Callable[[str | None], list[Policy]], limit: int) -> list[Policy]:
    found: list[Policy] = []
    while True:
        more = page(found[-1].id if found else None)
        found += more
        if len(more) < limit:
            return found


def test_pages_of_policies_hold_what_meets_all_filters(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_rows, "PROBED", FEW)
    rng = random.Random(SEED)
    every = filled(store, rng)
    with store.read() as tx:
        for number in range(150):
            target, states, wanted = chosen(rng)
            pages = in_pages(
                lambda before, t=target, s=states, w=wanted: tx.policies(  # type: ignore[misc]
                    target=t, states=s, wanted=w, before=before, limit=4
                ),
                4,
            )
            case = f"seed {SEED}, case {number}: {target}, {states}, {wanted}"
            assert pages == [one for one in every if meets(one, target, states, wanted)], case


def test_no_page_loses_or_repeats_a_policy_while_new_ones_come(store: SqlStore) -> None:
    before = [stored_in(store, "reverted") for _ in range(9)]
    with store.read() as tx:
        first = tx.policies(states=("reverted",), limit=4)
    stored_in(store, "reverted")
    with store.read() as tx:
        rest = tx.policies(states=("reverted",), before=first[-1].id, limit=20)
    assert [*first, *rest] == before[::-1]


def test_lines_that_meet_several_crowded_filters_are_all_found(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_rows, "PROBED", FEW)
    monkeypatch.setattr(history_rows, "NEAR", 20)
    rng = random.Random(SEED)
    with store.write() as tx:
        for _ in range(200):
            tx.append_audit(
                at_us=NOW_US,
                actor=rng.choice(("loop", "ada")),
                action=rng.choice(("note.made", "note.read", "noted")),
                subject=rng.choice(("a", "b")),
                target=rng.choice(TARGETS),
                details={},
            )
    with store.read() as tx:
        every = tx.audit_lines(AuditQuery(limit=1000))
        for actor, action, target in itertools.product(
            ("loop", "nobody"), ("note.", "noted"), (*TARGETS, None)
        ):
            found: list[AuditLine] = []
            query = AuditQuery(actor=actor, action=action, target=target, limit=7)
            while page := tx.audit_lines(query):
                found += page
                query = AuditQuery(
                    actor=actor, action=action, target=target, limit=7, before=page[-1].index
                )
            assert found == [
                x
                for x in every
                if (x.actor, x.action.startswith(action)) == (actor, True)
                and target in (None, x.target)
            ]


def act(tx: Tx) -> Iterator[tuple[str, object]]:
    """Every list of what grows, with its filters."""
    query: dict[str, Any]
    for actor, action, target in itertools.product((None, "a"), (None, "b.", "b"), (None, "c")):
        query = {"actor": actor, "action": action, "target": target}
        yield f"audit_lines {query}", tx.audit_lines(AuditQuery(**query, to_us=NOW_US))
    for target in (None, "chat"):
        yield "subjects", tx.subjects("cmd_", target=target)
        yield "audit", tx.audit(target=target, subject="x")
        for running in (None, True, False):
            yield "trials", tx.trials(target=target, running=running)
        for state in (None, "active", "ended"):
            yield "overrides", tx.overrides(target=target, state=state)
        yield "declared_changes", tx.declared_changes(target=target)
        yield "declared_changes from", tx.declared_changes(target="chat", from_us=NOW_US)
        for states in (None, STATES[:2], STATES[2:]):
            for wanted in FILTERS:
                found = tx.policies(target=target, states=states, wanted=wanted)
                yield f"policies {target} {states} {wanted}", found
    yield "segment_at", tx.segment_at("chat", "r0", NOW_US)
    yield "segments", tx.segments("chat", from_us=1, to_us=NOW_US)
    yield "segments_before", tx.segments_before("chat", before=(NOW_US, 1), from_us=1)
    yield "segment_of", tx.segment_of("life", 1)
    yield "deliveries", tx.deliveries(hook="pager")
    yield "deliveries", tx.deliveries(hook="pager", state="given_up", before=9)
    yield "due_deliveries", tx.due_deliveries(NOW_US, hook="pager")
    yield "delivery_counts", tx.delivery_counts("pager")
    yield "tree_heads", tx.tree_heads()
    yield "index_before", tx.index_before(NOW_US)


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    """What is sent to a database meanwhile."""
    sent: list[tuple[str, Any]] = []

    def note(_c: object, _r: object, statement: str, given: Any, *_: object) -> None:
        sent.append((statement, given))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def test_no_list_reads_or_sorts_a_whole_table(path: Path) -> None:
    with closing(open_store(path)) as store:
        for state in ("pending", "kept"):
            stored_in(store, state)
        with statements() as sent, store.read() as tx:
            asked = [name for name, _ in act(tx)]
    assert len(asked) > 50
    with closing(sqlite3.connect(path)) as connection:
        for statement, given in sent:
            if not statement.startswith("SELECT"):
                continue
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
            assert not [step for step in plan if _whole(step, statement)], (statement, plan)


def test_live_policies_are_found_by_their_state_and_not_among_all_that_a_target_ever_had(
    path: Path,
) -> None:
    with closing(open_store(path)) as store:
        live = stored_in(store, "kept")
        with statements() as sent, store.read() as tx:
            found = tx.policies(target=live.target, states=sorted(LAYERED))
    assert found == [live]
    (statement, given) = next(one for one in sent if "policies.body" in one[0])
    with closing(sqlite3.connect(path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
    assert "ix_policies_target_state_id (target=? AND state=?)" in plan[0], plan


def _whole(step: str, statement: str) -> bool:
    """Sorting is for the few that a live state has; a scan is for a list without a filter."""
    if step.startswith("USE TEMP B-TREE") and "RIGHT PART" not in step:
        return not any(found in statement for found in ("state IN", "leaf_index IN", "id IN"))
    return step.startswith("SCAN") and "WHERE" in statement and "anon_1" not in step


def test_a_text_with_a_nul_character_finds_nothing_or_is_refused_and_is_no_fault_of_ours(
    store: SqlStore,
) -> None:
    nul = "a\0b"
    asked: tuple[Callable[[Tx], object], ...] = (
        lambda tx: tx.policy(nul),
        lambda tx: tx.override(nul),
        lambda tx: tx.declared_change(nul),
        lambda tx: tx.policies(target=nul),
        lambda tx: tx.decisions(target=nul),
        lambda tx: tx.audit_lines(AuditQuery(actor=nul)),
    )
    for ask in asked:
        try:
            with store.read() as tx:
                assert ask(tx) == []
        except Rejected as refused:
            assert refused.status in (404, 422)
