"""Public traces and logs to measure against: files below the folder that TRIMTAB_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

from signals.errors import Unavailable

VARIABLE = "TRIMTAB_DATA"


def folder() -> Path:
    """Where they lie. Raises Unavailable, with what to do, when no such folder is named."""
    named = os.environ.get(VARIABLE, "")
    if not named or not Path(named).is_dir():
        raise Unavailable(
            f"{VARIABLE} is {named!r}: set it to the folder with the public traces"
            " (azure_llm_2023, mooncake, servegen, llmservingsim_vllm_runs, burstgpt_vllm_logs)"
        )
    return Path(named)


def text(*parts: str) -> str:
    """A whole file. Raises Unavailable when it is not there."""
    path = folder().joinpath(*parts)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"{VARIABLE}: {'/'.join(parts)}: {error.strerror}") from error


def lines(*parts: str) -> list[str]:
    """The lines of a file. Raises Unavailable when it is not there."""
    return text(*parts).splitlines()
