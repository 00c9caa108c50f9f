"""The sketch's own bin key is the library's."""

from __future__ import annotations

import random

from ddsketch.mapping import LogarithmicMapping

from signals.features import sketch

SEED = 7


def test_a_value_falls_into_the_bin_that_the_library_says() -> None:
    rng = random.Random(SEED)
    mapping = LogarithmicMapping(sketch.RELATIVE_ACCURACY)
    values = [*range(1, 3_000), *(rng.randrange(1, 10**12) for _ in range(20_000))]
    for value in values:
        bins: sketch.Bins = {}
        sketch.add(bins, value)
        assert bins == {mapping.key(value): 1}, value


def test_nothing_is_shorter_than_a_microsecond() -> None:
    bins: sketch.Bins = {}
    for value in (-5, 0, 1):
        sketch.add(bins, value)
    assert bins == {LogarithmicMapping(sketch.RELATIVE_ACCURACY).key(1): 3}
