from __future__ import annotations

import msgspec
import pytest

from controller.plant.fingerprint import PARTS, Fingerprint, carried, weighed
from controller.plant.residual import Measured, Residual
from controller.plant.settings import PlantSettings
from tests.plant.samples import LADDER

MODEL = PlantSettings()
HERE = Fingerprint(
    hardware="epyc", engine="1.2", model="smollm2", quantisation="bf16", flags=("a", "b")
)
OTHER = {"hardware": "h200", "engine": "1.3", "model": "llama", "quantisation": "int8"}


def other(part: str) -> Fingerprint:
    return msgspec.structs.replace(HERE, **{part: ("c",) if part == "flags" else OTHER[part]})


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_in_the_key(part: str) -> None:
    assert other(part).key != HERE.key
    assert not carried(other(part), now=HERE).same


def test_the_order_of_flags_is_not_in_the_key_and_their_borders_are() -> None:
    turned = msgspec.structs.replace(HERE, flags=("b", "a"))
    assert turned.key == HERE.key
    assert carried(turned, now=HERE).same
    glued = msgspec.structs.replace(HERE, flags=("ab",))
    assert glued.key != HERE.key


@pytest.mark.parametrize(
    ("part", "shape", "weight"),
    [
        ("hardware", True, 0.0),
        ("engine", True, MODEL.foreign_weight),
        ("model", False, 0.0),
        ("quantisation", False, 0.0),
        ("flags", True, MODEL.foreign_weight),
    ],
)
def test_what_differs_decides_what_is_left(part: str, shape: bool, weight: float) -> None:
    found = carried(other(part), now=HERE, model=MODEL)
    assert (found.shape, found.weight) == (shape, weight)
    assert found.weight < 1
    assert part in found.words()


def test_the_strictest_of_several_differences_holds() -> None:
    both = msgspec.structs.replace(other("engine"), model="llama")
    found = carried(both, now=HERE)
    assert (found.shape, found.weight) == (False, 0.0)


def test_an_engine_that_does_not_say_what_it_runs_on_shares_nothing_with_one_that_does() -> None:
    silent = msgspec.structs.replace(HERE, hardware="", engine="")
    found = carried(silent, now=HERE)
    assert (found.shape, found.weight) == (False, 0.0)
    assert "hardware ?, not epyc" in found.words()


def test_the_line_of_an_engine_is_read() -> None:
    read = Fingerprint.read("smollm2-135m-instruct/b179c9523d0e/bf16-avx512")
    assert read.model == "smollm2-135m-instruct/b179c9523d0e"
    assert read.quantisation == "bf16-avx512"
    assert Fingerprint.read("cpu") == Fingerprint(model="cpu")


def test_a_residual_of_another_model_is_left_out_and_of_the_same_one_counts_in_full() -> None:
    here = Fingerprint.read("m/w/bf16")
    mine = Measured(value=8, log_ratio=0.2, at_us=0, fingerprint="m/w/bf16")
    theirs = Measured(value=8, log_ratio=2.0, at_us=0, fingerprint="n/w/bf16")
    kept = weighed([mine, theirs], now=here, model=MODEL)
    assert kept == (mine,)
    found = Residual.of(kept, LADDER, now_us=0, model=MODEL)
    assert 0 < found.at(8).mean < 0.2
