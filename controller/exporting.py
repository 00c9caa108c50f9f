"""Settings as a start-up command of vLLM, or as JSON: what an engine would need without Trimtab.

Every line that is no flag is a comment that says why. A flag is for the whole engine and for ever,
so laws, intents' own settings, and what is only on trial can't be one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from policies.in_force import InForce
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.settings import Effective, Setting, digest, split

ExportForm = Literal["vllm-flags", "json"]

FLAGS: Final[dict[str, str]] = {
    "active_cap": "--max-num-seqs",
    "step_token_budget": "--max-num-batched-tokens",
    "long_prefill_token_threshold": "--long-prefill-token-threshold",
}
"""vLLM's own start-up flags, of the release that the adapter is for."""

NO_FLAG: Final[dict[str, str]] = {
    "draft_length": "set num_speculative_tokens in --speculative-config",
    "priority_weights": "set --scheduling-policy priority, and a priority with each request",
}
"""Knobs whose place at the start is elsewhere."""


class Exported(Struct, frozen=True, kw_only=True):
    """One place: the setting, and where it comes from, in words."""

    setting: Setting
    source: str
    policy_id: str | None = None
    expires_us: int | None = None


class Export(Struct, frozen=True, kw_only=True):
    """By place. ``digest`` is of the settings alone: equal settings, equal digest.

    ``flags``: a start-up command's, with comments; None unless asked for.
    """

    target: str
    at_us: int
    digest: str
    settings: dict[str, Exported]
    flags: str | None


def from_wish(wished: Mapping[str, Effective], specs: Iterable[KnobSpec]) -> dict[str, Exported]:
    """By place, what is in force. What is on trial is left out for what is below it."""
    found = {
        spec.name: Exported(setting=Setting(value=spec.boot), source="boot value") for spec in specs
    }
    for at, one in wished.items():
        tried = one
        while tried.kind == "arm" and tried.below is not None:
            tried = tried.below
        if tried.kind == "arm":
            continue
        found[at] = Exported(
            setting=tried.setting,
            source=tried.kind or "baseline",
            policy_id=tried.policy_id,
            expires_us=tried.expires_us,
        )
    return found


def from_past(settings: Mapping[str, InForce]) -> dict[str, Exported]:
    """By place, what was in force at a time."""
    return {
        at: Exported(
            setting=Setting(value=None if one.law is not None else one.value, law=one.law),
            source="in force then",
            policy_id=one.policy_id,
        )
        for at, one in settings.items()
    }


def export(
    target: str, at_us: int, at: str, settings: Mapping[str, Exported], form: ExportForm
) -> Export:
    """The settings, and as flags where these are asked for. ``at``: the time in words."""
    return Export(
        target=target,
        at_us=at_us,
        digest=digest({place: one.setting for place, one in settings.items()}),
        settings=dict(sorted(settings.items())),
        flags=as_vllm_flags(target, at, settings) if form == "vllm-flags" else None,
    )


def as_vllm_flags(target: str, at: str, settings: Mapping[str, Exported]) -> str:
    """For a shell script: comments, and flags, one a line."""
    shown = digest({place: one.setting for place, one in settings.items()})
    head = f"# {target} at {at}, settings {shown}; start-up flags of vLLM"
    return "\n".join([head, *(_line(at, one) for at, one in sorted(settings.items()))]) + "\n"


def _line(at: str, one: Exported) -> str:
    knob, scope = split(at)
    flag, by = FLAGS.get(knob), f"{one.source}{f' {one.policy_id}' if one.policy_id else ''}"
    if scope != TARGET_SCOPE:
        return f"# {at} = {one.setting.words()} ({by}): flags are for every intent alike"
    if flag is None:
        why = NO_FLAG.get(knob, "vLLM has no start-up flag for it")
        return f"# {knob} = {one.setting.words()} ({by}): {why}"
    if one.setting.law is not None:
        default = one.setting.law.default
        return (
            f"# {knob} is a law ({by}): {one.setting.words()}. A flag can't follow a law;"
            f" its default alone would be {flag} {default}"
        )
    ends = "" if one.expires_us is None else "; it expires, a flag does not"
    return f"{flag} {one.setting.value}  # {knob}: {by}{ends}"
