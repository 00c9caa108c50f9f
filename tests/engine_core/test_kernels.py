"""The kernels: right, and the same to the bit whatever stands beside a row."""

from __future__ import annotations

import ctypes
import math
import platform
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.embedded.kernels import compiling
from engine.embedded.kernels.calling import CHOICE, load_kernels
from engine.embedded.kernels.compiling import compile_kernels
from engine.embedded.model import Model, Rows, interleave, rows_of
from engine.settings import default_cache
from signals.errors import Rejected, Unavailable
from tests.engine_core.conftest import KV_BLOCKS, Loaded

TARGETS = ["-march=native", "-DTRIMTAB_PORTABLE"]
if platform.machine() == "x86_64":
    TARGETS.append("-mavx2 -mfma")
SEED = 20_240_601


def kernels(target: str) -> ctypes.CDLL:
    return load_kernels(
        compile_kernels(default_cache(), head_dim=64, group=3, target=tuple(target.split()))
    )


def product(library: ctypes.CDLL, a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out, width = w.shape
    packed, to = torch.empty_like(w), torch.empty(len(a), out)
    library.trimtab_pack(w.data_ptr(), out, width, packed.data_ptr())
    library.trimtab_product(a.data_ptr(), len(a), width, packed.data_ptr(), out, to.data_ptr())
    return to


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_of_a_product_does_not_depend_on_how_many_rows_there_are(target: str) -> None:
    library = kernels(target)
    random = torch.Generator().manual_seed(SEED)
    w = torch.randn(96, 192, generator=random).bfloat16()
    a = torch.randn(41, 192, generator=random).bfloat16()
    alone = torch.cat([product(library, a[i : i + 1].clone(), w) for i in range(len(a))])
    for rows in range(1, len(a) + 1):
        assert torch.equal(product(library, a[:rows].clone(), w), alone[:rows]), rows
    exact = a.double() @ w.double().T
    assert (alone.double() - exact).abs().max() < 1e-4 * exact.abs().max()


def logits(model: Model, tokens: list[int], cuts: list[int], table: list[int]) -> torch.Tensor:
    """Logits after ``tokens`` when they arrive in chunks that end at ``cuts``."""
    at, seen = 0, torch.empty(0)
    for cut in [*cuts, len(tokens)]:
        rows = rows_of(tokens[at:cut], start=at, table=table, choice=(0.0, 1.0, 0))
        seen, at = model.logits(rows), cut
    return seen[0]


@pytest.mark.parametrize("target", TARGETS)
def test_logits_are_the_same_bits_however_the_prompt_was_cut(loaded: Loaded, target: str) -> None:
    native = target == TARGETS[0]
    tokens = np.random.default_rng(SEED).integers(100, 40_000, size=75 if native else 19).tolist()
    model = loaded.open_model(threads=2, target=target)
    whole = logits(model, tokens, [], list(range(8)))
    for cuts in ([1], [16, 32], [17, 18, 50], [70, 71, 72, 73, 74]) if native else ([1, 17],):
        again = logits(model, tokens, list(cuts), [40, 3, 99, 200, 7, 1, 2, 0])
        assert torch.equal(again, whole), f"{model.numeric_class}, cut at {cuts}"
    model.close()


def test_logits_are_the_same_bits_with_any_number_of_threads(loaded: Loaded) -> None:
    tokens = np.random.default_rng(SEED).integers(100, 40_000, size=50).tolist()
    seen = []
    for threads in (1, 2, 3):
        model = loaded.open_model(threads=threads, kv_blocks=32)
        seen.append(logits(model, tokens, [20], list(range(8))))
        model.close()
    assert torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0], seen[2])


def test_every_target_is_its_own_numeric_class() -> None:
    classes = {kernels(target).trimtab_numeric_class().decode() for target in TARGETS}
    assert "bf16-mul-add-fp32acc-fixed-order/portable" in classes
    assert len(classes) >= 2


def draws(
    model: Model, tokens: list[int], *, temperature: float, top_p: float, seeds: range
) -> list[int]:
    """The next token under many seeds, ``len(seeds)`` ≤ 64 rows of the same last token a step."""
    table = list(range(8))
    model.step(rows_of(tokens, start=0, table=table, choice=(0.0, 1.0, 0)))
    found: list[int] = []
    for first in range(seeds.start, seeds.stop, 64):
        few = list(range(first, min(first + 64, seeds.stop)))
        rows = Rows(
            tokens=np.full(len(few), tokens[-1], dtype=np.int32),
            positions=np.full(len(few), len(tokens) - 1, dtype=np.int32),
            sequence=np.zeros(len(few), dtype=np.int32),
            tables=np.array([table], dtype=np.int32),
            chosen=np.arange(len(few), dtype=np.int32),
            choices=np.array([(temperature, top_p, s, len(tokens)) for s in few], dtype=CHOICE),
        )
        found.extend(model.step(rows).tolist())
    return found


PROMPT = "Name any colour, in one word."


def next_distribution(model: Model, tokens: list[int], temperature: float) -> torch.Tensor:
    seen = logits(model, tokens, [], list(range(8)))
    return torch.softmax(seen.double() / temperature, dim=-1)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_tokens_are_drawn_with_their_probabilities(
    loaded: Loaded, model: Model, temperature: float
) -> None:
    tokens = list(loaded.tokenizer.chat([{"role": "user", "content": PROMPT}]))
    p = next_distribution(model, tokens, temperature)
    n = 640
    seen = Counter(draws(model, tokens, temperature=temperature, top_p=1.0, seeds=range(n)))
    likely = [int(token) for token in p.topk(8).indices]
    for token in likely:
        share, error = float(p[token]), math.sqrt(float(p[token]) / n)
        assert abs(seen[token] / n - share) < 4.5 * error, (SEED, token, seen[token] / n, share)


def test_top_p_draws_only_from_the_nucleus(loaded: Loaded, model: Model) -> None:
    tokens = list(loaded.tokenizer.chat([{"role": "user", "content": PROMPT}]))
    p, order = next_distribution(model, tokens, 1.0).sort(descending=True)
    size = int((p.cumsum(0) < 0.6).sum()) + 1
    nucleus = set(order[:size].tolist())
    seen = set(draws(model, tokens, temperature=1.0, top_p=0.6, seeds=range(640)))
    assert seen <= nucleus
    assert set(order[: min(size, 3)].tolist()) <= seen


def test_temperature_zero_is_the_most_likely_token(loaded: Loaded, model: Model) -> None:
    tokens = list(loaded.tokenizer.chat([{"role": "user", "content": PROMPT}]))
    best = int(next_distribution(model, tokens, 1.0).argmax())
    assert set(draws(model, tokens, temperature=0.0, top_p=1.0, seeds=range(10))) == {best}


def test_a_draw_depends_on_seed_and_position_and_is_uniform() -> None:
    uniform = kernels("-march=native").trimtab_uniform
    values = [uniform(seed, position) for seed in range(40) for position in range(50)]
    assert len(set(values)) == len(values)
    assert all(0.0 <= value < 1.0 for value in values)
    counts = np.histogram(values, bins=20, range=(0.0, 1.0))[0]
    chi2 = float(((counts - 100.0) ** 2 / 100.0).sum())
    assert chi2 < 50.0, "19 degrees of freedom: beyond 50 with probability 1e-4"


def test_gates_and_ups_alternate_in_sixteens() -> None:
    gate = torch.arange(32.0)[:, None]
    both = interleave(gate, gate + 100.0)[:, 0].tolist()
    assert both[:16] == list(range(16))
    assert both[16:32] == [100.0 + i for i in range(16)]
    assert both[32] == 16.0


def test_a_build_is_reused_and_a_changed_flag_makes_another(tmp_path: Path) -> None:
    first = compile_kernels(tmp_path, head_dim=64, group=3)
    made_ns = first.stat().st_mtime_ns
    assert compile_kernels(tmp_path, head_dim=64, group=3) == first
    assert first.stat().st_mtime_ns == made_ns
    assert compile_kernels(tmp_path, head_dim=64, group=1) != first


def test_without_a_compiler_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(Unavailable, match="install gcc or clang"):
        compile_kernels(tmp_path, head_dim=64, group=3)


def test_what_the_compiler_says_reaches_the_reader(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="failed"):
        compile_kernels(tmp_path, head_dim=64, group=3, target=("-march=no-such-cpu",))
    assert list((tmp_path / "kernels").iterdir()) == []


def test_the_sources_named_are_the_sources_there_are() -> None:
    there = {path.name for path in compiling.HERE.iterdir() if path.suffix in {".c", ".h"}}
    assert there == set(compiling.SOURCES)


def test_a_step_that_does_not_fit_is_refused(model: Model) -> None:
    with pytest.raises(Rejected, match="does not fit"):
        model.step(rows_of([5] * 600, start=0, table=list(range(KV_BLOCKS)), choice=(0, 1, 0)))
