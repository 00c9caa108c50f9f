"""Lock-out: an address that presents bad credentials again and again is not listened to a while.

A leaky bucket per address: each bad try fills it by one, and it loses ``failures`` per
``forget_s``. When it is full the address is locked for ``first_s · 2ⁿ``, at most ``longest_s``, n
being how often that happened; n falls by one for every ``longest_s`` without another episode. Keys
have 256 random bits, so this is not against guessing: it keeps a broken script or a scan from
costing a look-up each, and it is one line in the audit instead of thousands. Callers whose
credentials were good before are still let in from a locked address: one broken script behind a
gateway must not keep operators from the kill switch.

>>> table = Lockouts(LockoutSettings(failures=2, first_s=5))
>>> table.failed("10.0.0.1", 0), table.failed("10.0.0.1", 0), table.wait_s("10.0.0.1", 1_000_000)
(None, 5, 4)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from math import ceil

from controller.identity.settings import LockoutSettings
from signals.events import MICROS

NOWHERE = "local"
"""Callers without an address: a socket of this machine, or a test."""
SITE_BITS = 64
"""An IPv6 site has 2⁶⁴ addresses of its own, so it counts as one."""


class _Seen:
    """What is known of one address."""

    __slots__ = ("at_us", "episodes", "level", "until_us")

    def __init__(self, at_us: int) -> None:
        self.at_us = at_us
        self.level = 0.0
        self.episodes = 0.0
        self.until_us = 0


class Lockouts:
    """A bounded table of addresses; the one that failed longest ago goes first. Thread-safe."""

    def __init__(self, settings: LockoutSettings) -> None:
        self._settings = settings
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, address: str, now_us: int) -> int:
        """Whole seconds that the address is still locked for; 0 when it is not."""
        with self._lock:
            seen = self._seen.get(address)
            left_us = 0 if seen is None else seen.until_us - now_us
        return max(0, -(-left_us // MICROS))

    def failed(self, address: str, now_us: int) -> int | None:
        """One more bad credential. Seconds of the lock that begins with it, else None."""
        settings = self._settings
        with self._lock:
            seen = self._seen.setdefault(address, _Seen(now_us))
            self._seen.move_to_end(address)
            while len(self._seen) > settings.addresses:
                self._seen.popitem(last=False)
            if now_us < seen.until_us:
                return None
            self._decay(seen, now_us)
            seen.level += 1
            if seen.level < settings.failures:
                return None
            locked_s = int(min(settings.first_s * 2 ** ceil(seen.episodes), settings.longest_s))
            seen.level = 0.0
            seen.episodes = min(seen.episodes + 1, 32.0)
            seen.until_us = now_us + locked_s * MICROS
            seen.at_us = seen.until_us
            return locked_s

    def _decay(self, seen: _Seen, now_us: int) -> None:
        """Forget for the time since the last try, or since the lock's end."""
        passed_s = max(0, now_us - seen.at_us) / MICROS
        seen.level = max(
            0.0, seen.level - passed_s * self._settings.failures / self._settings.forget_s
        )
        seen.episodes = max(0.0, seen.episodes - passed_s / self._settings.longest_s)
        seen.at_us = now_us


def address_of(peer: str | None, forwarded: Sequence[str], trusted: Sequence[str]) -> str:
    """Where a call comes from: the peer, or what trusted proxies say of it.

    ``forwarded``: the values of ``X-Forwarded-For``, as they came. Each proxy adds the address
    that it heard from at the end, so the last one that is no proxy of ours is the caller; what
    stands before it he may have written himself.

    >>> address_of("10.0.0.1", ["6.6.6.6, 192.0.2.7"], ["10.0.0.0/8"])
    '192.0.2.7'
    >>> address_of("10.0.0.1", ["192.0.2.7"], [])
    '10.0.0.1'
    """
    found = _parsed(peer)
    if found is None:
        return NOWHERE if peer is None else peer[:64]
    networks = [ip_network(one) for one in trusted]
    hops = [hop.strip() for value in forwarded for hop in value.split(",")]
    while hops and any(found in network for network in networks):
        before = _parsed(hops.pop())
        if before is None:
            break
        found = before
    return _site(found)


def _parsed(text: str | None) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text or "")
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return found if mapped is None else mapped


def _site(found: IPv4Address | IPv6Address) -> str:
    if isinstance(found, IPv4Address) or found.is_loopback:
        return str(found)
    return str(ip_network((found, SITE_BITS), strict=False))
