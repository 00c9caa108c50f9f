"""All settings, composed from each room's own section model.

``controller.config.load`` reads them from ``trimtab.yaml`` and the environment; the page
``docs/settings.md`` is generated from these models, and a test keeps it up to date.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator, model_validator

from controller.audit.settings import AuditSettings
from controller.config.acts import ControlSettings
from controller.config.emergencies import EmergencySettings
from controller.config.guardrails import GuardrailSettings
from controller.config.sections import ServeSettings, SupervisorSettings, TrialSettings
from controller.config.targets import EngineChoice, Knobs, KnobSettings, TargetSettings
from controller.drift.settings import DriftSettings
from controller.identity.settings import IdempotencySettings, LockoutSettings, OidcSettings
from controller.learner.settings import LearnerSettings
from controller.metric_checks import check
from controller.plant.settings import PlantSettings
from controller.privacy import PrivacySettings
from controller.rules.settings import RuleTestSettings
from controller.store.settings import StoreSettings
from controller.webhooks.settings import WebhookSettings
from engine.settings import EngineSettings
from policies.settings import OnKill
from signals.bus.settings import BusSettings
from signals.configuring import Section, setting
from signals.errors import Rejected
from signals.settings import FeatureSettings, IngestSettings, MetricSettings, Name

__all__ = [
    "DEFAULT_METRICS",
    "ControlSettings",
    "DriftSettings",
    "EmergencySettings",
    "EngineChoice",
    "GuardrailSettings",
    "KnobSettings",
    "Knobs",
    "LearnerSettings",
    "OnKill",
    "PlantSettings",
    "ServeSettings",
    "Settings",
    "SupervisorSettings",
    "TargetSettings",
    "TrialSettings",
]

DEFAULT_METRICS: dict[str, MetricSettings] = {
    "answer_copied": MetricSettings(type="boolean", direction="up", attribution_s=600),
    "edited_resend": MetricSettings(type="boolean", direction="down", attribution_s=600),
    "human_takeover": MetricSettings(type="boolean", direction="down", attribution_s=3600),
    "thumbs": MetricSettings(
        type="float", low=-1.0, high=1.0, direction="up", attribution_s=86_400, absent="missing"
    ),
    "dwell_s": MetricSettings(
        type="duration",
        unit="s",
        high=86_400.0,
        direction="up",
        attribution_s=600,
        absent="missing",
    ),
}
"""Declared everywhere; a file adds to them, or declares one anew under the same name.

An answer is copied, or edited and asked again, while it is on the screen: 10 minutes after its
request arrived it has not been. A person takes over within the conversation, an hour. Thumbs come
until the next day, and who gives none has said nothing: absent is missing, not zero. So for dwell.
"""


class Settings(Section):
    """Everything that can be set, by section."""

    state_dir: Path = setting(
        Path(".trimtab"), unit="", reason="databases, keys and logs; outside version control"
    )
    targets: dict[Name, TargetSettings] = setting(
        dict, unit="", reason="named engines, and what is wanted of each", max_length=64
    )
    metrics: dict[Name, MetricSettings] = Field(
        default_factory=dict,
        description="declared metrics, beside the built-in ones",
        max_length=256,
        validate_default=True,
    )
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    bus: BusSettings = Field(default_factory=BusSettings)
    features: FeatureSettings = Field(default_factory=FeatureSettings)
    engine: EngineSettings = Field(default_factory=EngineSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)
    oidc: OidcSettings = Field(default_factory=OidcSettings)
    lockout: LockoutSettings = Field(default_factory=LockoutSettings)
    idempotency: IdempotencySettings = Field(default_factory=IdempotencySettings)
    plant: PlantSettings = Field(default_factory=PlantSettings)
    learner: LearnerSettings = Field(default_factory=LearnerSettings)
    control: ControlSettings = Field(default_factory=ControlSettings)
    trial: TrialSettings = Field(default_factory=TrialSettings)
    guardrails: GuardrailSettings = Field(default_factory=GuardrailSettings)
    drift: DriftSettings = Field(default_factory=DriftSettings)
    emergencies: EmergencySettings = Field(default_factory=EmergencySettings)
    rule_tests: RuleTestSettings = Field(default_factory=RuleTestSettings)
    supervisor: SupervisorSettings = Field(default_factory=SupervisorSettings)
    webhooks: WebhookSettings = Field(default_factory=WebhookSettings)
    privacy: PrivacySettings = Field(default_factory=PrivacySettings)

    @field_validator("metrics")
    @classmethod
    def _with_built_in(cls, metrics: dict[str, MetricSettings]) -> dict[str, MetricSettings]:
        for name, metric in metrics.items():
            try:
                check(name, metric)
            except Rejected as error:
                raise ValueError(f"{name}: {error.detail}") from error
        return DEFAULT_METRICS | metrics

    @model_validator(mode="after")
    def _one_embedded_engine(self) -> Settings:
        here = [name for name, target in self.targets.items() if not target.engine.control_urls]
        if len(here) > 1:
            raise ValueError(
                f"targets {', '.join(sorted(here))} all use this machine's engine;"
                " one may, the others need engine.control_urls"
            )
        return self

    @model_validator(mode="after")
    def _listeners_apart(self) -> Settings:
        """Processes find each other by these ports, so each has one of its own."""
        ports = {"serve.port": self.serve.port, "ingest.port": self.ingest.port}
        if self.here() is not None:
            ports |= {
                "engine.port": self.engine.port,
                "engine.control_port": self.engine.control_port,
            }
        taken: dict[int, str] = {}
        for name, port in ports.items():
            if port == 0:
                raise ValueError(f"{name} = 0 (any) only works for an engine started by itself")
            if port in taken:
                raise ValueError(f"{name} and {taken[port]} are both {port}")
            taken[port] = name
        return self

    def here(self) -> str | None:
        """The target that this machine's own engine serves; None when every one is elsewhere."""
        return next((n for n, t in self.targets.items() if not t.engine.control_urls), None)
