"""Keys: shown once, kept as a hash, dead when revoked or expired."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.audit.export import export
from controller.audit.verify import verify
from controller.keys import (
    MAX_CACHE_S,
    Authenticator,
    KeyRequest,
    StoreKeyReader,
    covers,
    create,
    create_for_serve,
    influences,
)
from controller.store.address import StoreAddress
from controller.store.port import Principal
from controller.store.sql import SqlStore
from signals.errors import Denied, NotFound, Rejected, Unavailable
from signals.ingest.keys import Producer
from tests.store.samples import NOW_US

SECOND_US = 1_000_000


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now_us = NOW_US

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


def made(store: SqlStore, **fields: Any) -> tuple[Principal, str]:
    wanted: dict[str, Any] = {"name": "shop", "role": "producer", "kinds": ("business",)}
    with store.write() as tx:
        return create(tx, KeyRequest(**(wanted | fields)), actor="key_admin", at_us=NOW_US)


def test_a_token_leads_to_its_principal(store: SqlStore, clock: Clock) -> None:
    principal, token = made(store, targets=("chat",), names=("copied",))
    assert token.startswith(f"tt_{principal.id.removeprefix('key_')}_")
    assert len(token.rpartition("_")[2]) >= 1
    assert Authenticator(store, now_us=clock).lookup(token) == principal
    assert principal.targets == ("chat",)
    assert (principal.kinds, principal.names) == (("business",), ("copied",))


def test_tokens_never_repeat_and_carry_256_random_bits(store: SqlStore) -> None:
    secrets = {made(store)[1].split("_", 2)[2] for _ in range(50)}
    assert len(secrets) == 50
    assert {len(secret) for secret in secrets} == {43}


def test_a_token_is_in_no_file_and_no_audit(store: SqlStore, path: Path) -> None:
    tokens = [made(store)[1] for _ in range(3)]
    with store.write() as tx:
        tx.revoke_key(tx.keys()[0].id, actor="key_admin", at_us=NOW_US)
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    audit = b"".join(export(path))
    assert hashlib.sha256(tokens[0].encode()).digest() in written
    for token in tokens:
        secret = token.split("_", 2)[2].encode()
        assert secret not in written
        assert secret not in audit
        assert hashlib.sha256(token.encode()).hexdigest().encode() not in audit


def test_each_change_of_a_key_is_one_entry_that_says_who_and_what(store: SqlStore) -> None:
    principal, _ = made(store)
    with store.write() as tx:
        tx.revoke_key(principal.id, actor="ann", at_us=NOW_US + 7)
        tx.revoke_key(principal.id, actor="bob", at_us=NOW_US + 9)
        created, revoked = tx.audit(subject=principal.id)
        assert tx.keys()[0].revoked_us == NOW_US + 7
        with pytest.raises(NotFound, match="no key key_nope"):
            tx.revoke_key("key_nope", actor="ann", at_us=NOW_US)
    assert (created.action, created.actor) == ("key.created", "key_admin")
    assert created.details["key"]["role"] == "producer"
    assert (revoked.action, revoked.actor, revoked.at_us) == ("key.revoked", "ann", NOW_US + 7)


@pytest.mark.parametrize("how", ["", "tt_", "guess", "tt_" + "0" * 32 + "_" + "A" * 43, "x" * 9999])
def test_a_guess_is_denied_with_401(store: SqlStore, how: str) -> None:
    made(store)
    with pytest.raises(Denied) as denied:
        Authenticator(store).lookup(how)
    assert denied.value.status == 401


def test_a_token_with_one_character_changed_is_denied(store: SqlStore) -> None:
    _, token = made(store)
    for place in range(len(token)):
        changed = token[:place] + ("a" if token[place] != "a" else "b") + token[place + 1 :]
        with pytest.raises(Denied):
            Authenticator(store).lookup(changed)


def test_a_hash_stored_under_another_id_opens_nothing(store: SqlStore) -> None:
    with store.write() as tx:
        token = "tt_" + "1" * 32 + "_" + "A" * 43
        principal = Principal(id="key_" + "2" * 32, name="x", role="admin")
        hashed = hashlib.sha256(token.encode()).digest()
        tx.add_key(principal, hashed, actor="cli", at_us=NOW_US)
    with pytest.raises(Denied):
        Authenticator(store).lookup(token)


def test_an_expired_key_is_denied_from_its_very_moment(store: SqlStore, clock: Clock) -> None:
    _, token = made(store, expires_us=NOW_US + 10)
    keys = Authenticator(store, cache_s=MAX_CACHE_S, now_us=clock)
    clock.now_us = NOW_US + 9
    assert keys.lookup(token).name == "shop"
    clock.now_us = NOW_US + 10
    with pytest.raises(Denied, match="expired"):
        keys.lookup(token)


def test_a_revoked_key_lives_no_longer_than_the_cache(store: SqlStore, clock: Clock) -> None:
    principal, token = made(store)
    keys = Authenticator(store, cache_s=2.0, now_us=clock)
    told = Authenticator(store, cache_s=2.0, now_us=clock)
    assert keys.lookup(token) == told.lookup(token) == principal
    with store.write() as tx:
        tx.revoke_key(principal.id, actor="ann", at_us=NOW_US)
    told.forget()
    with pytest.raises(Denied, match="revoked"):
        told.lookup(token)
    clock.now_us += 2 * SECOND_US - 1
    assert keys.lookup(token) == principal
    clock.now_us += 1
    with pytest.raises(Denied, match="revoked"):
        keys.lookup(token)


def test_a_clock_that_goes_back_does_not_prolong_the_cache(store: SqlStore, clock: Clock) -> None:
    principal, token = made(store)
    keys = Authenticator(store, now_us=clock)
    keys.lookup(token)
    with store.write() as tx:
        tx.revoke_key(principal.id, actor="ann", at_us=NOW_US)
    clock.now_us -= 3600 * SECOND_US
    with pytest.raises(Denied, match="revoked"):
        keys.lookup(token)


def test_the_cache_answers_without_the_store(store: SqlStore, clock: Clock) -> None:
    principal, token = made(store)
    keys = Authenticator(store, now_us=clock)
    keys.lookup(token)
    with store.write() as tx:
        tx.revoke_key(principal.id, actor="ann", at_us=NOW_US)
    assert keys.lookup(token).revoked_us is None


def test_a_cache_may_be_five_seconds_old_at_most(store: SqlStore) -> None:
    with pytest.raises(Rejected) as refused:
        Authenticator(store, cache_s=5.1)
    assert refused.value.allowed == "0..5 s"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "n" * 129}, "name"),
        ({"role": "root"}, "role"),
        ({"kinds": ()}, "kinds"),
        ({"kinds": ("gossip",)}, "kinds"),
        ({"targets": ()}, "targets"),
        ({"expires_us": NOW_US}, "expires_us"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(
    store: SqlStore, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(Rejected) as refused:
        made(store, **fields)
    assert refused.value.field == field
    with store.read() as tx:
        assert tx.keys() == []
        assert tx.audit() == []


def test_ingest_reads_producers_and_admins_only(store: SqlStore, address: StoreAddress) -> None:
    reader = StoreKeyReader(address)
    _, shop = made(store, targets=("chat",), names=("copied", "edited"))
    _, admin = made(store, name="ann", role="admin", kinds=())
    _, viewer = made(store, name="eve", role="viewer", kinds=())
    _, operator = made(store, name="bob", role="operator", kinds=())
    assert reader.lookup(shop) == Producer(
        name="shop",
        kinds=frozenset({"business"}),
        targets=frozenset({"chat"}),
        names=frozenset({"copied", "edited"}),
    )
    posts = reader.lookup(admin)
    assert posts is not None
    assert posts.may_not(kind="basic", target="any", name="thing") is None
    assert reader.lookup(viewer) is reader.lookup(operator) is reader.lookup("guess") is None
    reader.close()


def test_ingest_reads_keys_from_another_process_as_soon_as_they_exist(
    store: SqlStore, path: Path
) -> None:
    program = (
        "import sys, pathlib\n"
        "from controller.keys import StoreKeyReader\n"
        "keys = StoreKeyReader(pathlib.Path(sys.argv[1]), cache_s=0)\n"
        "for line in sys.stdin:\n"
        "    found = keys.lookup(line.strip())\n"
        "    print(found and found.name, flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as ingest:
        assert ingest.stdin is not None
        assert ingest.stdout is not None

        def ask(token: str) -> str:
            assert ingest.stdin is not None
            assert ingest.stdout is not None
            ingest.stdin.write(token + "\n")
            ingest.stdin.flush()
            return ingest.stdout.readline().strip()

        assert ask("tt_guess") == "None"
        principal, token = made(store)
        assert ask(token) == "shop"
        with store.write() as tx:
            tx.revoke_key(principal.id, actor="ann", at_us=NOW_US)
        assert ask(token) == "None"
        ingest.stdin.close()
    assert verify(path).clean


def test_without_a_store_keys_are_unavailable_and_not_unknown(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        StoreKeyReader(tmp_path / "store.db").lookup("tt_x")


def test_a_list_covers_what_it_names_or_everything() -> None:
    assert covers(("chat",), "chat")
    assert covers(("*",), "chat")
    assert not covers(("chat",), "other")
    assert not covers((), "chat")


@pytest.mark.parametrize(
    ("fields", "field", "allowed"),
    [
        ({"rate_per_s": 0.0}, "rate_per_s", "above 0..1000000 events/s"),
        ({"rate_per_s": 1_000_000.5}, "rate_per_s", "above 0..1000000 events/s"),
        ({"rate_per_s": float("nan")}, "rate_per_s", "above 0..1000000 events/s"),
        ({"influence": 0.0}, "influence", "above 0..1"),
        ({"influence": 1.01}, "influence", "above 0..1"),
        ({"influence": float("nan")}, "influence", "above 0..1"),
        ({"team": "The Growth Team"}, "team", "^[a-z][a-z0-9_]{0,62}$"),
        ({"kinds": ("command",)}, "kinds", "basic, semantic, business, *"),
        ({"role": "admin", "kinds": ("command",)}, "kinds", "basic, semantic, business, *"),
        ({"name": "serve"}, "name", None),
    ],
)
def test_a_bound_that_makes_no_sense_and_commands_are_refused(
    store: SqlStore, fields: dict[str, Any], field: str, allowed: str | None
) -> None:
    with pytest.raises(Rejected) as refused:
        made(store, **fields)
    assert (refused.value.field, refused.value.allowed) == (field, allowed)


def test_rate_influence_and_team_are_kept_and_the_rate_is_told_to_ingest(
    store: SqlStore, address: StoreAddress
) -> None:
    principal, token = made(store, rate_per_s=50.0, influence=0.25, team="growth")
    assert (principal.rate_per_s, principal.influence, principal.team) == (50.0, 0.25, "growth")
    reader = StoreKeyReader(address)
    found = reader.lookup(token)
    assert found is not None
    assert found.rate_per_s == 50.0
    with store.read() as tx:
        assert tx.audit()[0].details["key"]["influence"] == "0.25"
    reader.close()


def test_a_key_of_before_these_bounds_has_none(store: SqlStore, path: Path) -> None:
    _, token = made(store)
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE keys SET body = json_remove(body, '$.rate_per_s', '$.influence')")
        db.execute("UPDATE keys SET body = json_remove(body, '$.team')")
    db.close()
    keys = StoreKeyReader(path)
    found = keys.lookup(token)
    assert found is not None
    assert found.rate_per_s is None
    keys.close()
    with SqlStore(path).read() as tx:
        assert (tx.keys()[0].influence, tx.keys()[0].team) == (1.0, "")


def test_the_smallest_influence_of_a_names_live_keys_counts(store: SqlStore) -> None:
    made(store, influence=0.5)
    small, _ = made(store, influence=0.2)
    made(store, influence=0.1, expires_us=NOW_US + 5)
    made(store, name="ann", role="admin", kinds=())
    made(store, name="eve", role="viewer", kinds=(), influence=0.1)

    def at(now_us: int) -> dict[str, float]:
        with store.read() as tx:
            return influences(tx.keys(), now_us=now_us)

    assert at(NOW_US) == {"shop": 0.1, "ann": 1.0}
    assert at(NOW_US + 5) == {"shop": 0.2, "ann": 1.0}
    with store.write() as tx:
        tx.revoke_key(small.id, actor="ann", at_us=NOW_US)
    assert at(NOW_US + 5)["shop"] == 0.5


def test_a_producer_whose_keys_are_all_dead_keeps_its_cap(store: SqlStore) -> None:
    only, _ = made(store, influence=0.2)
    with store.write() as tx:
        tx.revoke_key(only.id, actor="ann", at_us=NOW_US)
        assert influences(tx.keys(), now_us=NOW_US) == {"shop": 0.2}


def test_serves_own_key_posts_commands_and_nobody_elses_does(
    store: SqlStore, address: StoreAddress
) -> None:
    with store.write() as tx:
        _, token = create_for_serve(tx, actor="set-up", at_us=NOW_US)
    _, admin = made(store, name="ann", role="admin", kinds=())
    reader = StoreKeyReader(address)
    serve, ann = reader.lookup(token), reader.lookup(admin)
    assert serve == Producer(name="serve", kinds=frozenset({"command"}))
    assert ann is not None
    assert "command" not in ann.kinds
    assert serve.may_not(kind="business", target="chat", name="thumbs") == "kind"
    reader.close()
