"""Liveness, readiness, and figures for Prometheus."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from fastapi import APIRouter, Depends, Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from controller.api.access import Wired, authorize
from controller.api.answers import Answer
from controller.api.audit_figures import audit_figures
from controller.api.ports import Services
from controller.api.problems import documented
from controller.drift.noting import drift_note, noted_drift
from controller.store.port import Tx
from controller.webhooks.operating import states
from policies.lifecycle import FINAL, STATES
from signals.errors import Unavailable
from signals.events import MICROS

router = APIRouter(tags=["health"])
log = logging.getLogger(__name__)

LIVE_STATES = tuple(state for state in STATES if state not in FINAL)


@router.get("/healthz")
def healthz() -> Response:
    """The process answers."""
    return Answer({"status": "ok"})


@router.get("/readyz", responses=documented(503))
def readyz(services: Wired) -> Response:
    """Store and loop do their work. Engines may be away: the loop waits for them."""
    with services.store.read() as tx:
        tx.note("ready")
    why_not = services.loop.ready()
    if why_not is not None:
        raise Unavailable(why_not)
    return Answer({"status": "ready"})


@router.get("/metrics", dependencies=[Depends(authorize)], responses=documented(401, 403, 503))
def metrics(services: Wired) -> Response:
    """The Prometheus text format."""
    registry = CollectorRegistry()
    registry.register(ControllerFigures(services))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class ControllerFigures(Collector):
    """Gauges read from store and features at each scrape."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterable[Metric]:
        """One gauge a figure, labelled by target."""
        policies = GaugeMetricFamily(
            "trimtab_policies", "policies that are not final", labels=["target", "state"]
        )
        control = GaugeMetricFamily(
            "trimtab_control", "1 while held or killed", labels=["target", "what"]
        )
        units = GaugeMetricFamily(
            "trimtab_trial_units", "units judged in the running trial", labels=["target"]
        )
        age = GaugeMetricFamily(
            "trimtab_watermark_age_seconds", "how far features lag behind now", labels=["target"]
        )
        drift = GaugeMetricFamily(
            "trimtab_drift_alarm", "1 while a drift alarm keeps trials waiting", labels=["target"]
        )
        with self._services.store.read() as tx:
            for target in self._services.settings.targets:
                _add_target(tx, target, policies, control, units)
                alarm = noted_drift(tx.note(drift_note(target))).alarm
                drift.add_metric([target], float(alarm is not None))
        for target in self._services.settings.targets:
            watermark_us = self._services.features.watermark_us(target)
            if watermark_us:
                age.add_metric([target], (self._services.clock() - watermark_us) / MICROS)
        audit = audit_figures(self._services.audit.publisher.status(), self._services.clock())
        return (policies, control, units, age, drift, *self._webhooks(), *self._feedback(), *audit)

    def _webhooks(self) -> Iterable[Metric]:
        """How far each webhook is behind, and what became of its deliveries."""
        lag = GaugeMetricFamily(
            "trimtab_webhook_lag_entries", "audit entries not looked at yet", labels=["hook"]
        )
        deliveries = GaugeMetricFamily(
            "trimtab_webhook_deliveries", "deliveries kept, by state", labels=["hook", "state"]
        )
        with self._services.store.read() as tx:
            for one in states(tx, self._services.settings.webhooks):
                lag.add_metric([one.name], one.lag)
                for state in ("waiting", "delivered", "given_up"):
                    deliveries.add_metric([one.name, state], getattr(one, state))
        return (lag, deliveries)

    def _feedback(self) -> Iterable[Metric]:
        """What waits for somebody; nothing while the feature stage has no file yet."""
        letters = GaugeMetricFamily(
            "trimtab_dead_letters", "events kept that can't be counted", labels=["reason"]
        )
        orphans = GaugeMetricFamily(
            "trimtab_orphans", "feedback that waits for its request", labels=["producer"]
        )
        aside = GaugeMetricFamily("trimtab_quarantined", "producers that are set aside")
        inspection = self._services.inspection
        try:
            for reason, count in inspection.letter_counts().items():
                letters.add_metric([reason], count)
            for producer, count in inspection.orphans_by_producer().items():
                orphans.add_metric([producer], count)
            aside.add_metric([], len(inspection.quarantined()))
        except Unavailable as error:
            log.info("no figures of feedback: %s", error.detail)
        return (letters, orphans, aside)


def _add_target(
    tx: Tx,
    target: str,
    policies: GaugeMetricFamily,
    control: GaugeMetricFamily,
    units: GaugeMetricFamily,
) -> None:
    live = tx.policies(target=target, states=LIVE_STATES, limit=1000)
    for state in LIVE_STATES:
        policies.add_metric([target, state], sum(one.state == state for one in live))
    said = tx.control(target)
    control.add_metric([target, "hold"], float(said.hold))
    control.add_metric([target, "killed"], float(said.killed))
    for trial in tx.trials(target=target, running=True, limit=1):
        units.add_metric([target], sum(unit.judged for unit in trial.units))
