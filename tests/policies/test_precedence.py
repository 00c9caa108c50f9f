"""Which layer wins: every pair of kinds, on values and laws, at the target and at intents."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

import pytest

from policies.laws import Law, LawStep
from policies.settings import (
    RANK,
    STANDS,
    Layer,
    LayerKind,
    OnKill,
    Setting,
    effective,
    lasting,
    setting_for,
    standing,
)

KINDS: tuple[LayerKind, ...] = get_args(LayerKind)
PAIRS = list(combinations(sorted(KINDS, key=lambda kind: RANK[kind]), 2))
VALUE = Setting(value=8)
LAW = Setting(
    law=Law(variable="arrivals", window_s=2.0, default=64, steps=(LawStep(above=0, value=4),))
)


def layer(
    kind: LayerKind,
    setting: Setting = VALUE,
    *,
    scope: str = "target",
    name: str = "",
    expires_us: int | None = None,
) -> Layer:
    return Layer(
        knob="active_cap",
        scope=scope,
        setting=setting,
        policy_id=name or kind,
        kind=kind,
        expires_us=expires_us,
    )


def test_the_kinds_are_ranked_as_they_are_said_to_be() -> None:
    assert sorted(KINDS, key=lambda kind: RANK[kind]) == [
        "kept",
        "emergency",
        "arm",
        "pin",
        "force",
    ]


@pytest.mark.parametrize("scope", ["target", "live"])
@pytest.mark.parametrize(("lower", "upper"), PAIRS)
@pytest.mark.parametrize(("below", "above"), [(VALUE, LAW), (LAW, VALUE)])
def test_the_higher_kind_wins_whatever_the_order(
    lower: LayerKind, upper: LayerKind, below: Setting, above: Setting, scope: str
) -> None:
    layers = [layer(lower, below, scope=scope), layer(upper, above, scope=scope)]
    at = "active_cap" if scope == "target" else "active_cap@live"
    for order in (layers, layers[::-1]):
        found = effective({}, order)[at]
        assert (found.setting, found.kind, found.policy_id) == (above, upper, upper)
        assert found.below is not None
        assert (found.below.setting, found.below.kind) == (below, lower)


@pytest.mark.parametrize("scope", ["target", "live"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("below", "above"), [(VALUE, LAW), (LAW, VALUE)])
def test_every_kind_wins_over_the_baseline(
    kind: LayerKind, below: Setting, above: Setting, scope: str
) -> None:
    at = "active_cap" if scope == "target" else "active_cap@live"
    found = effective({at: below}, [layer(kind, above, scope=scope)])[at]
    assert (found.setting, found.below and found.below.setting) == (above, below)


@pytest.mark.parametrize("kind", KINDS)
def test_of_one_kind_the_newer_wins(kind: LayerKind) -> None:
    old, new = layer(kind, VALUE, name="old"), layer(kind, LAW, name="new")
    assert effective({}, [old, new])["active_cap"].policy_id == "new"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("whole", "own"), [(VALUE, LAW), (LAW, VALUE)])
def test_of_one_kind_the_intent_s_own_is_over_the_target_s(
    kind: LayerKind, whole: Setting, own: Setting
) -> None:
    layers = [layer(kind, own, scope="live"), layer(kind, whole)]
    folded = effective({}, layers)
    live, other = setting_for(folded, "active_cap", "live"), setting_for(folded, "active_cap", "b")
    assert live is not None and other is not None
    assert (live.setting, other.setting) == (own, whole)


@pytest.mark.parametrize(("lower", "upper"), PAIRS)
def test_only_a_person_s_word_on_the_target_covers_an_intent_s_own(
    lower: LayerKind, upper: LayerKind
) -> None:
    """What is kept must be what was tried, and the operator always wins."""
    folded = effective({}, [layer(lower, VALUE, scope="live"), layer(upper, LAW)])
    live = setting_for(folded, "active_cap", "live")
    assert live is not None
    covered = upper in ("pin", "force")
    assert live.setting == (LAW if covered else VALUE)
    if covered:
        assert live.below is not None and live.below.setting == VALUE


@pytest.mark.parametrize(("lower", "upper"), PAIRS)
def test_a_higher_kind_at_an_intent_is_over_a_lower_one_on_the_target(
    lower: LayerKind, upper: LayerKind
) -> None:
    folded = effective({}, [layer(lower, VALUE), layer(upper, LAW, scope="live")])
    live = setting_for(folded, "active_cap", "live")
    assert live is not None and live.setting == LAW
    assert folded["active_cap"].setting == VALUE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("on_kill", get_args(OnKill))
@pytest.mark.parametrize("setting", [VALUE, LAW])
@pytest.mark.parametrize("scope", ["target", "live"])
def test_a_kill_cuts_every_kind_as_it_was_declared_to(
    kind: LayerKind, on_kill: OnKill, setting: Setting, scope: str
) -> None:
    stands = kind == "force" or (kind == "kept" and on_kill == "last_stable")
    assert (kind in STANDS[on_kill]) == stands
    at = "active_cap" if scope == "target" else "active_cap@live"
    found = effective({}, standing([layer(kind, setting, scope=scope)], on_kill))
    assert (at in found) == stands


def test_the_way_back_of_what_expires_skips_what_expires_itself() -> None:
    kept = layer("kept", VALUE)
    emergency = layer("emergency", Setting(value=2), expires_us=50)
    pin = layer("pin", LAW, expires_us=20)
    found = effective({"active_cap": Setting(value=64)}, [pin, emergency, kept])["active_cap"]
    way_back = lasting(found.below)
    assert way_back is not None and way_back.policy_id == "kept"
    only = effective({}, [pin, emergency])["active_cap"]
    assert lasting(only.below) is None
