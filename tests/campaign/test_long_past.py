"""The long past that questions are measured on is one that the store itself could have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.audit import verifying
from benchmarks.audit.__main__ import AIMS
from benchmarks.audit.loading import ENTRIES_EACH, load
from benchmarks.figures import Figures
from controller.audit.verify import verify
from controller.store.address import StoreAddress, address_of
from controller.store.sql import open_store
from tests.postgres import Postgres

POLICIES = 30


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_loaded_past_verifies_and_answers(kind: str, tmp_path: Path, postgres: Postgres) -> None:
    address: StoreAddress = (
        address_of(tmp_path / "store.db") if kind == "sqlite" else postgres.address()
    )
    store = open_store(address)
    past = load(store, address, POLICIES, seed=1, sample=5)
    found = verify(address)
    assert found.clean, found.findings
    assert past.entries == found.entries == POLICIES * ENTRIES_EACH
    target, policy, version = past.stamps[0]
    with store.read() as tx:
        assert tx.policy(policy).state in ("superseded", "reverted")
        segment = tx.segment_of("5eed5eed5eed", version)
        assert segment is not None and segment.settings["active_cap"].policy_id is not None
        assert [one.id for one in tx.policies(target=target, limit=POLICIES)][-1] == policy
    store.close()


def test_the_rate_of_verification_is_of_a_log_without_findings(tmp_path: Path) -> None:
    told = Figures(AIMS)
    assert verifying.measure(tmp_path, POLICIES, 1, 1, told)
    assert told.keys["verify_entries_s"] > 0
