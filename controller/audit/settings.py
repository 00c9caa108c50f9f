"""Settings of the audit: where its signed heads go, how often, and where archives lie."""

from __future__ import annotations

from pathlib import Path

from signals.configuring import Section, setting


class AuditSettings(Section):
    """Heads outside the database are what an insider with the database can't forge."""

    sink: str | None = setting(
        None,
        unit="",
        reason="a file or an http(s) URL on another machine; unset = beside the store, which warns",
        min_length=1,
        max_length=2000,
    )
    sink_key_file: Path | None = setting(
        None, unit="", reason="a bearer key that an HTTP sink asks for; unset = none"
    )
    interval_s: float = setting(
        30.0, unit="s", reason="a head is published at least this often", ge=0.1, le=60
    )
    soon_s: float = setting(
        2.0, unit="s", reason="and so soon after an entry was appended", ge=0.05, le=60
    )
    sink_timeout_s: float = setting(
        5.0, unit="s", reason="an HTTP sink answers within it, or it is tried again", gt=0, le=60
    )
    sink_attempts: int = setting(
        3, unit="attempts", reason="a head; then the next, newer one is tried", ge=1, le=10
    )
    scrub_blocks: int = setting(
        64,
        unit="blocks",
        reason="of 256 leaf hashes, read back from the store before each head: 2 ms each",
        ge=0,
        le=100_000,
    )
    scrub_rest_ms: float = setting(
        4.0,
        unit="ms",
        reason="between two blocks: questions are answered meanwhile, not after all of them",
        ge=0,
        le=100,
    )
    archive_dir: Path | None = setting(
        None, unit="", reason="where sealed entries go; unset = archives/ in the state directory"
    )
