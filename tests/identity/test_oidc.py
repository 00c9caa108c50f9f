"""Bearer tokens of an issuer: what counts, what does not, and what happens when it is away."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import ValidationError

from controller.identity.jwks import IssuerKeys
from controller.identity.oidc import TokenReader
from controller.identity.settings import Grant, OidcSettings
from signals.errors import Denied, Unavailable
from tests.identity.issuing import AUDIENCE, NOW_S, Issuer, SigningKey

GRANTS = (
    Grant(value="admins", role="admin"),
    Grant(value="operators", role="operator", targets=("chat",), intents=("live",)),
    Grant(claim="realm.roles", value="eyes", role="viewer"),
)


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


class Desk:
    """A reader of one issuer's tokens, with its clocks in the test's hands."""

    def __init__(self, issuer: Issuer, **changes: Any) -> None:
        self.issuer = issuer
        self.mono = Clock()
        settings = {"issuer": issuer.url, "audience": AUDIENCE, "grants": GRANTS} | changes
        self.settings = OidcSettings(**settings)
        self.keys = IssuerKeys(self.settings, mono=self.mono)
        self.reader = TokenReader(self.settings, self.keys, now_us=lambda: NOW_S * 1_000_000)

    def refusal(self, token: str) -> int:
        """The status that a token is refused with."""
        with pytest.raises(Denied) as denied:
            self.reader.read(token)
        assert token not in denied.value.detail
        return denied.value.status


@pytest.fixture
def rsa_key() -> SigningKey:
    return SigningKey("k1", "RS256")


@pytest.fixture
def issuer(rsa_key: SigningKey) -> Iterator[Issuer]:
    made = Issuer(rsa_key)
    yield made
    made.stop()


@pytest.fixture
def desk(issuer: Issuer) -> Iterator[Desk]:
    made = Desk(issuer)
    yield made
    made.keys.close()


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_good_token_leads_to_its_subject_with_the_first_grant_that_fits(algorithm: str) -> None:
    key = SigningKey("k9", algorithm)
    issuer = Issuer(key)
    desk = Desk(issuer)
    try:
        caller = desk.reader.read(key.sign(issuer.claims()))
    finally:
        desk.keys.close()
        issuer.stop()
    assert (caller.id, caller.name, caller.role) == ("oidc:ana-17", "ana@example.com", "operator")
    assert (caller.targets, caller.intents) == (("chat",), ("live",))
    assert caller.expires_us == (NOW_S + 600) * 1_000_000


def test_claims_are_found_inside_objects_and_names_fall_back_to_the_subject(
    desk: Desk, rsa_key: SigningKey
) -> None:
    claims = desk.issuer.claims(groups=None, email=None, realm={"roles": ["eyes"]})
    caller = desk.reader.read(rsa_key.sign(claims))
    assert (caller.role, caller.name) == ("viewer", "ana-17")


WRONG: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "billing"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "https://evil.example"},
    "no issuer": {"iss": None},
    "expired": {"exp": NOW_S - 31},
    "no expiry": {"exp": None},
    "not yet": {"nbf": NOW_S + 31},
    "issued in the future": {"iat": NOW_S + 31},
    "no time of issue": {"iat": None},
    "no subject": {"sub": None},
    "an empty subject": {"sub": ""},
    "a subject with a line break": {"sub": "ana\nroot"},
    "a subject as long as a page": {"sub": "x" * 201},
    "an expiry that is true": {"exp": True},
    "an expiry that is text": {"exp": "tomorrow"},
    "an expiry beyond all time": {"exp": 2**70},
}


@pytest.mark.parametrize("claims", WRONG.values(), ids=WRONG)
def test_a_token_with_a_wrong_claim_is_401(
    desk: Desk, rsa_key: SigningKey, claims: dict[str, Any]
) -> None:
    assert desk.refusal(rsa_key.sign(desk.issuer.claims(**claims))) == 401


def test_clocks_may_differ_by_the_leeway(desk: Desk, rsa_key: SigningKey) -> None:
    for claims in ({"exp": NOW_S - 29}, {"nbf": NOW_S + 29}, {"iat": NOW_S + 29}):
        assert desk.reader.read(rsa_key.sign(desk.issuer.claims(**claims))).role == "operator"


def test_without_a_grant_the_caller_is_known_and_denied(desk: Desk, rsa_key: SigningKey) -> None:
    assert desk.refusal(rsa_key.sign(desk.issuer.claims(groups=["sales"]))) == 403


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_an_unsigned_token_is_refused(desk: Desk) -> None:
    claims = part(desk.issuer.claims())
    for name in ("none", "None", "NONE", ""):
        assert desk.refusal(f"{part({'alg': name, 'kid': 'k1'})}.{claims}.") == 401


def test_an_hmac_with_the_public_key_is_refused(desk: Desk, rsa_key: SigningKey) -> None:
    header = part({"alg": "HS256", "kid": "k1", "typ": "JWT"})
    signing = f"{header}.{part(desk.issuer.claims())}".encode()
    hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = base64.urlsafe_b64encode(hmac.sign(signing, rsa_key.pem())).rstrip(b"=").decode()
    assert desk.refusal(f"{signing.decode()}.{signature}") == 401


def test_neither_none_nor_an_hmac_can_be_allowed() -> None:
    for algorithm in ("none", "HS256"):
        with pytest.raises(ValidationError):
            OidcSettings.model_validate({"algorithms": [algorithm]})


def test_a_key_of_another_kind_than_the_algorithm_is_refused(desk: Desk) -> None:
    desk.issuer.keys = [SigningKey("k1", "ES256")]
    assert desk.refusal(SigningKey("k1", "RS256").sign(desk.issuer.claims())) == 401


def test_a_token_signed_by_somebody_elses_key_is_refused(desk: Desk) -> None:
    other = SigningKey("k1", "RS256", rsa.generate_private_key(65537, 2048))
    assert desk.refusal(other.sign(desk.issuer.claims())) == 401


def test_an_algorithm_outside_the_list_is_refused(issuer: Issuer, rsa_key: SigningKey) -> None:
    desk = Desk(issuer, algorithms=("ES256",))
    assert desk.refusal(rsa_key.sign(issuer.claims())) == 401
    assert issuer.asked == 0
    desk.keys.close()


def test_a_changed_byte_anywhere_is_refused(desk: Desk, rsa_key: SigningKey) -> None:
    token = rsa_key.sign(desk.issuer.claims())
    for place in range(0, len(token) - 2, 7):
        other = "A" if token[place] != "A" else "B"
        changed = token[:place] + other + token[place + 1 :]
        assert desk.refusal(changed) == 401, place


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c", "....", "e30.e30.", "\x00.\x00.\x00", "x" * 200_000]
)
def test_what_is_no_token_is_refused_without_asking_anybody(desk: Desk, token: str) -> None:
    with pytest.raises(Denied) as denied:
        desk.reader.read(token)
    assert denied.value.status == 401
    assert desk.issuer.asked == 0


def test_a_huge_token_is_refused_even_with_a_right_signature(
    desk: Desk, rsa_key: SigningKey
) -> None:
    token = rsa_key.sign(desk.issuer.claims(filler="x" * 20_000))
    assert desk.refusal(token) == 401
    assert desk.issuer.asked == 0


def test_a_header_that_must_be_understood_is_refused(desk: Desk, rsa_key: SigningKey) -> None:
    assert desk.refusal(rsa_key.sign(desk.issuer.claims(), crit=["exp"], exp=1)) == 401


def test_keys_are_asked_for_once_and_kept(desk: Desk, rsa_key: SigningKey) -> None:
    token = rsa_key.sign(desk.issuer.claims())
    for _ in range(20):
        desk.reader.read(token)
    assert desk.issuer.asked == 1


def test_an_unknown_key_id_asks_again_but_no_oftener_than_allowed(desk: Desk) -> None:
    guesses = [SigningKey(f"k{n}", "RS256").sign(desk.issuer.claims()) for n in range(2, 22)]
    assert {desk.refusal(token) for token in guesses} == {401}
    assert desk.issuer.asked == 1
    desk.mono.s += 31
    assert {desk.refusal(token) for token in guesses} == {401}
    assert desk.issuer.asked == 2


def test_a_new_key_of_the_issuer_is_taken_and_a_withdrawn_one_ends(
    desk: Desk, rsa_key: SigningKey
) -> None:
    old = rsa_key.sign(desk.issuer.claims())
    desk.reader.read(old)
    fresh = SigningKey("k2", "ES256")
    desk.issuer.keys = [fresh]
    desk.mono.s += 31
    assert desk.reader.read(fresh.sign(desk.issuer.claims())).id == "oidc:ana-17"
    assert desk.refusal(old) == 401


def test_while_the_issuer_is_down_known_keys_go_on_and_unknown_ones_are_503(
    desk: Desk, rsa_key: SigningKey
) -> None:
    token = rsa_key.sign(desk.issuer.claims())
    desk.reader.read(token)
    desk.issuer.stop()
    desk.mono.s += 3601
    assert desk.reader.read(token).role == "operator"
    with pytest.raises(Unavailable) as away:
        desk.reader.read(SigningKey("k2", "RS256").sign(desk.issuer.claims()))
    assert away.value.retry_after_s == 30
    desk.issuer.start()
    desk.mono.s += 31
    assert desk.refusal(SigningKey("k2", "RS256").sign(desk.issuer.claims())) == 401


def test_keys_that_could_not_be_asked_for_in_a_day_count_no_more(
    desk: Desk, rsa_key: SigningKey
) -> None:
    token = rsa_key.sign(desk.issuer.claims())
    desk.reader.read(token)
    desk.issuer.stop()
    desk.mono.s += 86_401
    with pytest.raises(Unavailable):
        desk.reader.read(token)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": [1, null, {}]}', b"x" * 300_000]
)
def test_a_broken_key_set_leaves_the_known_keys(
    desk: Desk, rsa_key: SigningKey, body: bytes
) -> None:
    token = rsa_key.sign(desk.issuer.claims())
    desk.reader.read(token)
    desk.issuer.broken = body
    desk.mono.s += 3601
    known = body != b'{"keys": [1, null, {}]}'
    if known:
        assert desk.reader.read(token).role == "operator"
    else:
        assert desk.refusal(token) == 401


def test_symmetric_weak_and_encrypting_keys_of_a_set_are_left_out(
    desk: Desk, rsa_key: SigningKey
) -> None:
    weak = SigningKey("weak", "RS256", rsa.generate_private_key(65537, 1024))
    secret = part("a secret that everybody can read").replace('"', "")
    members = [
        {"kty": "oct", "kid": "oct", "k": secret, "alg": "HS256"},
        rsa_key.public() | {"kid": "enc", "use": "enc"},
        weak.public(),
    ]
    desk.issuer.broken = json.dumps({"keys": members}).encode()
    claims = desk.issuer.claims()
    assert desk.refusal(weak.sign(claims)) == 401
    assert desk.refusal(SigningKey("enc", "RS256").sign(claims)) == 401


ODD: dict[str, dict[str, object]] = {
    "an algorithm that signs nothing": {"alg": "none", "kid": "odd"},
    "an algorithm that is a list": {"alg": ["RS256"], "kid": "odd"},
    "a kind that is a list": {"kty": ["RSA"], "kid": "odd"},
    "an id that is a list": {"kid": ["odd"]},
    "an id that is a number": {"kid": 7},
    "a private half": {"d": "AQAB", "kid": "odd"},
}


@pytest.mark.parametrize("odd", ODD)
def test_one_odd_key_of_a_set_is_left_out_and_the_others_count(
    desk: Desk, rsa_key: SigningKey, odd: str
) -> None:
    member = {**rsa_key.public(), **ODD[odd]}
    desk.issuer.broken = json.dumps({"keys": [member, rsa_key.public()]}).encode()
    assert desk.reader.read(rsa_key.sign(desk.issuer.claims())).role == "operator"
    assert desk.refusal(SigningKey("odd", "RS256").sign(desk.issuer.claims())) == 401


def test_a_key_set_nested_without_end_is_503_and_no_error_of_ours(
    desk: Desk, rsa_key: SigningKey
) -> None:
    desk.issuer.broken = b'{"keys": ' + b"[" * 100_000
    with pytest.raises(Unavailable):
        desk.reader.read(rsa_key.sign(desk.issuer.claims()))


def test_a_token_without_a_key_id_counts_only_where_there_is_one_key(issuer: Issuer) -> None:
    desk = Desk(issuer, jwks_url=f"{issuer.url}/keys")
    token = SigningKey(None, "RS256").sign(issuer.claims())
    assert desk.reader.read(token).role == "operator"
    issuer.keys.append(SigningKey("k2", "ES256"))
    desk.mono.s += 3601
    assert desk.refusal(token) == 401
    desk.keys.close()


@pytest.mark.parametrize("url", ["http://id.example.com", "ftp://id.example.com", "id.example.com"])
def test_an_issuer_in_the_clear_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        OidcSettings(issuer=url, audience=AUDIENCE)


def test_an_issuer_needs_an_audience() -> None:
    with pytest.raises(ValidationError, match="every service's tokens"):
        OidcSettings(issuer="https://id.example.com")
