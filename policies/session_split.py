"""Which arm a session is in: a keyed hash, the same wherever and whenever it is computed.

The idea: two arms that run beside each other in one engine are told apart by who asks. A session
keeps its arm for as long as the salt stays, on every replica and after every restart, without
anybody remembering it; and nobody who does not know the salt can choose his own::

    u = first 8 bytes of BLAKE2b(key = salt, session) / 2^64        candidate if u < share

>>> one = SessionSplit(salt="5f1c", share=0.5)
>>> [arm_of(one, f"s{n}") for n in range(4)]
['candidate', 'candidate', 'baseline', 'candidate']
>>> sum(arm_of(one, f"session-{n}") == "candidate" for n in range(10_000))
5007

Another salt is another, independent split. Source: Kohavi, Tang and Xu, *Trustworthy Online
Controlled Experiments* (2020), ch. 4 (randomisation by hashing with a seed per experiment). Why not
a table of sessions that were drawn: it would have to be shared by all replicas, and to survive.
"""

from __future__ import annotations

import hashlib
from typing import Final

from policies.runtime_config import Arm, SessionSplit, TrialStamp

MAX_SALT: Final = 64
"""Bytes: BLAKE2b takes no longer key."""
_RANGE: Final = 2**64


def same_split(before: TrialStamp | None, after: TrialStamp | None) -> bool:
    """Whether sessions keep their arms: the same trial, by the same salt and share."""
    if before is None or after is None or after.split is None:
        return False
    return (before.id, before.split) == (after.id, after.split)


def arm_of(split: SessionSplit, session: str) -> Arm:
    """The arm of one session; of a request without one, by the request's own id."""
    key, text = split.salt.encode(), session.encode()
    drawn = int.from_bytes(hashlib.blake2b(text, key=key, digest_size=8).digest(), "big")
    return "candidate" if drawn < split.share * _RANGE else "baseline"
