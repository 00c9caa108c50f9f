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
from typing import Final, Protocol, get_args

from msgspec import Struct

from controller.store.port import ROLES, Principal, Role, Tx
from controller.store.settings import StoreSettings
from controller.store.sql import SqlReader
from policies.ids import new_id
from signals.errors import Denied, Rejected
from signals.events import MICROS, Kind
from signals.ingest.keys import Producer
from signals.settings import Name

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
    """What a new key should be. ``targets`` bound every role.

    ``kinds`` (at least one for a producer) and ``names`` bound what a producer may post; an admin
    may post all. ``"*"`` stands for all. ``rate_per_s``, ``influence`` and ``team``: see
    ``Principal``.
    """

    name: str
    role: Role
    targets: tuple[str, ...] = (ANY,)
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
        kinds=(ANY,) if wanted.role == "admin" else wanted.kinds,
        names=wanted.names if wanted.role in POSTING else (),
        rate_per_s=wanted.rate_per_s,
        influence=wanted.influence,
        team=wanted.team,
        expires_us=wanted.expires_us,
    )
    token = f"tt_{_bare(principal.id)}_{secrets.token_urlsafe(SECRET_BYTES)}"
    tx.add_key(principal, _sha256(token), actor=actor, at_us=at_us)
    return principal, token


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


class Authenticator:
    """From a token to its principal, at most ``cache_s`` out of date. Safe in any thread."""

    def __init__(
        self, store: Snapshots, *, cache_s: float = 2.0, now_us: Callable[[], int] = wall_us
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
        self._known: OrderedDict[bytes, tuple[int, Principal]] = OrderedDict()
        self._lock = threading.Lock()

    def lookup(self, token: str) -> Principal:
        """Raises ``Denied`` (401) for an unknown, expired or revoked key, ``Unavailable``."""
        now_us = self._now_us()
        principal = self._find(token, now_us) if len(token) <= MAX_TOKEN else None
        if principal is None:
            raise Denied("no such key", authenticated=False)
        if principal.revoked_us is not None:
            raise Denied("the key was revoked", authenticated=False)
        if principal.expires_us is not None and principal.expires_us <= now_us:
            raise Denied("the key has expired", authenticated=False)
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
            self._known[hashed] = (now_us, principal)
            self._known.move_to_end(hashed)
            while len(self._known) > MAX_CACHED:
                self._known.popitem(last=False)
        return principal


class StoreKeyReader:
    """Ingest's view of the keys: ``store.db``, read-only, from another process.

    A ``signals.ingest.keys.KeyReader``. Only producers and admins may post.
    """

    def __init__(
        self,
        path: Path,
        *,
        cache_s: float = 2.0,
        now_us: Callable[[], int] = wall_us,
        settings: StoreSettings | None = None,
    ) -> None:
        self._store = SqlReader(path, settings)
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
    start = f"tt_{_bare(principal.id)}_".encode()
    return hmac.compare_digest(token.encode()[: len(start)], start)


def _bare(key_id: str) -> str:
    return key_id.removeprefix("key_")


def _sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
