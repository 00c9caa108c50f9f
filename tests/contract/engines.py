"""Engines that the runtime-config contract is held against.

To add one: a function that yields an ``EngineUnderTest`` for a started engine, and a line in
``tests/contract/conftest.py``. The engine has at least the knob ``active_cap`` with the
capability ``drain`` and a capacity of 4 or more, and a knob that is ``per_request``:
``answer_tokens``, of which each intent may have its own. It knows the classes ``interactive`` and
``batch``, and stands in its boot settings.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from benchmarks.stopping.bare_engine import Seat, bare_engines
from engine.http.listeners import bind
from engine.settings_in_force import EngineIdentity
from engine.simulated import offered
from engine.simulated.paced import PacedEngine, Stay
from engine.simulated.serving import served
from engine.simulated.spec import ReplicaSpec
from engine.simulated.step_times import StepTimes
from policies.runtime_config import CONTROL_PATH
from tests.engine_process import CONTROL_KEY, PLAIN, SERVING_KEY, RunningEngine


class Answer(Struct, frozen=True, kw_only=True):
    """What came of one offered request."""

    text: str
    tokens: int
    finish: str
    stamp: dict[str, Any]


class Offered:
    """Requests under way, each on a thread."""

    def __init__(self, asks: list[Callable[[], Answer]]) -> None:
        self._answers: list[Answer | None] = [None] * len(asks)
        self._threads = [
            threading.Thread(target=self._ask, args=(index, ask)) for index, ask in enumerate(asks)
        ]
        for thread in self._threads:
            thread.start()

    def answers(self) -> list[Answer]:
        """Every answer, in the order asked; fails when one is missing."""
        for thread in self._threads:
            thread.join(120)
        found = [answer for answer in self._answers if answer is not None]
        assert len(found) == len(self._threads), "an offered request was lost"
        return found

    def _ask(self, index: int, ask: Callable[[], Answer]) -> None:
        self._answers[index] = ask()


class EngineUnderTest(Struct, frozen=True, kw_only=True):
    """A started engine. ``foreign_keys`` open other doors of it, never this one.

    ``offer(count, tokens, class_)`` sends so many requests of exactly ``tokens`` output tokens,
    the same ones every time; ``running()`` is the number of sequences running now.
    ``chat(session, intent, tokens)`` asks for so many tokens in a session, and waits.
    """

    name: str
    control_url: str
    key: str
    foreign_keys: tuple[str, ...]
    offer: Callable[[int, int, str], Offered]
    running: Callable[[], int]
    chat: Callable[[str, str, int], Answer]

    def client(self) -> httpx.Client:
        """A connection with the control key."""
        return httpx.Client(
            base_url=self.control_url,
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=10,
            verify=False,
        )

    @property
    def settings_url(self) -> str:
        """Where the contract is served."""
        return f"{self.control_url}{CONTROL_PATH}"


def embedded(engine: RunningEngine) -> Iterator[EngineUnderTest]:
    """The product's own engine, as a process."""

    def ask(number: int, tokens: int, class_: str, **marks: str) -> Answer:
        answer = PLAIN.post(
            f"{engine.url}/v1/chat/completions",
            headers={"Authorization": f"Bearer {SERVING_KEY}", "X-Trimtab-Class": class_}
            | {f"X-Trimtab-{name}": value for name, value in marks.items()},
            json={
                "model": engine.model,
                "messages": [
                    {"role": "user", "content": f"Tell me a long story, number {number}."}
                ],
                "max_tokens": tokens,
                "seed": number,
            },
        )
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return Answer(
            text=body["choices"][0]["message"]["content"],
            tokens=body["usage"]["completion_tokens"],
            finish=body["choices"][0]["finish_reason"],
            stamp=json.loads(answer.headers["X-Trimtab-Stamp"]),
        )

    def offer(count: int, tokens: int, class_: str) -> Offered:
        return Offered([partial(ask, number, tokens, class_) for number in range(count)])

    yield EngineUnderTest(
        name="embedded",
        control_url=engine.control_url,
        key=CONTROL_KEY,
        foreign_keys=(SERVING_KEY,),
        offer=offer,
        running=lambda: int(engine.figure("vllm:num_requests_running")),
        chat=lambda session, intent, tokens: ask(
            1, tokens, "interactive", Session=session, Intent=intent
        ),
    )


def bare(folder: Path) -> Iterator[EngineUnderTest]:
    """An engine without a model, of which a fleet fits into one process."""
    with bare_engines("chat", 1, CONTROL_KEY) as ((engine, url),):

        def ask(seat: Seat) -> Answer:
            assert seat.done.wait(60), "a seat was never given back"
            text = " ".join(map(str, range(seat.tokens)))
            stamp = json.loads(msgspec.json.encode(seat.stamp))
            return Answer(text=text, tokens=seat.tokens, finish="length", stamp=stamp)

        def offer(count: int, tokens: int, class_: str) -> Offered:
            seats = [engine.offer(class_, tokens) for _ in range(count)]
            return Offered([partial(ask, seat) for seat in seats])

        yield EngineUnderTest(
            name="bare",
            control_url=url,
            key=CONTROL_KEY,
            foreign_keys=(SERVING_KEY,),
            offer=offer,
            running=lambda: engine.running,
            chat=lambda session, intent, tokens: ask(engine.offer(intent, tokens, session)),
        )
    assert not list(folder.iterdir()), "it leaves nothing behind"


def simulated(folder: Path) -> Iterator[EngineUnderTest]:
    """The engine of arithmetic, each step taking its time."""
    times = StepTimes(base_us=8_000, per_decode_us=100, per_prefill_us=10)
    identity = EngineIdentity(target="chat", replica="r0", incarnation="simulated")
    spec = ReplicaSpec(step_times=times, capacity_answer=1024, intents=("interactive", "batch"))
    engine = PacedEngine(identity, spec)

    def ask(stay: Stay) -> Answer:
        assert stay.done.wait(60), "a request never ended"
        text = " ".join(map(str, range(stay.visit.emitted)))
        stamp = json.loads(msgspec.json.encode(stay.visit.stamp))
        return Answer(text=text, tokens=stay.visit.emitted, finish="length", stamp=stamp)

    def one(tokens: int, class_: str, session: str | None = None) -> offered.Offered:
        return offered.Offered(
            arrival_s=0.0,
            intent=class_,
            class_="batch" if class_ == "batch" else "interactive",
            prompt_tokens=10,
            output_tokens=tokens,
            session=session,
        )

    def offer(count: int, tokens: int, class_: str) -> Offered:
        stays = [engine.offer(one(tokens, class_)) for _ in range(count)]
        return Offered([partial(ask, stay) for stay in stays])

    door = bind("127.0.0.1", 0)
    with served(engine, door, key=CONTROL_KEY, apply_timeout_s=5.0) as url:
        yield EngineUnderTest(
            name="simulated",
            control_url=url,
            key=CONTROL_KEY,
            foreign_keys=(SERVING_KEY,),
            offer=offer,
            running=lambda: engine.running,
            chat=lambda session, intent, tokens: ask(engine.offer(one(tokens, intent, session))),
        )
    assert not list(folder.iterdir()), "it leaves nothing behind"
