"""What parts of the loop have noted for themselves, as the store has it."""

from __future__ import annotations

import msgspec

from controller.store.port import Tx


def key_of(target: str) -> str:
    """The name of a target's note in the store."""
    return f"noted:{target}"


def noted(tx: Tx, target: str) -> dict[str, str]:
    """By name, as JSON text; nothing for a target whose loop has noted nothing yet."""
    body = tx.note(key_of(target))
    return {} if body is None else msgspec.json.decode(body, type=dict[str, str])
