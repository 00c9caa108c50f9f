"""From a GGUF file to plain bf16 tensors, once; then from the prepared folder.

Two traps. GGUF's converter permutes the rows of q and k so that rotary pairs are neighbours
(2i, 2i+1); our kernels, like the published checkpoint, use the half-split form (i, i + d/2), so the
permutation is undone. And the output projection is absent: it is the embedding (tied).

A prepared folder holds ``weights.safetensors`` (names and shapes of the published checkpoint),
``tokenizer.json`` and ``model.json``. It is keyed by the GGUF's checksum and written atomically.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import torch
from msgspec import Struct
from msgspec import json as wire
from safetensors.torch import load_file, save_file

from engine.embedded.tokenizer import build_tokenizer
from signals.errors import Rejected

FORMAT = 1
"""Raise when what a prepared folder holds changes."""

_BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Shape(Struct, frozen=True, kw_only=True):
    """Sizes and constants of a Llama-shaped decoder, and its special tokens."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    rope_base: float
    eps: float
    eos: tuple[int, ...]
    chat_template: str


def prepare(model: Path, *, digest: str, cache: Path) -> Path:
    """The prepared folder of ``model`` (a GGUF with SHA-256 ``digest``), made if absent."""
    folder = cache / f"prepared-{digest[:16]}-v{FORMAT}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache) as work:
            made = Path(work) / "made"
            made.mkdir()
            _write(gguf.GGUFReader(str(model)), made)
            _publish(made, folder)
    return folder


def load(folder: Path) -> tuple[Shape, dict[str, torch.Tensor]]:
    """Shape and tensors by published name; matrices bf16, norms fp32."""
    shape = wire.decode((folder / "model.json").read_bytes(), type=Shape)
    return shape, load_file(folder / "weights.safetensors")


def _write(reader: gguf.GGUFReader, folder: Path) -> None:
    metadata = {name: field.contents() for name, field in reader.fields.items()}
    shape = read_shape(metadata)
    save_file(dict(_tensors(reader, shape)), folder / "weights.safetensors")
    build_tokenizer(metadata).save(str(folder / "tokenizer.json"))
    (folder / "model.json").write_text(json.dumps(json.loads(wire.encode(shape)), indent=1))


def _publish(made: Path, folder: Path) -> None:
    """Rename into place; the loser of a race between two starts keeps the winner's folder."""
    try:
        os.rename(made, folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(made)


def read_shape(metadata: dict[str, Any]) -> Shape:
    """Sizes from GGUF metadata. Raises ``Rejected`` for anything but the Llama architecture."""
    architecture = metadata["general.architecture"]
    if architecture != "llama":
        raise Rejected(
            f"the embedded engine runs Llama-shaped models, not {architecture!r}",
            field="general.architecture",
            value=architecture,
            allowed="llama",
        )
    hidden = int(metadata["llama.embedding_length"])
    heads = int(metadata["llama.attention.head_count"])
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    ends = {int(metadata["tokenizer.ggml.eos_token_id"]), tokens.index("<|endoftext|>")}
    return Shape(
        name="smollm2-135m-instruct",
        layers=int(metadata["llama.block_count"]),
        hidden=hidden,
        heads=heads,
        kv_heads=int(metadata["llama.attention.head_count_kv"]),
        head_dim=hidden // heads,
        intermediate=int(metadata["llama.feed_forward_length"]),
        vocab=int(metadata["llama.vocab_size"]),
        context=int(metadata["llama.context_length"]),
        rope_base=float(metadata["llama.rope.freq_base"]),
        eps=float(metadata["llama.attention.layer_norm_rms_epsilon"]),
        eos=tuple(sorted(ends)),
        chat_template=str(metadata["tokenizer.chat_template"]),
    )


def _tensors(reader: gguf.GGUFReader, shape: Shape) -> Iterator[tuple[str, torch.Tensor]]:
    for tensor in reader.tensors:
        values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
        if ".attn_q." in tensor.name:
            values = _half_split(values, shape.heads)
        elif ".attn_k." in tensor.name:
            values = _half_split(values, shape.kv_heads)
        matrix = values.dim() > 1
        yield published_name(tensor.name), values.to(torch.bfloat16 if matrix else torch.float32)


def published_name(name: str) -> str:
    """The published checkpoint's name of a GGUF tensor.

    >>> published_name("blk.3.ffn_up.weight")
    'model.layers.3.mlp.up_proj.weight'
    """
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, index, part, _ = name.split(".")
    return f"model.layers.{index}.{_BLOCK_NAMES[part]}.weight"


def _half_split(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo the converter's permutation: [heads, d/2, 2, in] back to [heads, 2, d/2, in]."""
    out, width = rows.shape
    return rows.view(heads, out // heads // 2, 2, width).transpose(1, 2).reshape(out, width)
