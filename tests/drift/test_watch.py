from __future__ import annotations

import math
import random
from itertools import pairwise

import msgspec
import pytest

from controller.drift.context import ContextResidual
from controller.drift.watch import Watch, start_blocked


def block(
    index: int, rng: random.Random, *, slower: float = 0.0
) -> tuple[tuple[float, ...], float]:
    """A load that swings over 80 blocks, and a latency that follows it and something of its own."""
    load = 2.0 + math.sin(index / 13)
    return (load,), 1.5 * load + slower + rng.gauss(0, 0.05)


def watched(
    n: int, *, seed: int, watch: Watch | None = None, slower: float = 0.0, context: bool = True
) -> tuple[Watch, int | None]:
    """The watch after ``n`` blocks, and the block at which it first said why not."""
    rng, found = random.Random(seed), None
    watch = watch or Watch(figure="ttft:live")
    begins = watch.model.n
    for index in range(begins, begins + n):
        seen, y = block(index, rng, slower=slower)
        watch = watch.update(seen if context else (), y)
        if found is None and watch.why_not():
            found = index - begins
    return watch, found


@pytest.mark.parametrize("seed", range(5))
def test_a_latency_that_its_load_explains_is_no_drift(seed: int) -> None:
    _, found = watched(400, seed=seed)
    assert found is None, f"seed {seed}"
    plain = Watch(figure="ttft:live", model=ContextResidual(whiten=False))
    _, raw = watched(400, seed=seed, watch=plain, context=False)
    assert raw is not None, f"seed {seed}: without the context the load itself is reported"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slower", [0.3, -0.3])
def test_a_change_of_the_engine_is_found_and_said(seed: int, slower: float) -> None:
    quiet, none = watched(200, seed=seed)
    assert none is None
    _, found = watched(20, seed=50 + seed, watch=quiet, slower=slower)
    assert found is not None, f"seed {seed}"
    assert found <= 8


def test_no_trial_starts_while_one_figure_drifts_and_the_words_say_which() -> None:
    quiet, _ = watched(200, seed=1)
    drifting, _ = watched(6, seed=2, watch=quiet, slower=0.5)
    other = msgspec.structs.replace(quiet, figure="tpot:live")
    assert start_blocked([other, quiet]) == ""
    assert start_blocked([other, drifting]).startswith("ttft:live is not what its load explains")


def test_a_watch_is_stored_and_goes_on_where_it_was() -> None:
    whole, _ = watched(120, seed=3)
    again = msgspec.json.decode(msgspec.json.encode(whole), type=Watch)
    assert again == whole
    one, two = (watch.update((2.0,), 3.0) for watch in (whole, again))
    assert one == two


def test_a_block_without_figures_or_of_another_kind_is_left_out() -> None:
    model, _ = ContextResidual().update((1.0,), 2.0)
    for context, y in (((1.0,), math.nan), ((math.inf,), 1.0), ((1.0, 2.0), 1.0)):
        assert model.update(context, y) == (model, None)


def test_the_residual_is_standardised_and_its_neighbours_are_unlike() -> None:
    rng, model, found, carried = random.Random(7), ContextResidual(), [], 0.0
    for index in range(600):
        carried = 0.8 * carried + rng.gauss(0, 0.3)
        load = math.sin(index / 10)
        model, x = model.update((load,), 2 * load + carried)
        if x is not None and index > 100:
            found.append(x)
    mean = sum(found) / len(found)
    square = sum(x * x for x in found) / len(found)
    lagged = sum(a * b for a, b in pairwise(found)) / len(found)
    assert abs(mean) < 0.2
    assert square == pytest.approx(1.0, rel=0.25)
    assert abs(lagged / square) < 0.2
    assert model.alike == pytest.approx(0.8, abs=0.12)
