"""What each route answers when all is well: ONE table beside the one of who may call it.

OpenAPI's schemas are generated from these types, and tests hold every answer to them.
"""

from __future__ import annotations

from typing import Any, Final

from controller.api import shown
from controller.api.access import Route
from controller.api.rule_standing import RulesShown
from controller.api.shown import Items, Page
from controller.command_log import CommandSeen
from controller.considering import Evaluation
from controller.control import ControlReport
from controller.detaching import DetachReport
from controller.erasing import Erasing
from controller.exporting import Export
from controller.feedback import Given
from controller.history.changes import SettingsDiff
from controller.history.report import ControlReport as Report
from controller.history.settings_then import SettingsThen
from controller.history.telling import Acted
from controller.history.timeline import Happening
from controller.history.worth import WorthReport
from controller.rollback import RollbackReport
from controller.rule_tests import RuleTest
from controller.store.past_port import Archive, Delivery
from controller.store.port import Decision
from controller.webhooks.operating import HookState
from policies.changes import DeclaredChange
from signals.features.model import RequestRow


class Lines:
    """Not one JSON document: a JSON document a line."""


class Text:
    """Not JSON: lines of text."""


class Nothing:
    """No body at all."""


POLICIES: Final[dict[Route, Any]] = {
    ("GET", "/v1/policies"): Page[shown.PolicyShown],
    ("POST", "/v1/policies"): shown.PolicyShown,
    ("GET", "/v1/policies/{policy_id}"): shown.PolicyHistory,
    ("POST", "/v1/policies/{policy_id}/approve"): shown.PolicyShown,
    ("POST", "/v1/policies/{policy_id}/reject"): shown.PolicyShown,
    ("POST", "/v1/policies/{policy_id}/revert"): shown.PolicyShown,
    ("POST", "/v1/policies/{policy_id}/pause"): shown.PolicyShown,
    ("POST", "/v1/policies/{policy_id}/resume"): shown.PolicyShown,
    ("GET", "/v1/trials"): Page[shown.TrialLine],
    ("GET", "/v1/trials/{trial_id}"): shown.TrialShown,
    ("GET", "/v1/trials/{trial_id}/requests"): Lines,
    ("GET", "/v1/trials/{trial_id}/seconds"): Lines,
    ("GET", "/v1/decisions"): Page[Decision],
    ("GET", "/v1/changes"): Page[DeclaredChange],
    ("POST", "/v1/changes"): DeclaredChange,
    ("GET", "/v1/changes/{change_id}"): DeclaredChange,
    ("POST", "/v1/changes/{change_id}/end"): DeclaredChange,
    ("POST", "/v1/guardrails/evaluate"): Evaluation,
    ("GET", "/v1/targets/{target}/guardrails"): shown.GuardrailsShown,
}

TARGETS: Final[dict[Route, Any]] = {
    ("GET", "/v1/targets"): Items[shown.TargetLine],
    ("GET", "/v1/targets/{target}"): shown.TargetGlance,
    ("GET", "/v1/targets/{target}/settings"): shown.TargetSettingsShown | SettingsThen,
    ("GET", "/v1/targets/{target}/settings/diff"): SettingsDiff,
    ("GET", "/v1/targets/{target}/timeline"): Page[Happening],
    ("GET", "/v1/targets/{target}/worth"): WorthReport,
    ("GET", "/v1/history"): Page[Acted],
    ("GET", "/v1/reports/control"): Report,
    ("GET", "/v1/targets/{target}/features"): shown.RuleFeatures,
    ("POST", "/v1/targets/{target}/hold"): ControlReport,
    ("POST", "/v1/targets/{target}/release"): ControlReport,
    ("POST", "/v1/targets/{target}/kill"): ControlReport,
    ("POST", "/v1/kill"): Items[ControlReport],
    ("POST", "/v1/hold"): Items[ControlReport],
    ("POST", "/v1/release"): Items[ControlReport],
    ("POST", "/v1/targets/{target}/rollback"): RollbackReport,
    ("POST", "/v1/targets/{target}/detach"): DetachReport,
    ("POST", "/v1/targets/{target}/attach"): ControlReport,
    ("GET", "/v1/targets/{target}/settings/export"): Export,
    ("GET", "/v1/targets/{target}/baseline"): shown.BaselineHistory,
    ("PUT", "/v1/targets/{target}/baseline"): shown.BaselineShown,
    ("GET", "/v1/overrides"): Page[shown.OverrideShown],
    ("POST", "/v1/overrides"): shown.OverrideShown,
    ("GET", "/v1/overrides/{override_id}"): shown.OverrideShown,
    ("DELETE", "/v1/overrides/{override_id}"): shown.OverrideShown,
    ("PATCH", "/v1/targets/{target}/knobs/{knob}"): shown.ModeShown,
    ("GET", "/v1/intents"): Items[shown.IntentShown],
    ("GET", "/v1/rules"): RulesShown,
    ("POST", "/v1/rules/test"): RuleTest,
}

SIGNALS: Final[dict[Route, Any]] = {
    ("GET", "/v1/requests"): Items[RequestRow],
    ("GET", "/v1/requests/{request_id}"): shown.RequestShown,
    ("GET", "/v1/features"): shown.WindowRows,
    ("GET", "/v1/orphans"): shown.OrphanPage,
    ("GET", "/v1/bus"): shown.BusShown,
    ("GET", "/v1/commands"): Page[CommandSeen],
    ("GET", "/v1/commands/{command_id}"): CommandSeen,
    ("GET", "/v1/dead-letters"): shown.LetterPage,
    ("GET", "/v1/dead-letters/{letter_id}"): shown.LetterShown,
    ("POST", "/v1/dead-letters/replay"): Given,
    ("POST", "/v1/dead-letters/discard"): Given,
    ("GET", "/v1/producers"): Items[shown.ProducerShown],
    ("POST", "/v1/producers/{producer}/quarantine"): Given,
    ("POST", "/v1/producers/{producer}/release"): Given,
    ("GET", "/v1/metric-definitions"): Items[shown.MetricShown],
    ("GET", "/v1/metric-definitions/{name}"): Items[shown.MetricShown],
    ("PUT", "/v1/metric-definitions/{name}"): shown.MetricShown,
    ("DELETE", "/v1/metric-definitions/{name}"): shown.MetricShown,
}

AROUND: Final[dict[Route, Any]] = {
    ("GET", "/healthz"): shown.StatusShown,
    ("GET", "/readyz"): shown.StatusShown,
    ("GET", "/metrics"): Text,
    ("GET", "/v1/audit"): Lines,
    ("GET", "/v1/audit/head"): shown.AuditHead,
    ("GET", "/v1/audit/proof"): shown.InclusionProof,
    ("GET", "/v1/audit/consistency"): shown.ConsistencyProof,
    ("GET", "/v1/audit/verify"): shown.Verified,
    ("POST", "/v1/audit/seal"): Archive,
    ("POST", "/v1/audit/rotate-key"): shown.KeyRotated,
    ("POST", "/v1/audit/restored"): shown.Restored,
    ("POST", "/v1/erasures"): Erasing,
    ("GET", "/v1/keys"): Items[shown.KeyListed],
    ("POST", "/v1/keys"): shown.KeyMade,
    ("POST", "/v1/keys/{key_id}/rotate"): shown.KeyMade,
    ("DELETE", "/v1/keys/{key_id}"): Nothing,
    ("GET", "/v1/webhooks"): Items[HookState],
    ("GET", "/v1/webhooks/{name}/deliveries"): Page[Delivery],
    ("POST", "/v1/webhooks/{name}/test"): shown.HookTested,
    ("POST", "/v1/webhooks/{name}/deliveries/{delivery_id}/redeliver"): Delivery,
}

ANSWERS: Final[dict[Route, Any]] = {**POLICIES, **TARGETS, **SIGNALS, **AROUND}
