"""The HTTP actuator: what it says of an engine that refuses, is slow, or is not there."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Iterator

import pytest

from engine.adapters.http import HttpActuator
from policies.actuator import Actuator
from policies.runtime_config import Patch, RuntimeConfig, SettingChange
from signals.errors import Conflict, Denied, Rejected, Unavailable
from tests.engine_process import RunningEngine


@pytest.fixture
def actuator(engine: RunningEngine) -> Iterator[HttpActuator]:
    with engine.actuator() as actuator:
        yield actuator
        actuator.patch(patch_of(actuator.read(), SettingChange(knob="active_cap")))


def patch_of(seen: RuntimeConfig, *settings: SettingChange, epoch: int | None = None) -> Patch:
    return Patch(
        change_id=uuid.uuid4().hex,
        epoch=seen.epoch if epoch is None else epoch,
        expected=seen.expected,
        settings=settings,
    )


def test_it_reads_and_changes_a_running_engine(actuator: HttpActuator) -> None:
    port: Actuator = actuator
    seen = port.read()
    answer = port.patch(patch_of(seen, SettingChange(knob="active_cap", value=3)))
    shown = port.read().setting("active_cap")
    assert shown is not None
    assert shown == answer.setting("active_cap")
    assert shown.value == 3
    assert answer.version == seen.version + 1


def test_it_may_read_only_the_news(actuator: HttpActuator) -> None:
    last = actuator.read().changes[-1].seq
    actuator.patch(patch_of(actuator.read(), SettingChange(knob="active_cap", value=3)))
    assert [change.seq for change in actuator.read(after_seq=last).changes] == [last + 1]


def test_a_stale_patch_is_a_conflict_that_names_expected(actuator: HttpActuator) -> None:
    old = actuator.read()
    actuator.patch(patch_of(old))
    with pytest.raises(Conflict) as refused:
        actuator.patch(patch_of(old))
    assert refused.value.field == "expected"


def test_a_fenced_patch_is_a_conflict_that_names_epoch(actuator: HttpActuator) -> None:
    seen = actuator.read()
    actuator.patch(patch_of(seen, epoch=seen.epoch + 1))
    with pytest.raises(Conflict) as refused:
        actuator.patch(patch_of(actuator.read(), epoch=seen.epoch))
    assert refused.value.field == "epoch"


def test_a_refusal_keeps_field_value_and_what_is_allowed(actuator: HttpActuator) -> None:
    with pytest.raises(Rejected) as refused:
        actuator.patch(patch_of(actuator.read(), SettingChange(knob="active_cap", value=999)))
    assert not isinstance(refused.value, Conflict)
    assert refused.value.field == "settings[0].value"
    assert refused.value.value == 999
    assert "1..8" in str(refused.value.allowed)


def test_a_wrong_key_is_denied(engine: RunningEngine) -> None:
    with HttpActuator(engine.control_url, "guess") as actuator, pytest.raises(Denied):
        actuator.read()


def test_an_engine_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with HttpActuator(url, "key") as actuator, pytest.raises(Unavailable):
        actuator.read()


def test_no_answer_in_time_means_unknown_and_says_to_read_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with HttpActuator(url, "key", timeout_s=0.2) as actuator:
            began_s = time.monotonic()
            with pytest.raises(Unavailable, match="read back"):
                actuator.patch(Patch(change_id="c", epoch=0, expected="a:0"))
            assert time.monotonic() - began_s < 2.0


def test_something_else_at_that_address_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        answering = threading.Thread(target=_say_hello, args=(other,))
        answering.start()
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        with (
            HttpActuator(url, "key") as actuator,
            pytest.raises(Unavailable, match="not a runtime"),
        ):
            actuator.read()
        answering.join()


def _say_hello(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
