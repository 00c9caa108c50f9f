"""Hold and kill when there is no control plane: a real engine, the latch, and a key in a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.act_journal import ActJournal, record
from controller.latch import Latch, Latched
from controller.store.sql import open_store
from policies.runtime_config import Patch, RuntimeConfig, SettingChange
from tests.cli.running import Trimtab
from tests.engine_process import CONTROL_KEY, RunningEngine
from tests.signals.processes import free_port

CONFIG = """
state_dir: {state}
serve: {{port: {port}}}
targets:
  chat:
    engine: {{control_urls: ["{url}"]}}
    on_kill: baseline
    baseline: {{active_cap: 2}}
    maximize: batch.tokens_per_s
    intents: {{batch: {{class: batch}}}}
"""


@pytest.fixture
def trimtab(tmp_path: Path, engine: RunningEngine) -> Iterator[Trimtab]:
    """A machine whose controller never ran, beside a running engine that is put back after."""
    config = CONFIG.format(state=tmp_path / "state", port=free_port(), url=engine.control_url)
    (tmp_path / "trimtab.yaml").write_text(config)
    (tmp_path / "state" / "keys").mkdir(parents=True)
    (tmp_path / "state" / "keys" / "control.key").write_text(CONTROL_KEY)
    (tmp_path / "state" / "keys" / "admin.key").write_text("of-no-use-without-serve")
    yield Trimtab(tmp_path)
    put(engine, SettingChange(knob="active_cap"), hold=False)


def put(engine: RunningEngine, *settings: SettingChange, hold: bool) -> RuntimeConfig:
    with engine.actuator() as actuator:
        seen = actuator.read()
        return actuator.patch(
            Patch(
                change_id=f"test.{seen.engine_time}",
                epoch=seen.epoch,
                expected=seen.expected,
                settings=settings,
                hold=hold,
            )
        )


def now(engine: RunningEngine) -> RuntimeConfig:
    with engine.actuator() as actuator:
        return actuator.read()


def test_hold_reaches_the_engine_and_latches(
    trimtab: Trimtab, engine: RunningEngine, tmp_path: Path
) -> None:
    assert trimtab("hold", "chat", "-m", "a test").code == 3
    assert not now(engine).hold
    done = trimtab("hold", "chat", "--direct", "-m", "serve is down")
    assert done.code == 0, done.err
    assert "as wished" in done.out
    assert "not recorded yet" in done.out
    assert now(engine).hold
    latched = Latch(tmp_path / "state" / "latch.json").read()["chat"]
    assert (latched.state, latched.reason) == ("held", "serve is down")


def test_kill_goes_to_the_declared_baseline(trimtab: Trimtab, engine: RunningEngine) -> None:
    put(engine, SettingChange(knob="active_cap", value=5), hold=False)
    report = trimtab("kill", "chat", "--direct", "-m", "answers look wrong", "--json").json
    assert [one["ok"] for one in report["replicas"]] == [True]
    setting = now(engine).setting("active_cap")
    assert setting is not None
    assert setting.value == 2


def test_an_engine_that_is_gone_is_listed_and_the_latch_stands(
    trimtab: Trimtab, engine: RunningEngine, tmp_path: Path
) -> None:
    config = (tmp_path / "trimtab.yaml").read_text()
    gone = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "trimtab.yaml").write_text(config.replace(engine.control_url, gone))
    done = trimtab("kill", "chat", "--direct", "-m", "a test")
    assert done.code == 3
    assert f"did not reach {gone}" in done.err
    assert Latch(tmp_path / "state" / "latch.json").read()["chat"].state == "killed"


def test_without_the_control_key_the_loop_is_latched_all_the_same(
    trimtab: Trimtab, tmp_path: Path
) -> None:
    (tmp_path / "state" / "keys" / "control.key").unlink()
    assert trimtab("kill", "search", "--direct", "-m", "a test").code == 2
    assert Latch(tmp_path / "state" / "latch.json").read() == {}
    done = trimtab("kill", "chat", "--direct", "-m", "a test")
    assert done.code == 2
    assert "control.key" in done.err
    assert Latch(tmp_path / "state" / "latch.json").read()["chat"].state == "killed"


def test_a_store_that_is_garbage_stands_in_nobody_s_way(
    trimtab: Trimtab, engine: RunningEngine, tmp_path: Path
) -> None:
    (tmp_path / "state" / "store.db").write_bytes(b"no database" * 1000)
    put(engine, SettingChange(knob="active_cap", value=5), hold=False)
    report = trimtab("kill", "chat", "--direct", "-m", "the store is gone", "--json").json
    assert [one["ok"] for one in report["replicas"]] == [True]
    setting = now(engine).setting("active_cap")
    assert setting is not None
    assert setting.value == 2
    assert Latch(tmp_path / "state" / "latch.json").read()["chat"].reason == "the store is gone"


def test_release_by_hand_lifts_the_hold_and_leaves_settings_alone(
    trimtab: Trimtab, engine: RunningEngine, tmp_path: Path
) -> None:
    put(engine, SettingChange(knob="active_cap", value=5), hold=False)
    assert trimtab("hold", "--all", "--direct", "-m", "a test").code == 0
    assert now(engine).hold
    done = trimtab("release", "chat", "--direct", "-m", "over")
    assert done.code == 0, done.err
    seen = now(engine)
    setting = seen.setting("active_cap")
    assert setting is not None
    assert (seen.hold, setting.value) == (False, 5)
    assert Latch(tmp_path / "state" / "latch.json").read() == {}


def test_who_broke_the_glass_why_and_what_was_reached_waits_for_the_store(
    trimtab: Trimtab, engine: RunningEngine, tmp_path: Path
) -> None:
    assert trimtab("kill", "--all", "--direct", "-m", "the store is gone").code == 0
    (act,) = ActJournal(tmp_path / "state" / "acts").pending("chat")
    assert (act.kind, act.verb, act.reason) == (
        "control.break_glass",
        "killed",
        "the store is gone",
    )
    assert act.by.startswith("break-glass:")
    assert list(act.replicas.values()) == ["as wished"]
    with closing(open_store(f"sqlite:///{tmp_path / 'again.db'}")) as store:
        for _ in range(2):
            with store.write() as tx:
                record(tx, act)
        with store.read() as tx:
            (entry,) = [one for one in tx.audit() if one.action == "control.break_glass"]
    assert (entry.actor, entry.at_us, entry.details["reason"]) == (act.by, act.at_us, act.reason)
    assert list(entry.details["replicas"].values()) == ["as wished"]


@pytest.mark.parametrize("verb", ["hold", "kill", "release"])
def test_a_detached_target_stays_detached_and_is_not_touched(
    trimtab: Trimtab, engine: RunningEngine, tmp_path: Path, verb: str
) -> None:
    latch = Latch(tmp_path / "state" / "latch.json")
    latch.set("chat", Latched(state="detached", actor="key_ada", reason="ours", since_us=1))
    seen = put(engine, SettingChange(knob="active_cap", value=5), hold=False)
    done = trimtab(verb, "chat", "--direct", "-m", "a test")
    assert done.code != 0
    assert "detached" in done.err
    assert latch.read()["chat"].state == "detached"
    assert now(engine).version == seen.version


def test_what_is_forced_stands_when_nobody_can_be_asked(
    trimtab: Trimtab, engine: RunningEngine
) -> None:
    put(engine, SettingChange(knob="active_cap", value=5, policy_id="frc_1"), hold=False)
    assert trimtab("kill", "chat", "--direct", "-m", "the store is gone").code == 0
    setting = now(engine).setting("active_cap")
    assert setting is not None
    assert setting.value == 5
