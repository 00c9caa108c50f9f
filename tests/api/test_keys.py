"""Keys over REST: bounds, rotation with a grace, what expires soon; and tokens beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.audit.verify import verify
from controller.identity.jwks import IssuerKeys
from controller.identity.oidc import TokenReader
from controller.identity.settings import Grant, OidcSettings
from tests.api.plane import Answered, Plane
from tests.identity.issuing import AUDIENCE, NOW_S, Issuer, SigningKey

DAY_S = 86_400


def make(plane: Plane, **wanted: Any) -> Answered:
    return plane.call("admin", "POST", "/v1/keys", {"name": "eva", "role": "operator"} | wanted)


def rotate(plane: Plane, key_id: str, grace_s: int) -> Answered:
    return plane.call("admin", "POST", f"/v1/keys/{key_id}/rotate", {"grace_s": grace_s})


def works(plane: Plane, token: str) -> bool:
    return plane.call(token, "GET", "/v1/policies").status == 200


def test_a_key_keeps_the_bounds_it_was_made_with(plane: Plane) -> None:
    made = make(plane, role="approver", targets=["chat"], intents=["live"])
    assert made["principal"]["intents"] == ["live"]
    assert "no-store" in made.headers["cache-control"]
    assert make(plane, role="producer", kinds=["business"], intents=["live"]).status == 422
    assert make(plane, intents=[]).status == 422


def test_a_rotated_key_is_the_same_caller_and_the_old_secret_ends_with_its_grace(
    plane: Plane,
) -> None:
    made = make(plane)
    key_id, old = made["principal"]["id"], made["key"]
    fresh = rotate(plane, key_id, 600)
    assert fresh["principal"]["id"] == key_id
    assert works(plane, old)
    assert works(plane, fresh["key"])
    proposed = plane.proposed(who=old)
    body = {"shown_digest": proposed["shown_digest"]}
    again = plane.call(fresh["key"], "POST", f"/v1/policies/{proposed['id']}/approve", body)
    assert again.status in (200, 409), "one person is one person under both secrets"
    assert proposed["proposed_by"] == key_id
    plane.world.now_s += 601
    assert not works(plane, old)
    assert works(plane, fresh["key"])


def test_a_leaked_key_is_rotated_without_grace_and_older_graces_end_too(plane: Plane) -> None:
    made = make(plane)
    second = rotate(plane, made["principal"]["id"], 3600)
    third = rotate(plane, made["principal"]["id"], 0)
    assert [works(plane, one["key"]) for one in (made, second, third)] == [False, False, True]
    assert verify(plane.folder / "store.db").findings == ()


def test_revoking_ends_both_secrets(plane: Plane) -> None:
    made = make(plane)
    fresh = rotate(plane, made["principal"]["id"], 3600)
    key_id = made["principal"]["id"]
    assert plane.call("admin", "DELETE", f"/v1/keys/{key_id}").status == 204
    assert not works(plane, made["key"])
    assert not works(plane, fresh["key"])
    assert rotate(plane, key_id, 60).status == 409
    assert rotate(plane, "key_none", 60).status == 404
    assert rotate(plane, f"{key_id}~1", 60).status == 404


def test_a_rotation_is_in_the_audit_and_its_secret_is_not(plane: Plane) -> None:
    made = make(plane)
    fresh = rotate(plane, made["principal"]["id"], 60)
    with plane.world.store.read() as tx:
        actions = [one.action for one in tx.audit() if made["principal"]["id"] in one.subject]
        written = str([one.details for one in tx.audit()])
    assert actions == ["key.created", "key.rotated", "key.superseded"]
    for token in (made["key"], fresh["key"]):
        assert token.rpartition("_")[2] not in written


def test_what_expires_soon_is_listed(plane: Plane) -> None:
    for name, days in (("soon", 3), ("later", 30)):
        make(plane, name=name, expires_in_s=days * DAY_S)
    found = plane.call("auditor", "GET", f"/v1/keys?expiring_within_s={7 * DAY_S}")
    assert [one["name"] for one in found["items"]] == ["soon"]
    everybody = plane.call("auditor", "GET", "/v1/keys")["items"]
    assert {"soon", "later", "viewer"} <= {one["name"] for one in everybody}


@pytest.fixture
def signed(tmp_path: Path) -> Iterator[tuple[Plane, Issuer, SigningKey]]:
    """A control plane that takes the tokens of an issuer, at the issuer's time."""
    key = SigningKey("k1", "ES256")
    issuer = Issuer(key)
    grants = (
        Grant(value="admins", role="admin"),
        Grant(value="operators", role="operator", targets=("chat",)),
    )
    settings = OidcSettings(issuer=issuer.url, audience=AUDIENCE, grants=grants)
    keys = IssuerKeys(settings)
    plane = Plane(tmp_path, tokens=TokenReader(settings, keys, now_us=lambda: NOW_S * 1_000_000))
    plane.world.run(1)
    yield plane, issuer, key
    plane.close()
    keys.close()
    issuer.stop()


def test_a_tokens_bearer_acts_as_its_subject(signed: tuple[Plane, Issuer, SigningKey]) -> None:
    plane, issuer, key = signed
    token = key.sign(issuer.claims())
    made = plane.proposed(who=token)
    assert (made.status, made["proposed_by"]) == (201, "oidc:ana-17")
    assert made["origin"]["name"] == "ana@example.com"
    assert plane.call(token, "GET", "/v1/keys").status == 403
    assert plane.call(token, "GET", "/v1/audit/verify").status == 403, "bounded to a target"
    with plane.world.store.read() as tx:
        written = str(tx.audit())
    assert "oidc:ana-17" in written
    assert token not in written
    assert token.split(".")[2] not in written


def test_bad_tokens_are_401_without_a_grant_403_and_an_issuer_that_is_away_503(
    signed: tuple[Plane, Issuer, SigningKey],
) -> None:
    plane, issuer, key = signed
    expired = plane.call(key.sign(issuer.claims(exp=1)), "GET", "/v1/policies")
    assert (expired.status, expired.headers["www-authenticate"]) == (401, "Bearer")
    assert plane.call(key.sign(issuer.claims(groups=[])), "GET", "/v1/policies").status == 403
    issuer.stop()
    stranger = SigningKey("k2", "ES256").sign(issuer.claims())
    plane.call(stranger, "GET", "/v1/policies")
    assert works(plane, key.sign(issuer.claims(groups=["admins"])))
    assert works(plane, plane.tokens["viewer"]), "keys go on beside tokens"


def test_guessed_tokens_lock_an_address_out_as_guessed_keys_do(
    signed: tuple[Plane, Issuer, SigningKey],
) -> None:
    plane, issuer, key = signed
    good = key.sign(issuer.claims(groups=["admins"]))
    assert works(plane, good)
    bad = key.sign(issuer.claims(aud="billing"))
    assert [plane.call(bad, "GET", "/v1/policies").status for _ in range(11)] == [401] * 10 + [429]
    assert works(plane, good)
