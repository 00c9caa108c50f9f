"""The C interface, mirrored for ctypes. Field order is the contract with forward.c."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int32, c_int64, c_uint64
from ctypes import c_void_p as pointer
from pathlib import Path

import numpy as np

CHOICE = np.dtype([("temperature", "<f4"), ("top_p", "<f4"), ("seed", "<u8"), ("position", "<i8")])
"""How one row's token is chosen; mirrors ``Choice`` in sample.h."""


class LayerArgs(Structure):
    """Mirrors ``Layer``: addresses of one layer's packed weights."""

    _fields_ = [
        (name, pointer) for name in ("attention_norm", "mlp_norm", "qkv", "out", "gate_up", "down")
    ]


class ModelArgs(Structure):
    """Mirrors ``Model``: shape, and addresses of what Python keeps alive."""

    _fields_ = [
        *(
            (name, c_int32)
            for name in (
                "layers",
                "hidden",
                "kv_heads",
                "intermediate",
                "vocab",
                "blocks",
                "context",
                "max_rows",
                "threads",
            )
        ),
        ("eps", c_float),
        ("layer", POINTER(LayerArgs)),
        *((name, pointer) for name in ("final_norm", "cosine", "sine", "head", "keys", "values")),
    ]


class BatchArgs(Structure):
    """Mirrors ``Batch``: one step's rows and where its results go."""

    _fields_ = [
        *((name, c_int32) for name in ("rows", "chosen", "table_width")),
        *(
            (name, pointer)
            for name in (
                "tokens",
                "positions",
                "sequence",
                "tables",
                "chosen_rows",
                "choices",
                "logits",
                "drawn",
            )
        ),
    ]


def load_kernels(path: Path) -> ctypes.CDLL:
    """The compiled library with its functions typed."""
    library = ctypes.CDLL(str(path))
    typed = {
        "trimtab_numeric_class": (c_char_p, []),
        "trimtab_pack": (None, [pointer, c_int32, c_int32, pointer]),
        "trimtab_product": (None, [pointer, c_int32, c_int32, pointer, c_int32, pointer]),
        "trimtab_uniform": (c_double, [c_uint64, c_int64]),
        "trimtab_open": (pointer, [POINTER(ModelArgs)]),
        "trimtab_step": (None, [pointer, POINTER(BatchArgs)]),
        "trimtab_close": (None, [pointer]),
    }
    for name, (answer, arguments) in typed.items():
        function = getattr(library, name)
        function.restype, function.argtypes = answer, arguments
    return library
