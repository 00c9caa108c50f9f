"""Figures of the audit for Prometheus: an alarm that nobody sees is none."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.audit.publishing import HeadStatus
from signals.events import MICROS


def audit_figures(status: HeadStatus, now_us: int) -> Iterable[Metric]:
    """Whether the log still extends what was published, and how much is not outside yet."""
    yield _gauge(
        "trimtab_audit_alarm",
        "1 while no head is signed, for the log is not the one that was published",
        status.alarm is not None,
    )
    yield _gauge(
        "trimtab_audit_sink_beside",
        "1 while heads go to a place beside the store",
        status.warning is not None,
    )
    yield _gauge("trimtab_audit_entries", "entries of the log", status.size)
    yield _gauge("trimtab_audit_unpublished", "entries that no head covers", status.unpublished)
    if status.published is not None:
        yield _gauge(
            "trimtab_audit_head_age_seconds",
            "since the last head was published",
            (now_us - status.published.at_us) / MICROS,
        )


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=float(value))
