"""What is left out of a PATCH, so that an engine that does not know a field yet takes it."""

from __future__ import annotations

import msgspec

from policies.runtime_config import Patch, SettingChange


def test_a_change_names_only_what_it_sets_for_engines_that_know_no_arms() -> None:
    change = SettingChange(knob="active_cap", value=8)
    patch = Patch(change_id="c", epoch=1, expected="a:0", settings=(change,))
    sent = msgspec.to_builtins(patch)["settings"][0]
    assert sent == {"knob": "active_cap", "value": 8}
    assert msgspec.json.decode(msgspec.json.encode(patch), type=Patch) == patch
