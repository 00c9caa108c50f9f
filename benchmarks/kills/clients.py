"""Clients as they should be: post again, with the same ids, until there is an answer.

One engine per target tells of requests; shops tell what users did. A shop sometimes gives up on a
post it had no answer to (its events are *unknown*), posts what was acknowledged again, or posts an
acknowledged id with another value.
"""

from __future__ import annotations

import http.client
import threading
import time
from abc import abstractmethod
from random import Random
from typing import Any, Final

import msgspec

from benchmarks.ingest.bodies import rfc3339
from benchmarks.kills.tally import COUNT, FLOAT, Feedback, Tally
from signals.events import (
    MICROS,
    Arrived,
    Finished,
    IntentLoad,
    Record,
    Second,
    SeenStamp,
    StepMoments,
)
from signals.ids import RANDOM_BYTES, uuid7
from signals.records import record_id, record_name

TIMEOUT_S: Final = 20.0
AGAIN_S: Final = 0.02
PAUSE_S: Final = 0.03
GIVES_UP: Final = 0.1
REPEATS: Final = 0.05
CONFLICTS: Final = 0.03
ANSWER_US: Final = 150_000
AHEAD_US: Final = 32 * MICROS
"""More than ``features.lateness_s``: feedback about sessions is bound by then."""
_HEADERS: Final = {"Content-Type": "application/x-ndjson"}


class Client(threading.Thread):
    """One poster. ``fault`` says why it ended before it was told to."""

    def __init__(self, name: str, port: int, key: str) -> None:
        super().__init__(name=name, daemon=True)
        self._port = port
        self._headers = {**_HEADERS, "Authorization": f"Bearer {key}"}
        self._connection: http.client.HTTPConnection | None = None
        self._ending = threading.Event()
        self._giving_up = threading.Event()
        self.fault: str | None = None
        self.tries = 0

    def end(self) -> None:
        """Post what is in hand to its end, and no more."""
        self._ending.set()

    def abort(self) -> None:
        """Do not wait for answers any more."""
        self._ending.set()
        self._giving_up.set()

    def run(self) -> None:
        """Turns, until told to end."""
        while not self._ending.is_set() and self.fault is None:
            self.turn()
            time.sleep(PAUSE_S)
        if self.fault is None:
            self.last()
        self._close()

    @abstractmethod
    def turn(self) -> None:
        """Make something and post it."""

    def last(self) -> None:
        """What is still to be said at the end."""

    def post(self, lines: list[bytes], *, tries: int | None = None) -> bool:
        """Until it is acknowledged: True. After so many tries without an answer: False."""
        body, tried = b"\n".join(lines), 0
        while not self._giving_up.is_set():
            tried += 1
            self.tries += 1
            status, answer = self._once(body)
            if status == 202:
                told = msgspec.json.decode(answer)
                if told["refused"] or told["accepted"] != len(lines):
                    self.fault = f"{self.name}: not all was taken: {answer[:500]!r}"
                return self.fault is None
            if status not in (0, 503):
                self.fault = f"{self.name}: {status} {answer[:500]!r}"
                return False
            if tries is not None and tried >= tries:
                return False
            time.sleep(AGAIN_S)
        return False

    def _once(self, body: bytes) -> tuple[int, bytes]:
        """Status and answer; status 0 when the connection broke first."""
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(
                    "127.0.0.1", self._port, timeout=TIMEOUT_S
                )
            self._connection.request("POST", "/v1/signals", body, self._headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self._close()
            return 0, b""

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Engine(Client):
    """One replica of one target. It never gives up, so its sequence has no gaps."""

    def __init__(self, target: str, port: int, key: str, tally: Tally, rng: Random) -> None:
        super().__init__(f"engine of {target}", port, key)
        self.target = target
        self._tally = tally
        self._rng = rng
        self._salt = rng.randbytes(4)
        self._stamp = SeenStamp(
            target=target,
            replica="r0",
            incarnation=f"{rng.getrandbits(48):012x}",
            version=1,
            digest="d0",
        )
        self._seq = 0
        self._made = 0
        self.final_us = 0

    def turn(self) -> None:
        """Some requests arrive and end."""
        now_us = time.time_ns() // 1000
        records: list[Record] = []
        ended = []
        for _ in range(self._rng.randint(1, 6)):
            number, self._made = self._made, self._made + 1
            request_id = self._request_id(number, now_us)
            records += self._request(number, request_id, now_us)
            ended.append((request_id, number))
        if self.post([line(record) for record in records]):
            self._tally.ended(self.target, ended, len(records))

    def last(self) -> None:
        """A second ahead of all feedback's lateness: whoever has it has all that came before."""
        final_us = time.time_ns() // 1000 + AHEAD_US
        second = Second(
            seq=self._next(),
            stamp=self._stamp,
            from_us=final_us - MICROS,
            to_us=final_us,
            intents={"live": IntentLoad()},
            kv_blocks_used=0,
            kv_blocks_total=100,
            steps=StepMoments(),
            knobs={},
        )
        if self.post([line(second)]):
            self._tally.ended(self.target, [], 1)
            self.final_us = final_us

    def _request(self, number: int, request_id: str, now_us: int) -> list[Record]:
        known: dict[str, Any] = {
            "stamp": self._stamp,
            "request_id": request_id,
            "intent": "live",
            "class_": "interactive",
            "arrival_us": now_us - ANSWER_US,
            "prompt_tokens": 10,
            "max_tokens": 20,
            "external_id": external_id(self.target, number),
            "session_id": session_id(self.target, number),
        }
        arrived = Arrived(seq=self._next(), **known)
        finished = Finished(
            seq=self._next(),
            finished_us=now_us,
            status="ok",
            output_tokens=10,
            ttft_us=50_000,
            tpot_us=10_000,
            **known,
        )
        return [arrived, finished]

    def _request_id(self, number: int, now_us: int) -> str:
        random = self._salt + number.to_bytes(RANDOM_BYTES - len(self._salt), "big")
        return f"{self.target}.{uuid7(now_us, random)}"

    def _next(self) -> int:
        self._seq += 1
        return self._seq - 1


class Shop(Client):
    """Users of one business system: counts about any request, one float about each at most."""

    def __init__(
        self, targets: list[str], name: str, key: str, port: int, tally: Tally, rng: Random
    ) -> None:
        super().__init__(name, port, key)
        self._targets = targets
        self._tally = tally
        self._rng = rng
        self._rated: dict[str, int] = dict.fromkeys(targets, 0)
        self._made = 0
        self._past: list[tuple[list[Feedback], list[bytes]]] = []

    def turn(self) -> None:
        """Something new, or something old again."""
        dice = self._rng.random()
        if self._past and dice < REPEATS:
            self.post(self._rng.choice(self._past)[1])
        elif self._past and dice < REPEATS + CONFLICTS:
            self._contradict(*self._rng.choice(self._past))
        else:
            self._new()

    def _new(self) -> None:
        target = self._rng.choice(self._targets)
        known = self._tally.known(target)
        if not known:
            return
        events, lines = [], []
        for _ in range(self._rng.randint(1, 8)):
            event, how = self._event(target, known)
            events.append(event)
            lines.append(_line(event, how))
        tries = 1 if self._rng.random() < GIVES_UP else None
        if self.post(lines, tries=tries):
            self._tally.posted(events, "acknowledged")
            self._past.append((events, lines))
        else:
            self._tally.posted(events, "unknown")

    def _event(self, target: str, known: list[tuple[str, int]]) -> tuple[Feedback, dict[str, str]]:
        self._made += 1
        rated = self._rated[target]
        if rated < len(known) and self._rng.random() < 0.5:
            metric, (request_id, number) = FLOAT, known[rated]
            micros = self._rng.randint(-MICROS, MICROS)
            self._rated[target] = rated + 1
        else:
            metric, (request_id, number) = COUNT, self._rng.choice(known)
            micros = self._rng.randint(1, 1000) * MICROS
        event = Feedback(
            id=f"{self.name}-{self._made}",
            producer=self.name,
            metric=metric,
            target=target,
            request_id=request_id,
            micros=micros,
        )
        how = self._rng.choice(
            [
                {"request_id": request_id},
                {"request_id": request_id},
                {"external_id": external_id(target, number)},
                {"session_id": session_id(target, number)},
            ]
        )
        return event, how

    def _contradict(self, events: list[Feedback], lines: list[bytes]) -> None:
        """The first event of an acknowledged post, with another value."""
        posted = msgspec.json.decode(lines[0])
        posted["value"] = 0 if posted["value"] else 1
        if self.post([msgspec.json.encode(posted)]):
            self._tally.conflicting(events[0].id)


def external_id(target: str, number: int) -> str:
    """As the caller of the engine knows its request."""
    return f"order-{target}-{number}"


def session_id(target: str, number: int) -> str:
    """A session of that one request."""
    return f"session-{target}-{number}"


def line(record: Record) -> bytes:
    """A record as the engine posts it."""
    return msgspec.json.encode(
        {"id": record_id(record), "kind": "basic", "name": record_name(record), "data": record}
    )


def _line(event: Feedback, how: dict[str, str]) -> bytes:
    value = event.micros // MICROS if event.metric == COUNT else event.value
    return msgspec.json.encode(
        {
            "id": event.id,
            "kind": "business",
            "name": event.metric,
            "time": rfc3339(time.time_ns() // 1000),
            "value": value,
            "target": event.target,
            **how,
        }
    )
