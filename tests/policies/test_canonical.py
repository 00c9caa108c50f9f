"""The bytes that are hashed are RFC 8785's, as an independent writer of it makes them."""

from __future__ import annotations

import random
from typing import Any

import rfc8785

from policies.audit import Entry, canonical, plain

LETTERS = [
    *map(chr, range(0x100)),
    *"\u2028\u2029\ufffe\ue000\U00010000\U0001f600",
]


def anything(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth < 4 and kind < 0.25:
        return {word(rng): anything(rng, depth + 1) for _ in range(rng.randint(0, 5))}
    if depth < 4 and kind < 0.4:
        return [anything(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    number = rng.random() * 10.0 ** rng.randint(-20, 20)
    return rng.choice([word(rng), number, rng.randint(-(2**70), 2**70), True, False, None, -0.0])


def word(rng: random.Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 8)))


def test_an_entrys_bytes_are_canonical_whatever_is_in_it() -> None:
    seed = random.SystemRandom().getrandbits(32)
    rng = random.Random(seed)
    for index in range(2000):
        entry = Entry(
            index=index,
            at_us=rng.randint(0, 2**53 - 1),
            actor=word(rng),
            action=word(rng),
            subject=word(rng),
            target=word(rng),
            details={word(rng): anything(rng) for _ in range(3)},
        )
        members = {name: getattr(entry, name) for name in ("index", "at_us", "actor", "action")}
        members |= {"subject": entry.subject, "target": entry.target}
        members["details"] = plain(entry.details)
        assert canonical(entry) == rfc8785.dumps(members), f"seed {seed}"
