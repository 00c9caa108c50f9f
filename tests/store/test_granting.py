"""A role that writes the store without owning it: all of serve's work, and nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from controller.audit.verify import verify
from controller.serving import take_identity
from controller.store.address import StoreAddress
from controller.store.audit_file import open_audit
from controller.store.granting import grants
from controller.store.migrate import downgrade
from controller.store.owning import owning
from controller.store.sql import SqlReader, open_store
from signals.errors import Rejected
from signals.settings import MetricSettings
from tests.postgres import Postgres, rows_of
from tests.store.guarded import raw_access
from tests.store.samples import NOW_US, a_decision, stored_in
from tests.store.test_past import a_segment

FORBIDDEN = (
    "DROP TRIGGER audit_entries_never_go ON audit_entries",
    "ALTER TABLE audit_entries DISABLE TRIGGER ALL",
    """CREATE OR REPLACE FUNCTION audit_head_is_one() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RETURN NEW; END'""",
    "DROP TABLE audit_head CASCADE",
    "TRUNCATE audit_entries",
    "DELETE FROM audit_entries",
    "UPDATE audit_entries SET actor = 'nobody'",
    "INSERT INTO audit_head (id, size, at_us) VALUES (2, 0, 0)",
    "DELETE FROM metric_definitions",
    "UPDATE alembic_version SET version_num = '0001'",
    "SET session_replication_role = replica",
    "CREATE TABLE mine (a int)",
)


@pytest.fixture
def roles(postgres: Postgres) -> Iterator[tuple[StoreAddress, StoreAddress]]:
    """The store as its writer and as its reader reach it."""
    owner = postgres.address()
    known = postgres.execute("SELECT 1 FROM pg_roles WHERE rolname = 'trimtab_serve'")
    if not known:
        postgres.execute("CREATE ROLE trimtab_serve LOGIN")
        postgres.execute("CREATE ROLE trimtab_ingest LOGIN")
    for statement in grants(owner.schema, "trimtab_serve", "trimtab_ingest"):
        rows_of(owner, statement)
    yield (
        StoreAddress(owner.url.replace("postgres@", "trimtab_serve@")),
        StoreAddress(owner.url.replace("postgres@", "trimtab_ingest@")),
    )
    postgres.drop(owner)


def test_the_writers_role_does_all_that_serve_does(
    roles: tuple[StoreAddress, StoreAddress],
) -> None:
    writer, reader = roles
    with owning(writer) as owner, closing(open_store(writer, owner=owner)) as store:
        store.fence(take_identity(store).epoch)
        policy = stored_in(store, "kept")
        with store.write() as tx:
            tx.declare("stars", MetricSettings(), managed_by="api", actor="ann", at_us=NOW_US)
            tx.add_segment(a_segment(1), actor="loop", at_us=NOW_US)
            tx.add_decision(a_decision())
            tx.claim_answer("key_ann", "k", bytes(32), NOW_US)
            tx.drop_answer("key_ann", "k")
        with store.write() as tx:
            tx.retire("stars", actor="ann", at_us=NOW_US + 1)
        with closing(SqlReader(reader)) as ingest, ingest.read() as seen:
            assert seen.policies() == [policy]
    assert verify(reader).clean


def test_it_can_neither_change_the_audit_nor_take_down_what_guards_it(
    roles: tuple[StoreAddress, StoreAddress],
) -> None:
    writer, reader = roles
    with closing(open_store(writer)) as store:
        stored_in(store, "kept")
    for address in roles:
        for statement in FORBIDDEN:
            with (
                raw_access(address) as raw,
                pytest.raises(Exception, match=r"permission denied|must be owner"),
            ):
                raw.run(statement)
    with open_audit(reader) as file:
        assert list(file.weak_guards()) == []


def test_a_role_that_may_not_migrate_is_told_so(
    roles: tuple[StoreAddress, StoreAddress],
) -> None:
    with pytest.raises(Rejected, match="may not") as told:
        downgrade(roles[0], "0001")
    assert "trimtab store upgrade" in str(told.value.allowed)


@pytest.mark.parametrize("role", ["", "a b", "x;drop", 'q"'])
def test_a_role_has_a_plain_name(role: str) -> None:
    with pytest.raises(Rejected, match="role"):
        list(grants("trimtab", role))
