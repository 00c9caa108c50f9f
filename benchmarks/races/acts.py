"""What a person may try, as the request that it is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Literal

from msgspec import Struct

from benchmarks.races.books import Kind

Shown = dict[str, Any]
"""A record, as a list shows it."""

WANTS: Final[dict[Kind, int]] = {
    "propose": 48,
    "approve": 96,
    "reject": 24,
    "revert": 40,
    "pause": 48,
    "resume": 64,
    "hold": 1,
    "kill": 1,
    "release": 48,
    "rollback": 1,
    "override": 6,
    "unset": 24,
    "declare": 3,
    "end": 24,
    "baseline": 1,
}
"""How often, relatively."""

FITS: Final[dict[Kind, tuple[str, ...]]] = {
    "approve": ("pending",),
    "reject": ("pending",),
    "revert": ("applying", "on_trial", "paused", "kept", "in_force"),
    "pause": ("on_trial",),
    "resume": ("paused",),
}
"""States that an act is for. One time in ten people are wrong and try it on whatever is there."""

WRONG: Final = 0.1
VALUES: Final = {"active_cap": (2, 4, 16, 32, 64), "step_token_budget": (64, 128)}
BASELINES: Final = (4, 8)
OVERRIDE_S: Final = (1.0, 3.0)


class Wish(Struct, frozen=True, kw_only=True):
    """One act before it is tried. ``mark`` is in its words."""

    kind: Kind
    subject: str
    mark: str
    path: str
    body: dict[str, Any] | None
    method: Literal["POST", "PUT", "DELETE"] = "POST"


class View(Struct, frozen=True, kw_only=True):
    """What everybody has before him: the latest policies, overrides in force, open changes."""

    target: str
    policies: Sequence[Shown] = ()
    overrides: Sequence[Shown] = ()
    changes: Sequence[Shown] = ()


def wish(view: View, mark: str, rng: Random) -> Wish | None:
    """What somebody wants next; None when there is nothing that it could be done to."""
    kind = rng.choices(list(WANTS), list(WANTS.values()))[0]
    return _MAKERS[kind](kind, view, mark, rng)


def about(kind: Kind, policy: Shown, mark: str) -> Wish:
    """One act on one policy."""
    body: dict[str, Any] | None = {"reason": mark}
    if kind == "approve":
        body = {"shown_digest": policy["shown_digest"]}
    elif kind == "resume":
        body = None
    path = f"/v1/policies/{policy['id']}/{kind}"
    return Wish(kind=kind, subject=policy["id"], mark=mark, path=path, body=body)


def proposal(target: str, knob: str, value: int, mark: str) -> Wish:
    """A change by hand."""
    body = {"target": target, "knob": knob, "setting": {"value": value}, "reason": mark}
    return Wish(kind="propose", subject=target, mark=mark, path="/v1/policies", body=body)


def on_target(kind: Kind, target: str, mark: str) -> Wish:
    """Hold, kill, release, rollback."""
    path = f"/v1/targets/{target}/{kind}"
    return Wish(kind=kind, subject=target, mark=mark, path=path, body={"reason": mark})


def unset(override: Shown, mark: str) -> Wish:
    """End an override before its time."""
    return Wish(
        kind="unset",
        subject=override["id"],
        mark=mark,
        path=f"/v1/overrides/{override['id']}",
        body={"reason": mark},
        method="DELETE",
    )


def end(change: Shown, mark: str) -> Wish:
    """Say that a declared change is over."""
    path = f"/v1/changes/{change['id']}/end"
    return Wish(kind="end", subject=change["id"], mark=mark, path=path, body=None)


def baseline(target: str, cap: int, mark: str) -> Wish:
    """A new version of the baseline."""
    return Wish(
        kind="baseline",
        subject=target,
        mark=mark,
        path=f"/v1/targets/{target}/baseline",
        body={"settings": {"active_cap": {"value": cap}}, "reason": mark},
        method="PUT",
    )


def _propose(kind: Kind, view: View, mark: str, rng: Random) -> Wish:
    del kind
    knob = rng.choice(list(VALUES))
    return proposal(view.target, knob, rng.choice(VALUES[knob]), mark)


def _about_the_target(kind: Kind, view: View, mark: str, rng: Random) -> Wish:
    del rng
    return on_target(kind, view.target, mark)


def _about_a_policy(kind: Kind, view: View, mark: str, rng: Random) -> Wish | None:
    shown = view.policies
    if rng.random() >= WRONG:
        shown = [one for one in shown if one["state"] in FITS[kind]]
    return about(kind, rng.choice(shown), mark) if shown else None


def _override(kind: Kind, view: View, mark: str, rng: Random) -> Wish:
    verb, knob = rng.choice(("pin", "force", "freeze")), rng.choice(list(VALUES))
    body: dict[str, Any] = {
        "target": view.target,
        "kind": verb,
        "knob": knob,
        "reason": mark,
        "expires_in_s": rng.uniform(*OVERRIDE_S),
    }
    if verb != "freeze":
        body["setting"] = {"value": rng.choice(VALUES[knob])}
    return Wish(kind=kind, subject=view.target, mark=mark, path="/v1/overrides", body=body)


def _unset(kind: Kind, view: View, mark: str, rng: Random) -> Wish | None:
    del kind
    return unset(rng.choice(view.overrides), mark) if view.overrides else None


def _declare(kind: Kind, view: View, mark: str, rng: Random) -> Wish:
    body: dict[str, Any] = {"target": view.target, "kind": "deploy", "reason": mark}
    if rng.random() < 0.5:
        body["duration_s"] = 1
    return Wish(kind=kind, subject=view.target, mark=mark, path="/v1/changes", body=body)


def _end(kind: Kind, view: View, mark: str, rng: Random) -> Wish | None:
    del kind
    return end(rng.choice(view.changes), mark) if view.changes else None


def _baseline(kind: Kind, view: View, mark: str, rng: Random) -> Wish:
    del kind
    return baseline(view.target, rng.choice(BASELINES), mark)


_MAKERS: Final[dict[Kind, Callable[[Kind, View, str, Random], Wish | None]]] = {
    "propose": _propose,
    "approve": _about_a_policy,
    "reject": _about_a_policy,
    "revert": _about_a_policy,
    "pause": _about_a_policy,
    "resume": _about_a_policy,
    "hold": _about_the_target,
    "kill": _about_the_target,
    "release": _about_the_target,
    "rollback": _about_the_target,
    "override": _override,
    "unset": _unset,
    "declare": _declare,
    "end": _end,
    "baseline": _baseline,
}
