"""``trimtab store``: what it says of a store, and what it does to one."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.store.address import StoreAddress
from controller.store.migrate import downgrade
from controller.store.owning import owning
from tests.cli.running import Trimtab
from tests.store.guarded import raw_access


@pytest.fixture
def trimtab(tmp_path: Path, empty: StoreAddress) -> Trimtab:
    return Trimtab(tmp_path, env={"TRIMTAB_STORE__URL": empty.url})


def test_a_store_is_set_up_and_looked_at(trimtab: Trimtab, empty: StoreAddress) -> None:
    before = trimtab("store", "status")
    assert before.code == 0
    assert "nothing is there yet" in before.out
    done = trimtab("store", "upgrade", "--json")
    assert done.code == 0, done.err
    assert done.json == {
        "store": empty.words(),
        "newest": "0005",
        "schema": "0005",
        "entries": 0,
        "epoch": None,
        "findings": [],
        "owned": False,
    }
    with raw_access(empty) as raw:
        table = " ON audit_entries" if empty.file is None else ""
        raw.run(f"DROP TRIGGER audit_entries_never_go{table}")
    with owning(empty):
        told = trimtab("store", "status").out
        assert "a process owns it" in told
        assert "the trigger audit_entries_never_go is missing" in told
        assert trimtab("store", "upgrade").code == 3


def test_an_older_store_is_brought_up(trimtab: Trimtab, empty: StoreAddress) -> None:
    assert trimtab("store", "upgrade").code == 0
    downgrade(empty, "0003")
    assert "schema 0003, the newest is 0005" in trimtab("store", "status").out
    assert trimtab("store", "upgrade").code == 0
    assert "all guards stand" in trimtab("store", "status").out


def test_grants_are_for_databases_that_have_roles(trimtab: Trimtab, database: str) -> None:
    done = trimtab("store", "grants", "--writer", "trimtab_serve", "--reader", "trimtab_ingest")
    if database == "sqlite":
        assert done.code == 2
        assert "no roles" in done.err
    else:
        assert done.code == 0
        assert "GRANT SELECT, INSERT, UPDATE (stored) ON trimtab.audit_entries" in done.out
