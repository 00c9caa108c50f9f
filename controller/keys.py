"""Keys of callers: made once, shown once, kept as a hash, looked up through a short cache.

A token is ``tt_<32 hex digits of the key's id>_<43 characters>``; the last part is 32 random bytes.
Plain SHA-256 is the right hash for it: slow hashes exist to make guessing of *weak* secrets dear,
and 256 random bits can't be guessed at any speed, while a lookup must cost microseconds.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol, TypeVar, get_args

from msgspec import Struct

from controller.store.address import StoreAddress
from controller.store.port import ROLES, Principal, Role, Tx
from controller.store.settings import StoreSettings
from policies.ids import new_id
from signals.errors import Denied, Rejected
from signals.events import MICROS, Kind
from signals.ingest.keys import Producer
from signals.settings import Name

Value = TypeVar("Value")

ANY: Final = "*"
COMMAND: Final = "command"
KINDS: Final = (*(kind for kind in get_args(Kind) if kind != COMMAND), ANY)
"""What a key may be given. Commands are left out, and ``"*"`` does not cover them either."""
SERVE: Final = "serve"
POSTING: Final[tuple[Role, ...]] = ("producer", "admin")
SECRET_BYTES: Final = 32
MAX_CACHE_S: Final = 5.0
MAX_CACHED: Final = 4096
MAX_TOKEN: Final = 256
MAX_GRACE_S: Final = 7 * 86_400
START: Final = "tt_"
USED_NOTE: Final = "key_used:"
MAX_NAME: Final = 128
MAX_RATE_PER_S: Final = 1_000_000
TEAM: Final = re.compile(get_args(Name)[1].pattern)


class Snapshots(Protocol):
    """What a lookup needs of a store."""

    def read(self) -> AbstractContextManager[Tx]:
        """As ``Store.read``."""


def wall_us() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000


class KeyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new key should be. ``targets`` and ``intents`` bound every role.

    ``kinds`` (at least one for a producer) and ``names`` bound what a producer may post; an admin
    may post all. ``"*"`` stands for all. ``rate_per_s``, ``influence`` and ``team``: see
    ``Principal``.
    """

    name: str
    role: Role
    targets: tuple[str, ...] = (ANY,)
    intents: tuple[str, ...] = (ANY,)
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = (ANY,)
    rate_per_s: float | None = None
    influence: float = 1.0
    team: str = ""
    expires_us: int | None = None


def create(tx: Tx, wanted: KeyRequest, *, actor: str, at_us: int) -> tuple[Principal, str]:
    """A new key and its token, which nobody can show again. Raises ``Rejected``."""
    _check(wanted, at_us)
    return _create(tx, wanted, actor=actor, at_us=at_us)


def create_for_serve(tx: Tx, *, actor: str, at_us: int) -> tuple[Principal, str]:
    """The one key that may post commands. Only the first start makes it, into a file of serve's."""
    wanted = KeyRequest(name=SERVE, role="producer", kinds=(COMMAND,))
    return _create(tx, wanted, actor=actor, at_us=at_us)


def _create(tx: Tx, wanted: KeyRequest, *, actor: str, at_us: int) -> tuple[Principal, str]:
    principal = Principal(
        id=new_id("key", at_us, secrets.token_bytes(8)),
        name=wanted.name,
        role=wanted.role,
        targets=wanted.targets,
        intents=wanted.intents,
        kinds=(ANY,) if wanted.role == "admin" else wanted.kinds,
        names=wanted.names if wanted.role in POSTING else (),
        rate_per_s=wanted.rate_per_s,
        influence=wanted.influence,
        team=wanted.team,
        expires_us=wanted.expires_us,
    )
    token = _new_token(principal.id)
    tx.add_key(principal, _sha256(token), actor=actor, at_us=at_us)
    return principal, token


def rotate(tx: Tx, key_id: str, *, grace_s: int, actor: str, at_us: int) -> tuple[Principal, str]:
    """A new token for a key, whose rights and id stay; the old one counts ``grace_s`` longer.

    It also ends the grace of older tokens by then: 0 leaves only the new one. Raises ``NotFound``,
    ``Conflict`` for a dead key, ``Rejected``.
    """
    if not 0 <= grace_s <= MAX_GRACE_S:
        raise Rejected(
            f"a grace of {grace_s} s is out of range",
            field="grace_s",
            value=grace_s,
            allowed=f"0..{MAX_GRACE_S} s",
        )
    token = _new_token(key_id)
    until_us = at_us + grace_s * MICROS
    rotated = tx.rotate_key(key_id, _sha256(token), until_us=until_us, actor=actor, at_us=at_us)
    return rotated, token


def covers(allowed: Sequence[str], value: str) -> bool:
    """Whether one of a principal's lists names ``value``, or everything."""
    return value in allowed or ANY in allowed


def influences(principals: Iterable[Principal], *, now_us: int) -> dict[str, float]:
    """Producer's name -> the largest share that its values may have of any rate's weight.

    Of several live keys of one name the smallest counts: a second key is no way round a cap. A name
    that has only dead keys keeps the cap of these, for what it posted is in the windows still.
    """
    capped: dict[str, float] = {}
    dead: dict[str, float] = {}
    for one in principals:
        if one.role in POSTING:
            found = capped if is_live(one, now_us) else dead
            found[one.name] = min(one.influence, found.get(one.name, 1.0))
    return dead | capped


def is_live(principal: Principal, now_us: int) -> bool:
    """Whether a key is neither revoked nor expired."""
    expires_us = principal.expires_us
    return principal.revoked_us is None and (expires_us is None or now_us < expires_us)


class Tokens(Protocol):
    """Bearer tokens that are no keys of ours."""

    def read(self, token: str) -> Principal:
        """Raises ``Denied`` (401, 403), ``Unavailable``."""


class Authenticator:
    """From a token to its principal, at most ``cache_s`` out of date. Safe in any thread.

    ``tokens`` reads what does not begin as a key does; None: only keys count.
    """

    def __init__(
        self,
        store: Snapshots,
        *,
        cache_s: float = 2.0,
        now_us: Callable[[], int] = wall_us,
        tokens: Tokens | None = None,
    ) -> None:
        if not 0 <= cache_s <= MAX_CACHE_S:
            raise Rejected(
                f"cache_s = {cache_s:g} is out of range",
                field="cache_s",
                value=cache_s,
                allowed=f"0..{MAX_CACHE_S:g} s",
            )
        self._store = store
        self._cache_us = int(cache_s * MICROS)
        self._now_us = now_us
        self._tokens = tokens
        self._known: OrderedDict[bytes, tuple[int, Principal]] = OrderedDict()
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()

    def lookup(self, token: str) -> Principal:
        """Raises ``Denied`` (401) for an unknown, expired or revoked key, ``Unavailable``.

        For a token that is no key: what ``tokens`` raises.
        """
        hashed = _sha256(token)
        try:
            if self._tokens is not None and not token.startswith(START):
                principal = self._tokens.read(token)
            else:
                principal = self._key(token)
        except Denied:
            with self._lock:
                self._good.pop(hashed, None)
            raise
        with self._lock:
            _remember(self._good, hashed, None)
        return principal

    def was_good(self, token: str) -> bool:
        """Whether this very token counted when it was last seen. Asks nobody."""
        with self._lock:
            return _sha256(token) in self._good

    def used(self) -> dict[str, int]:
        """Key's id -> when it was last used here, in µs: what ``note_uses`` has not noted yet."""
        with self._lock:
            return dict(self._used)

    def note_uses(self, tx: Tx) -> None:
        """Write down when keys were last used. A cheap note each; nothing of it is in the audit."""
        for key_id, at_us in self.used().items():
            tx.set_note(USED_NOTE + key_id, str(at_us))
            with self._lock:
                if self._used.get(key_id) == at_us:
                    del self._used[key_id]

    def last_used(self, tx: Tx, key_id: str) -> int | None:
        """When a key was last used, in µs; None when it never was."""
        noted = tx.note(USED_NOTE + key_id)
        found = [us for us in (self.used().get(key_id), noted and int(noted)) if us]
        return max(found, default=None)

    def _key(self, token: str) -> Principal:
        now_us = self._now_us()
        principal = self._find(token, now_us) if len(token) <= MAX_TOKEN else None
        if principal is None:
            raise Denied("no such key", authenticated=False)
        if principal.revoked_us is not None:
            raise Denied("the key was revoked", authenticated=False)
        if principal.expires_us is not None and principal.expires_us <= now_us:
            raise Denied("the key has expired", authenticated=False)
        with self._lock:
            self._used[principal.id] = now_us
        return principal

    def forget(self) -> None:
        """Drop the cache, so that a key just revoked here stops working here at once."""
        with self._lock:
            self._known.clear()

    def _find(self, token: str, now_us: int) -> Principal | None:
        """Only keys that exist are cached: guesses can't push them out."""
        hashed = _sha256(token)
        with self._lock:
            seen_us, principal = self._known.get(hashed, (0, None))
        if principal is not None and 0 <= now_us - seen_us < self._cache_us:
            return principal
        with self._store.read() as tx:
            principal = tx.key_by_hash(hashed)
        if principal is None or not _names(token, principal):
            return None
        with self._lock:
            _remember(self._known, hashed, (now_us, principal))
        return principal


class StoreKeyReader:
    """Ingest's view of the keys: the store, read-only, from another process.

    A ``signals.ingest.keys.KeyReader``. Only producers and admins may post.
    """

    def __init__(
        self,
        where: StoreAddress | Path,
        *,
        cache_s: float = 2.0,
        now_us: Callable[[], int] = wall_us,
        settings: StoreSettings | None = None,
    ) -> None:
        from controller.store.sql import SqlReader

        self._store = SqlReader(where, settings)
        self._keys = Authenticator(self._store, cache_s=cache_s, now_us=now_us)

    def lookup(self, token: str) -> Producer | None:
        """None for no key, a dead one, or one that may not post. Raises ``Unavailable``."""
        try:
            principal = self._keys.lookup(token)
        except Denied:
            return None
        if principal.role not in POSTING:
            return None
        return Producer(
            name=principal.name,
            kinds=frozenset(principal.kinds),
            targets=frozenset(principal.targets),
            names=frozenset(principal.names),
            rate_per_s=principal.rate_per_s,
        )

    def close(self) -> None:
        """Idempotent."""
        self._store.close()


def _check(wanted: KeyRequest, at_us: int) -> None:
    name, role, expires_us = wanted.name, wanted.role, wanted.expires_us
    if not name.strip() or len(name) > MAX_NAME:
        raise Rejected(
            "a key has a name", field="name", value=name, allowed=f"1..{MAX_NAME} characters"
        )
    if role not in ROLES:
        raise Rejected(f"no role {role!r}", field="role", value=role, allowed=", ".join(ROLES))
    if not wanted.targets:
        raise Rejected(
            "a key without targets may do nothing", field="targets", allowed="names or *"
        )
    if not wanted.intents or (role == "producer" and ANY not in wanted.intents):
        raise Rejected(
            "a key without intents may do nothing; a producer's is bounded by kinds and names",
            field="intents",
            value=", ".join(wanted.intents) or None,
            allowed="names or *, for a producer only *",
        )
    unknown = [kind for kind in wanted.kinds if kind not in KINDS]
    if unknown or (role == "producer" and not wanted.kinds):
        raise Rejected(
            "a producer's key says which kinds it may post",
            field="kinds",
            value=", ".join(unknown) or None,
            allowed=", ".join(KINDS),
        )
    if expires_us is not None and expires_us <= at_us:
        raise Rejected("the key would be expired already", field="expires_us", value=expires_us)
    if name == SERVE:
        raise Rejected("that is the product's own name", field="name", value=name)
    _check_bounds(wanted)


def _check_bounds(wanted: KeyRequest) -> None:
    rate_per_s, influence, team = wanted.rate_per_s, wanted.influence, wanted.team
    if rate_per_s is not None and not 0 < rate_per_s <= MAX_RATE_PER_S:
        raise Rejected(
            f"a rate of {rate_per_s:g} events/s is out of range",
            field="rate_per_s",
            value=rate_per_s,
            allowed=f"above 0..{MAX_RATE_PER_S} events/s",
        )
    if not 0 < influence <= 1:
        raise Rejected(
            f"an influence of {influence:g} is no share",
            field="influence",
            value=influence,
            allowed="above 0..1",
        )
    if team and not TEAM.fullmatch(team):
        raise Rejected(
            f"{team!r} is no team's name", field="team", value=team, allowed=TEAM.pattern
        )


def _names(token: str, principal: Principal) -> bool:
    """Whether the token carries the id of the key that its hash was found under."""
    start = f"{START}{_bare(principal.id)}_".encode()
    return hmac.compare_digest(token.encode()[: len(start)], start)


def _remember(cache: OrderedDict[bytes, Value], hashed: bytes, value: Value) -> None:
    """Put it in last; the longest unseen ones go."""
    cache[hashed] = value
    cache.move_to_end(hashed)
    while len(cache) > MAX_CACHED:
        cache.popitem(last=False)


def _new_token(key_id: str) -> str:
    return f"{START}{_bare(key_id)}_{secrets.token_urlsafe(SECRET_BYTES)}"


def _bare(key_id: str) -> str:
    return key_id.removeprefix("key_")


def _sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
