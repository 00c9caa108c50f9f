"""Overrides, baselines, rollback, detaching and export as the operator types them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Served
from tests.cli.running import Trimtab


@pytest.fixture
def ana(served: Served) -> Iterator[Trimtab]:
    """An operator; what she set is gone afterwards."""
    typed = served.as_("operator")
    yield typed
    for one in typed("overrides", "--json").json["items"]:
        assert typed("unpin", one["id"], "-m", "the test is over").code == 0
    served.plane.world.run(1)


def test_a_pin_is_set_listed_shown_and_released(served: Served, ana: Trimtab) -> None:
    done = ana("pin", "chat", "active_cap", "4", "--for", "1h30m", "-m", "a test")
    assert done.code == 0, done.err
    assert ": pin active_cap = 4 until " in done.out
    pin_id = done.out.partition(":")[0]
    served.plane.world.run(1)
    assert served.plane.world.cap() == 4
    listed = ana("overrides", "chat")
    assert pin_id in listed.out and "a test" in listed.out
    assert ", PIN until" in ana("status", "chat").out
    assert f"{pin_id} is released" in ana("unpin", pin_id, "-m", "enough").out
    assert ana("overrides", "chat").out == "no overrides\n"
    assert "ended: released by" in ana("overrides", "--ended").out
    assert ana("unpin", pin_id, "-m", "again").code == 2


def test_a_law_is_forced_from_a_file(served: Served, ana: Trimtab, tmp_path: Path) -> None:
    law = tmp_path / "law.yaml"
    law.write_text("{variable: arrivals, window_s: 2, default: 8, steps: [{above: 0, value: 4}]}")
    done = ana("force", "chat", "active_cap", "--law", str(law), "--for", "5m", "-m", "a test")
    assert done.code == 0, done.err
    served.plane.world.run(1)
    seen = served.plane.world.engine.read().setting("active_cap")
    assert seen is not None and seen.law is not None


def test_a_freeze_covers_every_knob_unless_one_is_named(ana: Trimtab) -> None:
    assert "freeze every knob until" in ana("freeze", "chat", "--for", "1h", "-m", "a test").out
    one = ana("freeze", "chat", "active_cap", "--for", "1h", "--intent", "live", "-m", "a test")
    assert "freeze active_cap of live until" in one.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pin", "chat", "active_cap", "4", "-m", "why"), "--for"),
        (("pin", "chat", "active_cap", "4", "--for", "soon", "-m", "why"), "30m, 2h"),
        (("pin", "chat", "active_cap", "4", "--for", "6d", "-m", "why"), "86400"),
        (("pin", "chat", "active_cap", "--for", "1h", "-m", "why"), "--law"),
        (("pin", "chat", "active_cap", "99", "--for", "1h", "-m", "why"), "1..64"),
        (("pin", "chat", "no_knob", "4", "--for", "1h", "-m", "why"), "active_cap"),
        (("hold", "-m", "why"), "--all"),
        (("hold", "chat", "--all", "-m", "why"), "--all"),
        (("baseline", "set", "chat", "active_cap", "-m", "why"), "KNOB=VALUE"),
        (("rollback", "chat", "--to", "noon", "-m", "why"), "RFC 3339"),
    ],
)
def test_what_can_t_be_is_refused_with_what_is_allowed(
    ana: Trimtab, words: tuple[str, ...], said: str
) -> None:
    done = ana(*words)
    assert done.code == 2
    assert said in done.err


def test_the_baseline_is_shown_with_its_owner_and_its_history(ana: Trimtab) -> None:
    shown = ana("baseline", "show", "chat")
    assert shown.out.startswith("baseline@1 (")
    assert "by the configuration file: active_cap = 8" in shown.out
    assert "active_cap=8" in ana("baseline", "history", "chat").out
    refused = ana("baseline", "set", "chat", "active_cap=4", "-m", "a test")
    assert refused.code == 2
    assert "configuration file" in refused.err


def test_a_rollback_is_shown_before_it_is_done(served: Served, ana: Trimtab) -> None:
    ana("pin", "chat", "active_cap", "4", "--for", "1h", "-m", "a test")
    served.plane.world.run(1)
    dry = ana("rollback", "chat", "--dry-run", "-m", "latency")
    assert dry.code == 0, dry.err
    assert dry.out.startswith("chat would go to last stable\n")
    assert "ended     pin_" in dry.out
    assert served.plane.world.cap() == 4
    done = ana("rollback", "chat", "-m", "latency")
    assert done.out.startswith("chat goes to last stable\n")
    assert "as wished" in done.out
    assert served.plane.world.cap() == 8
    unknown = ana("rollback", "chat", "--to", "2020-01-01T00:00:00Z", "-m", "latency")
    assert unknown.code == 2
    assert "the record begins at" in unknown.err


def test_an_engine_is_detached_and_attached_in_words(served: Served, ana: Trimtab) -> None:
    left = ana("targets", "detach", "chat", "--expiries", "let", "-m", "a test")
    assert left.code == 0, left.err
    assert left.out.startswith("chat is detached\nactive_cap stays 8")
    assert "DETACHED" in ana("status", "chat").out.splitlines()[0]
    assert ana("targets", "attach", "chat", "-m", "ours").out == "chat is attached\n"
    served.plane.world.run(1)


def test_settings_are_exported_for_a_start_without_us(served: Served, ana: Trimtab) -> None:
    flags = ana("settings", "export", "chat", "--as", "vllm-flags")
    assert flags.code == 0, flags.err
    assert "--max-num-seqs 8  # active_cap: baseline" in flags.out.splitlines()
    found = ana("settings", "export", "chat", "--as", "json").json
    assert found["digest"] in flags.out.splitlines()[0]
    at = served.plane.world.clock_us()
    assert ana("settings", "export", "chat", "--as", "json", "--at", str(at)).code == 0
