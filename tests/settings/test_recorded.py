"""The configuration in the audit: loaded once, changes by path, no secret, nothing when equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.config.recorded import MOST, Changed, compare, digests, record, shown, values
from controller.settings import Settings
from controller.store.past_port import AuditLine
from controller.store.port import AuditQuery
from controller.store.sql import SqlStore, open_store

CHAT: dict[str, Any] = {
    "maximize": "batch.tokens_per_s",
    "intents": {"batch": {"class": "batch", "slo": {"e2e_ms": 60_000, "attainment": 0.9}}},
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    made = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    yield made
    made.close()


def configured(**sections: Any) -> Settings:
    return Settings.model_validate({"targets": {"chat": CHAT}, **sections})


def recorded(store: SqlStore, settings: Settings, *, at_us: int) -> list[AuditLine]:
    with store.write() as tx:
        record(tx, settings, at_us=at_us)
    with store.read() as tx:
        return tx.audit_lines(AuditQuery(action="configuration."))


def test_the_first_start_records_each_section_s_digest(store: SqlStore) -> None:
    settings = configured()
    (first,) = recorded(store, settings, at_us=1)
    assert first.action == "configuration.loaded"
    assert first.details is not None
    assert first.details["sections"] == digests(values(settings))


def test_a_start_with_the_same_configuration_records_nothing(store: SqlStore) -> None:
    recorded(store, configured(), at_us=1)
    assert len(recorded(store, configured(), at_us=2)) == 1


def test_what_changed_is_recorded_by_path_with_both_values(store: SqlStore) -> None:
    recorded(store, configured(), at_us=1)
    other = {**CHAT, "on_kill": "baseline", "baseline": {"active_cap": 8}}
    now = configured(targets={"chat": other}, serve={"tick_ms": 200})
    changed, _ = recorded(store, now, at_us=2)
    assert changed.action == "configuration.changed"
    details = changed.details
    assert details is not None
    assert set(details["sections"]) == {"serve", "targets"}
    by_path = {one["path"]: one for one in details["changes"]}
    assert by_path["serve.tick_ms"] == {"path": "serve.tick_ms", "before": 100, "after": 200}
    assert by_path["targets.chat.on_kill"]["after"] == "baseline"
    assert by_path["targets.chat.baseline.active_cap"]["after"] == 8
    assert details["changed"] == len(by_path)


def test_a_great_change_lists_a_bounded_part_and_counts_all(store: SqlStore) -> None:
    recorded(store, configured(), at_us=1)
    intent = CHAT["intents"]["batch"]
    many = {**CHAT, "intents": {"batch": intent, **{f"batch{n}": intent for n in range(60)}}}
    changed, _ = recorded(store, configured(targets={"chat": many}), at_us=2)
    assert changed.details is not None
    assert len(changed.details["changes"]) == MOST < changed.details["changed"]


def test_addresses_keep_no_user_no_query_and_webhooks_no_path() -> None:
    assert shown("store.url", "postgresql://ada:hunter2@db:5432/t?sslpassword=x") == (
        "postgresql://db:5432/t"
    )
    assert shown("webhooks.hooks.ops.url", "https://hooks.example/T0/B1/secret") == (
        "https://hooks.example"
    )
    assert shown("oidc.client_secret", "hunter2") == "withheld"
    assert shown("serve.keys_cache_s", 2.0) == 2.0
    assert compare({}, {"a": 1}) == [Changed("a", None, 1)]


def test_no_value_of_the_whole_configuration_is_lost_on_the_way() -> None:
    found = values(configured())
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
    assert found["targets.chat.intents.batch.slo.attainment"] == 0.9
    assert len(found) > 250
