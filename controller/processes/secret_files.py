"""Secrets on disk: one a file, created for their owner only, never overwritten, never logged."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from signals.errors import Conflict

SECRET_BYTES = 32


def write_secret(path: Path, secret: str) -> None:
    """Create ``path`` with mode 0600. Raises ``Conflict`` when it exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise Conflict(f"{path} exists; a secret is never overwritten", field="path") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_secret(path: Path) -> str:
    """The secret in a file. Raises ``FileNotFoundError``."""
    return path.read_text("utf-8").strip()


def new_secret() -> str:
    """256 random bits, for a key that only machines exchange."""
    return secrets.token_urlsafe(SECRET_BYTES)
