"""One process owns a store; whoever was taken over writes nothing more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from controller.audit.verify import verify
from controller.serving import take_identity
from controller.store.address import StoreAddress
from controller.store.owning import exists, owning
from controller.store.port import Tx
from controller.store.sql import SqlStore, open_store
from signals.errors import Conflict, Fenced, TrimtabError, Unavailable
from tests.postgres import Postgres, rows_of
from tests.store.samples import NOW_US, a_policy, stored_in

WRITERS = 4


def test_a_second_owner_is_turned_away_until_the_first_is_gone(address: StoreAddress) -> None:
    with owning(address), pytest.raises(Unavailable, match="another process"), owning(address):
        pass
    with owning(address):
        pass


def test_stores_of_two_schemas_have_an_owner_each(postgres: Postgres) -> None:
    url = postgres.url(postgres.database())
    blue, green = StoreAddress(url, "blue"), StoreAddress(url, "green")
    with owning(blue), owning(green), closing(open_store(blue)) as first:
        stored_in(first, "kept")
        with closing(open_store(green)) as second, second.read() as tx:
            assert tx.policies() == []
    postgres.drop(blue)


def test_whether_a_store_was_ever_set_up_can_be_asked(empty: StoreAddress) -> None:
    assert not exists(empty)
    open_store(empty).close()
    assert exists(empty)


def test_a_serve_that_was_taken_over_writes_nothing_more_and_is_told(
    address: StoreAddress,
) -> None:
    old, new, told = SqlStore(address), SqlStore(address), threading.Event()
    old.fence(take_identity(old).epoch, lost=told.set)
    policy = stored_in(old, "pending")
    new.fence(take_identity(new).epoch)
    old.check()
    acts: tuple[Callable[[Tx], object], ...] = (
        lambda tx: tx.move(policy, "approved", actor="op", at_us=NOW_US + 9),
        lambda tx: tx.set_note("a", "b"),
        lambda tx: tx.append_audit(
            at_us=NOW_US, actor="op", action="hold.set", subject="chat", target="chat", details={}
        ),
        lambda tx: tx.audit_size(),
    )
    for act in acts:
        with pytest.raises(Fenced, match="newer serve"), old.write() as tx:
            act(tx)
    assert told.is_set()
    with pytest.raises(Fenced):
        old.check()
    new.check()
    with new.write() as tx:
        assert tx.note("a") is None
        assert tx.move(policy, "rejected", actor="op", at_us=NOW_US + 9).state == "rejected"
    old.close()
    new.close()
    assert verify(address).clean


def test_an_owner_that_lost_its_session_takes_the_lock_again_with_the_next_write(
    postgres: Postgres,
) -> None:
    address = postgres.address()
    with owning(address) as owner, closing(SqlStore(address, owner=owner)) as store:
        stored_in(store, "proposed")
        assert postgres.end_sessions(address) == 2
        stored_in(store, "proposed")
        with pytest.raises(Unavailable, match="another process"), owning(address):
            pass
        postgres.end_sessions(address)
        with owning(address), pytest.raises(Fenced, match="taken"), store.write() as tx:
            tx.set_note("a", "b")
    postgres.drop(address)


def test_writers_beside_each_other_leave_an_audit_without_gap_and_none_waits_for_ever(
    postgres: Postgres,
) -> None:
    """Several processes' worth of stores, which nothing but the database keeps apart."""
    address = postgres.address()
    stores = [SqlStore(address) for _ in range(WRITERS)]
    with stores[0].write() as tx:
        shared = [tx.add_policy(a_policy()) for _ in range(6)]

    def write(number: int) -> list[TrimtabError]:
        store, lost = stores[number], list[TrimtabError]()
        for turn in range(12):
            mine = [a_policy() for _ in range(3)]
            try:
                with store.write() as tx:
                    for policy in mine[: turn % 3 + 1]:
                        tx.add_policy(policy)
                    both = sorted(shared, key=lambda one: one.id)[turn % 5 : turn % 5 + 2]
                    for policy in both:
                        seen = tx.policy(policy.id)
                        tx.amend(seen, "seconded", actor=f"op_{number}", at_us=NOW_US + turn)
                    if turn % 4 == number:
                        raise Unavailable("given up on purpose")
            except TrimtabError as error:
                lost.append(error)
        return lost

    with ThreadPoolExecutor(WRITERS) as pool:
        lost = [error for errors in pool.map(write, range(WRITERS)) for error in errors]
    for store in stores:
        store.close()
    on_purpose = [error for error in lost if "on purpose" in f"{error}"]
    assert 0 < len(on_purpose) <= WRITERS * 3
    assert {type(error) for error in lost if error not in on_purpose} <= {Conflict}
    checked = verify(address)
    assert checked.findings == ()
    indexes = rows_of(address, "SELECT leaf_index FROM audit_entries ORDER BY leaf_index")
    assert indexes == [(index,) for index in range(checked.entries)]
    postgres.drop(address)
