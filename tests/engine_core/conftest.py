"""Real weights, loaded once: a small pool, so that tests reach its bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from msgspec import Struct

from engine import models
from engine.embedded import weights
from engine.embedded.kernels.compiling import compile_kernels
from engine.embedded.model import Model
from engine.embedded.tokenizer import ChatTokenizer
from engine.embedded.weights import Shape
from engine.settings import default_cache

CONTEXT = 512
KV_BLOCKS = 512
SLOTS = 64
MAX_ROWS = 512


class Loaded(Struct, frozen=True, kw_only=True):
    """The prepared weights and what was made of them."""

    folder: Path
    shape: Shape
    tensors: dict[str, torch.Tensor]
    tokenizer: ChatTokenizer

    def open_model(
        self, *, threads: int = 1, kv_blocks: int = KV_BLOCKS, target: str = "-march=native"
    ) -> Model:
        library = compile_kernels(
            default_cache(), head_dim=64, group=3, target=tuple(target.split())
        )
        return Model(
            self.shape,
            self.tensors,
            library=library,
            context=CONTEXT,
            kv_blocks=kv_blocks,
            max_rows=MAX_ROWS,
            max_chosen=SLOTS,
            threads=threads,
        )


@pytest.fixture(scope="session")
def loaded() -> Loaded:
    cache = default_cache()
    models.fetch(cache=cache, say=lambda _: None)
    found = models.locate(cache)
    folder = weights.prepare(found.path, digest=found.digest, cache=cache)
    shape, tensors = weights.load(folder)
    tokenizer = ChatTokenizer.load(folder, chat_template=shape.chat_template)
    return Loaded(folder=folder, shape=shape, tensors=tensors, tokenizer=tokenizer)


@pytest.fixture(scope="session")
def model(loaded: Loaded) -> Iterator[Model]:
    model = loaded.open_model()
    yield model
    model.close()


@pytest.fixture(scope="session")
def chat(loaded: Loaded) -> Callable[[str], tuple[int, ...]]:
    return lambda text: loaded.tokenizer.chat([{"role": "user", "content": text}])
