"""Commands posted to a real ingest: under serve's key they are taken, under others they are not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from controller.command_post import HttpCommands
from controller.keys import wall_us
from signals.bus.memory import MemoryBus
from signals.codec import decode
from signals.definitions import StaticDefinitions
from signals.errors import Rejected, Unavailable
from signals.events import DiscardLetters, LetterSelection, Quarantine, Signal
from signals.ingest.keys import Producer, StaticKeys, sha256_hex
from signals.ingest.main import run
from signals.settings import IngestSettings
from tests.cli.running import answers, until
from tests.signals.processes import free_port

KEYS = StaticKeys(
    {
        sha256_hex("serve"): Producer(name="serve", kinds=frozenset({"command"})),
        sha256_hex("admin"): Producer(name="admin", kinds=frozenset({"*"})),
    }
)


class Ingest:
    """The real app on a port, over a bus in memory."""

    def __init__(self, bus: MemoryBus, url: str) -> None:
        self.bus = bus
        self.url = url

    @contextmanager
    def under(self, key: str) -> Iterator[HttpCommands]:
        with closing(HttpCommands(self.url, key, timeout_s=2)) as commands:
            yield commands


@pytest.fixture(scope="module")
def ingest() -> Iterator[Ingest]:
    bus, stop, settings = MemoryBus(), threading.Event(), IngestSettings(port=free_port())
    thread = threading.Thread(
        target=run,
        kwargs={
            "bus": bus,
            "keys": KEYS,
            "definitions": StaticDefinitions({}),
            "targets": {"chat": None},
            "settings": settings,
            "stop": stop,
        },
    )
    thread.start()
    url = f"http://127.0.0.1:{settings.port}"
    until(lambda: answers(f"{url}/readyz"), "ingest answers")
    yield Ingest(bus, url)
    stop.set()
    thread.join()


def command(index: int, *, target: str = "chat") -> Signal:
    where = LetterSelection(reason="conflict", producer="shop", target=target)
    given = (
        DiscardLetters(actor="ana", where=where),
        DiscardLetters(actor="ana", offsets=(7, 8)),
        Quarantine(actor="ana", name="shop", on=True, reason="spam"),
    )[index]
    return Signal(
        id=f"cmd_1.{index}",
        producer="serve",
        kind="command",
        name=str(type(given).__struct_config__.tag),
        target=target,
        time_us=wall_us(),
        command=given,
    )


def test_commands_reach_the_bus_as_they_were_given(ingest: Ingest) -> None:
    given = [command(index) for index in range(3)]
    with ingest.under("serve") as commands:
        commands.check()
        commands.post(given)
    assert [decode(entry.body) for entry in ingest.bus.read(after=0, limit=10)] == given


def test_a_command_that_ingest_refuses_says_why(ingest: Ingest) -> None:
    with ingest.under("serve") as commands, pytest.raises(Rejected, match="no such target"):
        commands.post([command(0, target="search")])


@pytest.mark.parametrize("key", ["admin", "guess"])
def test_no_other_key_may_command(ingest: Ingest, key: str) -> None:
    before = ingest.bus.end()
    with ingest.under(key) as commands, pytest.raises((Rejected, Unavailable)):
        commands.post([command(2)])
    assert ingest.bus.end() == before


def test_no_ingest_is_unavailable() -> None:
    with closing(HttpCommands(f"http://127.0.0.1:{free_port()}", "serve", timeout_s=1)) as away:
        with pytest.raises(Unavailable, match="does not answer"):
            away.check()
        with pytest.raises(Unavailable, match="does not answer"):
            away.post([command(0)])
