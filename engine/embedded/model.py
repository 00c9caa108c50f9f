"""The running model: packed weights, the paged KV pool, and one call that does a whole step.

Torch holds the tensors; the arithmetic is in ``kernels/``. A step takes rows (one token of one
sequence at one position each) and returns, for the rows asked for, a drawn token or the logits.
A row's result depends on its own sequence alone: not on the other rows, their number, the chunk a
prompt arrived in, or the number of threads.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray

from engine.embedded.kernels.calling import CHOICE, BatchArgs, LayerArgs, ModelArgs, load_kernels
from engine.embedded.weights import Shape
from engine.settings import BLOCK_TOKENS
from signals.errors import Rejected
from signals.events import KvLayout

Ints = NDArray[np.int32]


class Rows(Struct, frozen=True, kw_only=True):
    """One step's input. Every array is C-contiguous int32.

    tokens, positions, sequence: [rows]; ``sequence`` indexes ``tables`` [sequences, blocks], whose
    entries are KV block numbers. chosen: [n] rows whose next token is wanted, with one ``CHOICE``
    each.
    """

    tokens: Ints
    positions: Ints
    sequence: Ints
    tables: Ints
    chosen: Ints
    choices: NDArray[np.void]


class Model:
    """Weights and KV pool in the kernels' layouts. Not thread-safe: one engine thread calls it.

    Keeps nothing of ``tensors``: they are views of a mapped file, which would stay in memory whole.
    """

    def __init__(
        self,
        shape: Shape,
        tensors: dict[str, torch.Tensor],
        *,
        library: Path,
        context: int,
        kv_blocks: int,
        max_rows: int,
        max_chosen: int,
        threads: int,
    ) -> None:
        check_shape(shape)
        self.shape = shape
        self.context, self.kv_blocks, self.max_rows = context, kv_blocks, max_rows
        self._kernels = load_kernels(library)
        self._kept: list[torch.Tensor] = []
        self._logits = torch.empty(max_chosen, shape.vocab)
        args = self._arguments(tensors, max_rows=max_rows, threads=threads)
        self._engine = self._kernels.trimtab_open(ctypes.byref(args))

    @property
    def numeric_class(self) -> str:
        """Within one class, same input and seed give the same tokens. See docs/adr/0004."""
        return str(self._kernels.trimtab_numeric_class().decode())

    @property
    def kv_layout(self) -> KvLayout:
        """What the pool holds: enough to say how many bytes a context takes."""
        return KvLayout(
            layers=self.shape.layers,
            kv_heads=self.shape.kv_heads,
            head_dim=self.shape.head_dim,
            value_bits=8 * torch.bfloat16.itemsize,
            block_tokens=BLOCK_TOKENS,
            blocks=self.kv_blocks,
        )

    def step(self, rows: Rows) -> Ints:
        """Run the rows, write their KV, and draw one token per chosen row: [chosen]."""
        drawn = np.empty(len(rows.chosen), dtype=np.int32)
        self._run(rows, drawn.ctypes.data)
        return drawn

    def logits(self, rows: Rows) -> torch.Tensor:
        """Run the rows and return the chosen rows' logits, fp32 [chosen, vocab]; draws nothing."""
        self._run(rows, None)
        return self._logits[: len(rows.chosen)].clone()

    def close(self) -> None:
        """Stop the kernels' threads and free their scratch; the model is unusable afterwards."""
        if self._engine is not None:
            self._kernels.trimtab_close(self._engine)
            self._engine = None

    def _run(self, rows: Rows, drawn: int | None) -> None:
        if self._engine is None:
            raise Rejected("the model is closed")
        count = len(rows.tokens)
        if not 0 < count <= self.max_rows or len(rows.chosen) > len(self._logits):
            raise Rejected(
                f"a step of {count} rows, {len(rows.chosen)} chosen, does not fit",
                field="rows",
                value=count,
                allowed=f"1..{self.max_rows}",
            )
        args = BatchArgs(
            count,
            len(rows.chosen),
            rows.tables.shape[1],
            rows.tokens.ctypes.data,
            rows.positions.ctypes.data,
            rows.sequence.ctypes.data,
            rows.tables.ctypes.data,
            rows.chosen.ctypes.data,
            rows.choices.ctypes.data,
            self._logits.data_ptr(),
            drawn,
        )
        self._kernels.trimtab_step(self._engine, ctypes.byref(args))

    def _arguments(
        self, tensors: dict[str, torch.Tensor], *, max_rows: int, threads: int
    ) -> ModelArgs:
        shape = self.shape
        cosine, sine = rotary_tables(shape, self.context)
        pool = (shape.layers, self.kv_blocks, shape.kv_heads, shape.head_dim * BLOCK_TOKENS)
        self._layers = (LayerArgs * shape.layers)(
            *(self._layer(tensors, index) for index in range(shape.layers))
        )
        return ModelArgs(
            shape.layers,
            shape.hidden,
            shape.kv_heads,
            shape.intermediate,
            shape.vocab,
            self.kv_blocks,
            self.context,
            max_rows,
            threads,
            shape.eps,
            self._layers,
            self._keep(tensors["model.norm.weight"].clone()),
            self._keep(cosine),
            self._keep(sine),
            self._pack(tensors["model.embed_tokens.weight"]),
            self._keep(zeros_in_large_pages(pool)),
            self._keep(zeros_in_large_pages(pool)),
        )

    def _layer(self, tensors: dict[str, torch.Tensor], index: int) -> LayerArgs:
        def named(part: str) -> torch.Tensor:
            return tensors[f"model.layers.{index}.{part}.weight"]

        qkv = torch.cat([named(f"self_attn.{part}_proj") for part in "qkv"])
        return LayerArgs(
            self._keep(named("input_layernorm").clone()),
            self._keep(named("post_attention_layernorm").clone()),
            self._pack(qkv),
            self._pack(named("self_attn.o_proj")),
            self._pack(interleave(named("mlp.gate_proj"), named("mlp.up_proj"))),
            self._pack(named("mlp.down_proj")),
        )

    def _pack(self, matrix: torch.Tensor) -> int:
        """Address of ``matrix`` [n, k] in the product kernel's panels."""
        matrix = matrix.contiguous()
        packed = zeros_in_large_pages(tuple(matrix.shape))
        out, width = matrix.shape
        self._kernels.trimtab_pack(matrix.data_ptr(), out, width, packed.data_ptr())
        return self._keep(packed)

    def _keep(self, tensor: torch.Tensor) -> int:
        """Address of ``tensor``, kept alive as long as the model."""
        self._kept.append(tensor.contiguous())
        return self._kept[-1].data_ptr()


def zeros_in_large_pages(size: tuple[int, ...]) -> torch.Tensor:
    """Zeroed bf16, in 2 MiB pages where the system grants them: attention walks blocks that lie
    anywhere in the pool, and with small pages half of its time is address translation."""
    count = math.prod(size)
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, count * torch.bfloat16.itemsize, flags=private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.bfloat16, count=count).view(size)


def check_shape(shape: Shape) -> None:
    """Raise ``Rejected`` for sizes the kernels' fixed panels and lanes do not divide."""
    for name, value, unit in (
        ("hidden", shape.hidden, 32),
        ("intermediate", shape.intermediate, 32),
        ("head_dim", shape.head_dim, 32),
        ("vocab", shape.vocab, 256),
    ):
        if value % unit:
            raise Rejected(
                f"{name} = {value} is not a multiple of {unit}",
                field=name,
                value=value,
                allowed=f"multiples of {unit}",
            )


def rotary_tables(shape: Shape, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of RoPE (Su et al., 2021), fp32 [context, head_dim / 2]."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angles = torch.outer(torch.arange(context, dtype=torch.float64), shape.rope_base**-exponents)
    return angles.cos().float(), angles.sin().float()


def interleave(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Rows of both in turns of 16, so that one panel holds a gate beside its up: [2n, k]."""
    out, width = gate.shape
    pair = torch.stack((gate.view(out // 16, 16, width), up.view(out // 16, 16, width)), dim=1)
    return pair.reshape(2 * out, width)


def rows_of(
    tokens: Sequence[int], *, start: int, table: Sequence[int], choice: tuple[float, float, int]
) -> Rows:
    """One sequence's chunk ``tokens`` from position ``start``, its last row chosen.

    ``choice``: temperature, top_p, seed.
    """
    count = len(tokens)
    return Rows(
        tokens=np.asarray(tokens, dtype=np.int32),
        positions=np.arange(start, start + count, dtype=np.int32),
        sequence=np.zeros(count, dtype=np.int32),
        tables=np.asarray([table], dtype=np.int32),
        chosen=np.asarray([count - 1], dtype=np.int32),
        choices=np.array([(*choice, start + count)], dtype=CHOICE),
    )
