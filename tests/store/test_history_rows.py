"""Pages of the audit and of segments, on both databases, against the plain list of all there is."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery
from controller.store.sql import SqlStore
from policies.in_force import InForce, Segment

ACTORS = ("loop", "key_ada", "key_bob")
ACTIONS = ("note.made", "note.read", "noted", "trial.frozen")
TARGETS = ("chat", "mail")
ENTRIES = 240


@pytest.fixture
def filled(store: SqlStore) -> list[AuditLine]:
    """Entries by chance, several at one time; as the whole list says."""
    rng = random.Random(7)
    for number in range(ENTRIES // 4):
        with store.write() as tx:
            for _ in range(4):
                tx.append_audit(
                    at_us=1000 + number * 10,
                    actor=rng.choice(ACTORS),
                    action=rng.choice(ACTIONS),
                    subject=f"s{rng.randrange(9)}",
                    target=rng.choice(TARGETS),
                    details={"number": number},
                )
    with store.read() as tx:
        every = tx.audit_lines(AuditQuery(limit=1000))
    assert [line.index for line in every] == list(range(ENTRIES))[::-1]
    return every


def paged(store: SqlStore, limit: int, **wanted: object) -> list[AuditLine]:
    found: list[AuditLine] = []
    before: int | None = None
    while True:
        with store.read() as tx:
            query = AuditQuery(limit=limit, before=before, **wanted)  # type: ignore[arg-type]
            page = tx.audit_lines(query)
        found += page
        if len(page) < limit:
            return found
        before = page[-1].index


CASES: dict[str, tuple[dict[str, object], Callable[[AuditLine], bool]]] = {
    "all": ({}, lambda x: True),
    "actor": ({"actor": "key_ada"}, lambda x: x.actor == "key_ada"),
    "action": ({"action": "noted"}, lambda x: x.action == "noted"),
    "family": ({"action": "note."}, lambda x: x.action.startswith("note.")),
    "but": ({"but": "note."}, lambda x: not x.action.startswith("note.")),
    "subject": ({"subject": "s3"}, lambda x: x.subject == "s3"),
    "subject and family": (
        {"subject": "s3", "action": "note."},
        lambda x: x.subject == "s3" and x.action.startswith("note."),
    ),
    "family of a target by an actor": (
        {"action": "note.", "target": "mail", "actor": "loop"},
        lambda x: x.action.startswith("note.") and (x.target, x.actor) == ("mail", "loop"),
    ),
    "from": ({"from_us": 1200}, lambda x: x.at_us >= 1200),
    "to": ({"to_us": 1200}, lambda x: x.at_us < 1200),
    "between": (
        {"from_us": 1195, "to_us": 1301, "target": "chat"},
        lambda x: 1195 <= x.at_us < 1301 and x.target == "chat",
    ),
    "after all": ({"from_us": 10_000}, lambda x: False),
    "nobody": ({"actor": "nobody"}, lambda x: False),
}


def test_each_filter_answers_what_the_whole_list_holds(
    store: SqlStore, filled: list[AuditLine]
) -> None:
    for name, (wanted, meets) in CASES.items():
        assert paged(store, 7, **wanted) == [x for x in filled if meets(x)], name


def test_actions_and_times_are_found_in_the_index(store: SqlStore, filled: list[AuditLine]) -> None:
    with store.read() as tx:
        assert tx.audit_actions() == sorted({x.action for x in filled})
        assert tx.audit_actions("note.") == ["note.made", "note.read"]
        assert [tx.audit_index_at(at_us) for at_us in (0, 1000, 1001, 1010, 9999)] == [
            0,
            0,
            4,
            4,
            None,
        ]


def test_segments_of_several_replicas_come_in_one_order(store: SqlStore) -> None:
    rng = random.Random(3)
    made: list[Segment] = []
    from_us = 0
    with store.write() as tx:
        for number in range(60):
            from_us += rng.choice((0, 5))
            segment = Segment(
                target="chat",
                replica=f"r{rng.randrange(3)}",
                from_us=from_us,
                incarnation="life",
                version=number,
                settings={"active_cap": InForce(value=number)},
            )
            tx.add_segment(segment, actor="loop", at_us=1000)
            made.append(segment)
    with store.read() as tx:
        forth = tx.segments("chat")
        assert [one.version for one in forth] == [one.version for one in made]
        back: list[Segment] = []
        before = (2**62, 2**62)
        while page := tx.segments_before("chat", before=before, from_us=20, limit=7):
            back += page
            before = (page[-1].from_us, page[-1].entry or 0)
        assert back == [one for one in forth if one.from_us >= 20][::-1]
        lie_over = [x for x in forth if x.from_us < 100 and (x.until_us or 2**62) > 50]
        assert tx.segments("chat", from_us=50, to_us=100) == lie_over
        assert tx.segment_of("life", 30) == forth[30]
