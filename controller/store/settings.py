"""Settings of the controller's store."""

from __future__ import annotations

from pathlib import Path

from controller.store.address import SCHEMA, SCHEMA_PATTERN, StoreAddress, address_of
from signals.configuring import Section, setting


class StoreSettings(Section):
    """Where the store is and how it is opened. One process writes it; others only read."""

    url: str | None = setting(
        None,
        unit="",
        reason="unset: store.db in the state directory; postgresql://USER@HOST/DATABASE instead",
        max_length=2048,
    )
    schema_name: str = setting(
        SCHEMA,
        unit="",
        reason="PostgreSQL: the store's tables are apart from everybody else's",
        pattern=SCHEMA_PATTERN,
    )
    password_file: Path | None = setting(
        None,
        unit="",
        reason="PostgreSQL: read at each connection, never logged; unset: PGPASSWORD, PGPASSFILE",
    )
    busy_timeout_ms: int = setting(
        5000,
        unit="ms",
        reason="a backup or migration may hold a lock; a loop must not wait longer",
        ge=0,
        le=60_000,
    )
    connect_timeout_s: int = setting(
        5, unit="s", reason="PostgreSQL: a host that drops packets is given up", ge=2, le=60
    )
    statement_timeout_ms: int = setting(
        10_000,
        unit="ms",
        reason="PostgreSQL: longest statement, and longest silence inside a transaction",
        ge=100,
        le=600_000,
    )
    readers: int = setting(
        8, unit="connections", reason="API threads that read at once; more wait", ge=1, le=64
    )
    reader_wait_ms: int = setting(
        2000, unit="ms", reason="a free reading connection comes in time or 503", ge=1, le=60_000
    )
    cache_kib: int = setting(
        8192,
        unit="KiB",
        reason="SQLite: pages per connection; the working set of a day's policies fits",
        ge=64,
        le=1_048_576,
    )

    def address(self, file: Path) -> StoreAddress:
        """Where the store is; ``file``: without a URL. Raises ``Rejected``."""
        if self.url is None:
            return address_of(file)
        return address_of(self.url, schema=self.schema_name, password_file=self.password_file)
