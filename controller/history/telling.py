"""An audit entry in a few words, and which kind of thing it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

import msgspec

from controller.store.past_port import AuditLine

Kind = Literal[
    "policy",
    "trial",
    "override",
    "control",
    "change",
    "baseline",
    "mode",
    "configuration",
    "engine",
    "settings",
    "unknown",
    "other",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
FAMILIES: Final[dict[Kind, str]] = {
    kind: f"{kind}." for kind in KINDS if kind not in ("unknown", "other")
}


def kind_of(action: str) -> Kind:
    """By the action's family.

    >>> kind_of("policy.kept"), kind_of("settings.unknown"), kind_of("key.created")
    ('policy', 'unknown', 'other')
    """
    if action == "settings.unknown":
        return "unknown"
    return next((kind for kind, family in FAMILIES.items() if action.startswith(family)), "other")


class Acted(AuditLine, frozen=True, kw_only=True):
    """An audit entry with its kind and its words."""

    kind: Kind
    words: str


def acted(line: AuditLine) -> Acted:
    """A line with its words."""
    return Acted(**msgspec.structs.asdict(line), kind=kind_of(line.action), words=told(line))


def told(line: AuditLine) -> str:
    """One line in words, without who and when. Archived entries say what their columns say."""
    what = line.action.partition(".")[2].replace("_", " ")
    details = line.details or {}
    tell = TELL.get(kind_of(line.action), _plainly)
    extra = tell(details)
    return " ".join(part for part in (line.subject, what, extra) if part)


def _plainly(details: Mapping[str, Any]) -> str:
    """The reason or cause, if there is one."""
    said = details.get("reason") or details.get("cause") or details.get("why") or ""
    return f"({said})" if said else ""


def _policy(details: Mapping[str, Any]) -> str:
    changes = details.get("changes") or {}
    verdict = changes.get("verdict")
    cause = changes.get("cause")
    policy = details.get("policy") or {}
    parts = [
        f"{policy['knob']}: {policy['reason']}" if policy else "",
        f"verdict {verdict}" if verdict else "",
        f"because {cause}" if cause else "",
    ]
    return "; ".join(part for part in parts if part)


def _worded(details: Mapping[str, Any]) -> str:
    """What carries its own words: overrides."""
    reason = (details.get("override") or {}).get("reason") or details.get("cause") or ""
    return f"{details.get('words', '')}{f' ({reason})' if reason else ''}"


def _change(details: Mapping[str, Any]) -> str:
    change = details.get("change") or {}
    return f"{change.get('kind', '')}: {change.get('words', '')}" if change else ""


def _baseline(details: Mapping[str, Any]) -> str:
    return _plainly(details.get("baseline") or {})


def _mode(details: Mapping[str, Any]) -> str:
    return " → ".join(str(details[name]) for name in ("before", "mode", "after") if name in details)


def _settings(details: Mapping[str, Any]) -> str:
    segment = details.get("segment") or {}
    places = segment.get("settings") or {}
    values = ", ".join(
        f"{at} {'by a law' if one.get('law') else one['value']}" for at, one in places.items()
    )
    cause = segment.get("cause") or ""
    return f"{values}{f' ({cause})' if cause else ''}"


TELL: Final[dict[Kind, Callable[[Mapping[str, Any]], str]]] = {
    "policy": _policy,
    "override": _worded,
    "change": _change,
    "baseline": _baseline,
    "mode": _mode,
    "settings": _settings,
    "unknown": _settings,
}
