"""A real bus, a real follower behind it, and both readers: stepped by hand, on a clock of ours."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from signals.bus.port import Message
from signals.bus.sqlite import SqliteBus, SqliteBusReader
from signals.codec import encode
from signals.definitions import StaticDefinitions
from signals.events import (
    Command,
    DiscardLetters,
    LetterSelection,
    Quarantine,
    Record,
    ReplayLetters,
    Signal,
)
from signals.features.follower import Follower
from signals.features.operating import CommandOutcome
from signals.features.reader import SqliteFeatures
from signals.settings import MetricSettings
from tests.signals.making import METRICS, T0_US, basic, rules

OPERATOR = "ada"


def commanded(id_: str, command: Command, *, at_us: int = T0_US) -> Signal:
    """What serve posts for an operator."""
    return Signal(
        id=id_,
        producer="serve",
        kind="command",
        name=str(type(command).__struct_config__.tag),
        target="chat",
        time_us=at_us,
        command=command,
    )


def replay(*offsets: int, where: LetterSelection | None = None) -> ReplayLetters:
    return ReplayLetters(actor=OPERATOR, offsets=offsets, where=where)


def discard(*offsets: int, where: LetterSelection | None = None) -> DiscardLetters:
    return DiscardLetters(actor=OPERATOR, offsets=offsets, where=where)


def quarantine(name: str, *, on: bool = True) -> Quarantine:
    return Quarantine(actor=OPERATOR, name=name, on=on, reason="it posts nonsense")


class OnTheBus:
    """``features`` reads what the follower has written."""

    def __init__(
        self,
        folder: Path,
        *,
        metrics: Mapping[str, MetricSettings] = METRICS,
        file: str = "features.db",
        **settings: float,
    ) -> None:
        self._rules = rules(**settings)
        self.file = folder / file
        self.bus = SqliteBus(folder / "bus")
        self.reader = SqliteBusReader(folder / "bus")
        self.features = SqliteFeatures(self.file)
        self.now_us = T0_US
        self._commands = 0
        self.declare(metrics)

    def declare(self, metrics: Mapping[str, MetricSettings]) -> None:
        """Go on with other metrics declared."""
        self.follow(
            Follower(
                self.reader, self.file, replace(self._rules, definitions=StaticDefinitions(metrics))
            )
        )

    def follow(self, follower: Follower) -> None:
        """Go on with another follower."""
        self._follower = follower

    def post(self, *signals: Signal | Record | bytes, producer: str = "shop") -> range:
        """Append, durably; the offsets. Bytes are posted as they are."""
        first = self.reader.end() + 1
        self.bus.append([self._message(each, producer) for each in signals]).result(10)
        return range(first, first + len(signals))

    def take(self, *signals: Signal | Record | bytes) -> range:
        """Append, and let the stage take everything."""
        offsets = self.post(*signals)
        self.settle()
        return offsets

    def settle(self) -> None:
        """Step until the stage has the bus behind it."""
        end = self.reader.end()
        while True:
            self.step()
            if self.features.bus_offset() >= end:
                return

    def step(self) -> None:
        """Let the stage take one portion."""
        self._follower.step()

    def order(self, command: Command) -> CommandOutcome:
        """Give a command, and what became of it."""
        self._commands += 1
        id_ = f"order-{self._commands}"
        self.take(commanded(id_, command, at_us=self.now_us))
        outcome = self.features.command(id_)
        assert outcome is not None
        return outcome

    def close(self) -> None:
        self._follower.end()
        self.features.close()
        self.bus.close()
        self.reader.close()

    def _message(self, each: Signal | Record | bytes, producer: str) -> Message:
        if isinstance(each, bytes):
            return Message(key="chat", body=each, producer=producer, accepted_us=self.now_us)
        signal = each if isinstance(each, Signal) else basic(each)
        return Message(
            key=signal.target,
            body=encode(signal),
            producer=signal.producer,
            accepted_us=self.now_us,
        )


def folded_afresh(line: OnTheBus, folder: Path) -> SqliteFeatures:
    """The whole bus folded by a stage that never stopped, into a scratch file."""
    path = folder / "scratch.db"
    follower = Follower(line.reader, path, line._rules)
    features = SqliteFeatures(path)
    with closing(follower):
        end = line.reader.end()
        follower.step()
        while features.bus_offset() < end:
            follower.step()
    return features


def accounted(line: OnTheBus) -> None:
    """Every event of feedback is in exactly one place."""
    waiting = line.features.orphans_by_producer()
    now: dict[str, int] = {}
    for letter in line.features.dead_letters(limit=10_000):
        now[letter.producer] = now.get(letter.producer, 0) + 1
    for name, report in line.features.producers().items():
        if name in ("engine", "serve"):
            continue
        fates = report.joined + waiting.get(name, 0) + report.duplicate + report.dead
        assert report.events == fates - report.replayed, report
        there = now.get(name, 0) + report.discarded + report.dropped
        assert report.dead - report.replayed == there, report
