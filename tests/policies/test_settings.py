"""How layers fold, the way back from one, and digests."""

from __future__ import annotations

import itertools

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from policies.laws import Law, LawStep
from policies.policy import Policy
from policies.settings import Effective, Layer, Setting, digest, effective, typed
from tests.policies.choices import KNOBS, baselines, layers, settings


@given(baselines)
def test_without_layers_the_baseline_is_in_force(baseline: dict[str, Setting]) -> None:
    assert effective(baseline, []) == {k: Effective(setting=s) for k, s in baseline.items()}


@given(baselines, layers)
def test_the_last_layer_of_a_knob_wins_and_below_it_lie_the_others_in_order(
    baseline: dict[str, Setting], stack: list[Layer]
) -> None:
    folded = effective(baseline, stack)
    assert set(folded) == set(baseline) | {layer.knob for layer in stack}
    for knob, outcome in folded.items():
        mine = [layer for layer in stack if layer.knob == knob]
        found = [(e.setting, e.policy_id, e.expires_us) for e in down(outcome)]
        expected = [(layer.setting, layer.policy_id, layer.expires_us) for layer in mine[::-1]]
        assert found[: len(mine)] == expected
        assert found[len(mine) :] == ([(baseline[knob], None, None)] if knob in baseline else [])


def down(outcome: Effective | None) -> list[Effective]:
    return [] if outcome is None else [outcome, *down(outcome.below)]


@given(baselines, layers, st.data())
def test_the_way_back_from_a_layer_is_to_fold_without_it(
    baseline: dict[str, Setting], stack: list[Layer], data: st.DataObject
) -> None:
    """Whatever was put above or below meanwhile; other knobs do not notice."""
    if not stack:
        stack = [Layer(knob=KNOBS[0], setting=Setting(value=1), policy_id="pol_1")]
    place = data.draw(st.integers(0, len(stack) - 1))
    removed, rest = stack[place], stack[:place] + stack[place + 1 :]
    before, after = effective(baseline, stack), effective(baseline, rest)
    assert {k: e for k, e in before.items() if k != removed.knob} == {
        k: e for k, e in after.items() if k != removed.knob
    }
    if removed.knob not in {layer.knob for layer in stack[place + 1 :]}:
        assert after.get(removed.knob) == before[removed.knob].below


@given(baselines, layers)
def test_folding_is_the_same_however_it_is_split(
    baseline: dict[str, Setting], stack: list[Layer]
) -> None:
    """Settings in force after n layers, as a baseline for the rest, give the same settings."""
    for cut in range(len(stack) + 1):
        lower = {k: e.setting for k, e in effective(baseline, stack[:cut]).items()}
        upper = {k: e.setting for k, e in effective(lower, stack[cut:]).items()}
        assert upper == {k: e.setting for k, e in effective(baseline, stack).items()}


@given(baselines)
def test_a_digest_depends_on_the_settings_and_not_on_their_order_or_their_way(
    chosen: dict[str, Setting],
) -> None:
    expected = digest(chosen)
    assert len(expected) == 12
    assert int(expected, 16) >= 0
    for order in itertools.permutations(chosen.items()):
        assert digest(dict(order)) == expected
    wired = msgspec.json.decode(msgspec.json.encode(chosen), type=dict[str, Setting])
    assert digest(wired) == expected


@given(baselines, baselines)
def test_digests_are_equal_exactly_when_the_settings_are(
    one: dict[str, Setting], two: dict[str, Setting]
) -> None:
    assert (digest(one) == digest(two)) == (one == two)


def test_a_whole_number_and_its_float_are_the_same_law() -> None:
    def law(above: float) -> Setting:
        steps = (LawStep(above=above, value=8),)
        return Setting(law=Law(variable="arrivals", window_s=2.0, default=64, steps=steps))

    whole, exact = law(0), law(0.0)
    assert msgspec.json.encode(whole) != msgspec.json.encode(exact)
    assert msgspec.json.encode(typed(whole)) == msgspec.json.encode(exact)
    assert digest({"active_cap": whole}) == digest({"active_cap": exact})


@given(settings)
def test_a_setting_says_its_value_or_its_law_in_words(setting: Setting) -> None:
    words = setting.words()
    if setting.law is None:
        assert words == str(setting.value)
    else:
        assert words.endswith(f"else {setting.law.default}")
        for step in setting.law.steps:
            assert f"{step.value} above {step.above:g}" in words


@given(settings, settings)
def test_what_an_approver_was_shown_has_a_digest_of_its_own(one: Setting, two: Setting) -> None:
    policy = msgspec.convert(
        {
            "id": "pol_1",
            "target": "chat",
            "knob": "active_cap",
            "before": msgspec.to_builtins(Setting(value=8)),
            "setting": msgspec.to_builtins(one),
            "origin": {"kind": "person", "name": "key_1"},
            "reason": "because",
            "guards": [{"metric": "attainment:live", "margin": 0.02}],
            "mode": "approve",
            "proposed_by": "key_1",
            "created_us": 1,
            "updated_us": 1,
        },
        Policy,
    )
    moved = msgspec.structs.replace(policy, state="pending", rev=1, updated_us=2, trial="tri_1")
    other = msgspec.structs.replace(policy, setting=two)
    assert moved.shown_digest == policy.shown_digest
    assert (other.shown_digest == policy.shown_digest) == (one == two)
    for changed in (
        msgspec.structs.replace(policy, reason="because!"),
        msgspec.structs.replace(policy, id="pol_2"),
        msgspec.structs.replace(policy, guards=()),
        msgspec.structs.replace(policy, before=Setting(value=9)),
        msgspec.structs.replace(policy, knob="step_token_budget"),
    ):
        assert changed.shown_digest != policy.shown_digest
