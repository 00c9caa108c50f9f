"""What a person may try, as the request that it is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from msgspec import Struct

from benchmarks.races.books import Kind

Shown = dict[str, Any]
"""A policy, as the list shows it."""

WANTS: Final[dict[Kind, int]] = {
    "propose": 24,
    "approve": 48,
    "reject": 16,
    "revert": 24,
    "pause": 24,
    "resume": 28,
    "hold": 1,
    "kill": 1,
    "release": 24,
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


class Wish(Struct, frozen=True, kw_only=True):
    """One act before it is tried. ``mark`` is in its words."""

    kind: Kind
    subject: str
    mark: str
    path: str
    body: dict[str, Any] | None


class View(Struct, frozen=True, kw_only=True):
    """What somebody has before him."""

    target: str
    policies: Sequence[Shown]


def wish(view: View, mark: str, rng: Random) -> Wish | None:
    """What somebody wants next; None when there is nothing that it could be done to."""
    kind = rng.choices(list(WANTS), list(WANTS.values()))[0]
    return _MAKERS[kind](kind, view, mark, rng)


def _propose(kind: Kind, view: View, mark: str, rng: Random) -> Wish:
    del kind
    knob = rng.choice(list(VALUES))
    return proposal(view.target, knob, rng.choice(VALUES[knob]), mark)


def proposal(target: str, knob: str, value: int, mark: str) -> Wish:
    """A change by hand."""
    body = {"target": target, "knob": knob, "setting": {"value": value}, "reason": mark}
    return Wish(kind="propose", subject=target, mark=mark, path="/v1/policies", body=body)


def _about_the_target(kind: Kind, view: View, mark: str, rng: Random) -> Wish:
    del rng
    path = f"/v1/targets/{view.target}/{kind}"
    return Wish(kind=kind, subject=view.target, mark=mark, path=path, body={"reason": mark})


def _about_a_policy(kind: Kind, view: View, mark: str, rng: Random) -> Wish | None:
    shown = view.policies
    if rng.random() >= WRONG:
        shown = [one for one in shown if one["state"] in FITS[kind]]
    if not shown:
        return None
    policy = rng.choice(shown)
    return about(kind, policy, mark)


def about(kind: Kind, policy: Shown, mark: str) -> Wish:
    """One act on one policy."""
    body: dict[str, Any] | None = {"reason": mark}
    if kind == "approve":
        body = {"shown_digest": policy["shown_digest"]}
    elif kind == "resume":
        body = None
    path = f"/v1/policies/{policy['id']}/{kind}"
    return Wish(kind=kind, subject=policy["id"], mark=mark, path=path, body=body)


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
}
