"""Settings of the controller's store."""

from __future__ import annotations

from signals.configuring import Section, setting


class StoreSettings(Section):
    """How ``store.db`` is opened. One process writes it; others only read."""

    busy_timeout_ms: int = setting(
        5000,
        unit="ms",
        reason="a backup or migration may hold the file; a loop must not wait longer",
        ge=0,
        le=60_000,
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
        reason="pages per connection; the working set of a day's policies fits",
        ge=64,
        le=1_048_576,
    )
