"""What a feature stage gets on a working day, made quickly and the same for the same seed.

Per request: one ``arrived`` and one ``finished`` record of one replica of one target, intents live
and batch alike, and one business event about an earlier request that had none yet: 70 % name it by
request id, 20 % by external id, 10 % by session (of one request), so all join. Every second one
``second`` record. So of 3,000 events about 1,000 each are arrived, finished and business.

``sessions`` False: those name their request by external id instead, for feedback about a session
waits ``lateness_s`` of event time by contract, which is no latency to measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec

from benchmarks.ingest.bodies import rfc3339
from signals.events import (
    MICROS,
    Arrived,
    Finished,
    IntentLoad,
    Record,
    Second,
    SeenStamp,
    Signal,
    StepMoments,
)
from signals.ids import RANDOM_BYTES, uuid7
from signals.records import event_time_us, record_id, record_name

WORDS: Final = (
    "per request one arrived, one finished, one business event (70 % by request id, 20 % external"
    " id, 10 % session); a second record every second"
)
ANSWER_US: Final = 200_000
OPEN: Final = 500
"""Requests without feedback so far; each new one is followed by feedback about one of these."""

_post = msgspec.json.Encoder()
_ENDED: dict[str, Any] = {"status": "ok", "prompt_tokens": 120, "output_tokens": 60}
_LOAD = IntentLoad(arrivals=100, offered_tokens=18_000, output_tokens=6_000, waiting=2, running=20)


class Mix:
    """Events of one target's engine and of one shop, in order."""

    def __init__(self, target: str, *, seed: int, since_us: int = 0, sessions: bool = True) -> None:
        self._target = target
        self._of_session = 0.9 if sessions else 1.0
        self._rng = Random(seed)
        self._stamp = SeenStamp(
            target=target,
            replica="r0",
            incarnation=f"{self._rng.getrandbits(48):012x}",
            version=1,
            digest="sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        )
        self._seq = 0
        self._feedback = 0
        self._open: list[int] = []
        self._made = 0
        self._second_us = since_us
        self._salt = self._rng.randbytes(4)

    def request(self, now_us: int) -> Iterator[Record | Signal]:
        """One request's records, one piece of feedback, and the seconds that are over by now."""
        number, intent = self._made, ("live", "batch")[self._made % 2]
        self._made += 1
        known: dict[str, Any] = {
            "stamp": self._stamp,
            "request_id": self.request_id(number),
            "intent": intent,
            "class_": "interactive" if intent == "live" else "batch",
            "arrival_us": now_us - ANSWER_US,
            "max_tokens": 256,
            "external_id": f"order-{self._salt.hex()}-{number}",
            "session_id": f"session-{self._salt.hex()}-{number}",
        }
        yield Arrived(seq=self._next(), prompt_tokens=120, **known)
        yield Finished(
            seq=self._next(),
            finished_us=now_us,
            queue_us=1_000 + number % 5_000,
            ttft_us=20_000 + number % 90_000,
            tpot_us=9_000 + number % 20_000,
            **_ENDED,
            **known,
        )
        self._open.append(number)
        if len(self._open) > OPEN:
            place = self._rng.randrange(OPEN)
            self._open[place], self._open[-1] = self._open[-1], self._open[place]
            yield self._about(self._open.pop(), now_us)
        if now_us - self._second_us >= MICROS:
            yield self._second(now_us)

    def post(self, count: int, now_us: int) -> tuple[bytes, int]:
        """NDJSON of about ``count`` events now, and how many of them a window will show."""
        lines: list[bytes] = []
        shows = 0
        while len(lines) < count:
            for event in self.request(now_us):
                shows += isinstance(event, Signal | Finished)
                lines.append(posted(event))
        return b"\n".join(lines), shows

    def signals(self, now_us: int) -> Iterator[Signal]:
        """The same as they travel on the bus."""
        for event in self.request(now_us):
            yield event if isinstance(event, Signal) else basic(event)

    def request_id(self, number: int) -> str:
        """Not by the clock, so that it is known by its number."""
        random = self._salt + number.to_bytes(RANDOM_BYTES - len(self._salt), "big")
        return f"{self._target}.{uuid7(1_790_000_000 * MICROS, random)}"

    def _about(self, number: int, now_us: int) -> Signal:
        self._feedback += 1
        dice, known_by = self._rng.random(), f"{self._salt.hex()}-{number}"
        return Signal(
            id=f"evt-{self._salt.hex()}-{self._feedback}",
            producer="shop",
            kind="business",
            name="thumbs",
            target=self._target,
            time_us=now_us,
            value=(self._feedback % 2001 - 1000) / 1000,
            request_id=self.request_id(number) if dice < 0.7 else None,
            external_id=f"order-{known_by}" if 0.7 <= dice < self._of_session else None,
            session_id=f"session-{known_by}" if dice >= self._of_session else None,
            definition=1,
        )

    def _second(self, now_us: int) -> Second:
        begin_us, self._second_us = max(self._second_us, now_us - 2 * MICROS), now_us
        return Second(
            seq=self._next(),
            stamp=self._stamp,
            from_us=begin_us,
            to_us=now_us,
            intents={"live": _LOAD, "batch": _LOAD},
            kv_blocks_used=400,
            kv_blocks_total=1_000,
            steps=StepMoments(n=40, b=800, f=4_000, t=MICROS, bb=16_000, bt=20 * MICROS),
            knobs={"active_cap": 32, "step_token_budget": 256},
            prefix_lookups=9_000,
            prefix_hits=3_000,
        )

    def _next(self) -> int:
        self._seq += 1
        return self._seq - 1


def basic(record: Record) -> Signal:
    """A record as it travels on the bus."""
    return Signal(
        id=record_id(record),
        producer="engine",
        kind="basic",
        name=record_name(record),
        target=record.stamp.target,
        time_us=event_time_us(record),
        data=record,
    )


def posted(event: Record | Signal) -> bytes:
    """One line of a post."""
    if isinstance(event, Signal):
        named = {
            name: value
            for name in ("request_id", "external_id", "session_id")
            if (value := getattr(event, name)) is not None
        }
        return _post.encode(
            {
                "id": event.id,
                "kind": event.kind,
                "name": event.name,
                "time": rfc3339(event.time_us),
                "value": event.value,
                "target": event.target,
                **named,
            }
        )
    return _post.encode(
        {"id": record_id(event), "kind": "basic", "name": record_name(event), "data": event}
    )
