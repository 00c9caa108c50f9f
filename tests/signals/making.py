"""Records, signals and bus entries for the tests of this room, with sensible defaults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from signals.bus.port import Entry
from signals.codec import encode
from signals.definitions import StaticDefinitions
from signals.events import (
    MICROS,
    Arrived,
    CurvePoint,
    Finished,
    IntentLoad,
    KvLayout,
    Record,
    Second,
    SeenStamp,
    SeenTrial,
    Signal,
    Started,
    Status,
    StepMoments,
)
from signals.features.change import FeatureRules
from signals.features.stage import FeatureStage
from signals.features.store import FeatureStore
from signals.ids import uuid7
from signals.records import event_time_us, record_id, record_name
from signals.settings import FeatureSettings, IntentSettings, MetricSettings, Slo

T0_US = 1_790_000_000 * MICROS
"""A whole number of minutes since the epoch is 20 s before it; a whole atom starts at it."""

INTENTS = {
    "chat": {
        "live": IntentSettings(slo=Slo(ttft_ms=1000, tpot_ms=50)),
        "batch": IntentSettings.model_validate({"class": "batch", "slo": {"e2e_ms": 5000}}),
    }
}
METRICS = {
    "copied": MetricSettings(),
    "resent": MetricSettings(direction="down"),
    "stars": MetricSettings(type="float", low=0, high=5, attribution_s=3600),
    "pastes": MetricSettings(type="count", low=0, high=1000),
    "reward": MetricSettings(layer="semantic", type="float", low=-10, high=10),
}


def rules(**settings: float) -> FeatureRules:
    return FeatureRules(
        intents=INTENTS,
        definitions=StaticDefinitions(METRICS),
        settings=FeatureSettings.model_validate(settings),
    )


def request_id(number: int, target: str = "chat") -> str:
    return f"{target}.{uuid7(T0_US, number.to_bytes(8, 'big'))}"


def stamp(
    *,
    replica: str = "r0",
    incarnation: str = "i0",
    digest: str = "d0",
    trial: SeenTrial | None = None,
    target: str = "chat",
    policies: tuple[str, ...] = (),
) -> SeenStamp:
    return SeenStamp(
        target=target,
        replica=replica,
        incarnation=incarnation,
        version=1,
        digest=digest,
        trial=trial,
        policies=policies,
    )


def arrived(
    seq: int,
    number: int,
    at_us: int,
    *,
    by: SeenStamp | None = None,
    intent: str = "live",
    max_tokens: int = 21,
    external_id: str | None = None,
    session_id: str | None = None,
) -> Arrived:
    return Arrived(
        seq=seq,
        stamp=by or stamp(),
        request_id=request_id(number),
        intent=intent,
        class_="interactive",
        arrival_us=at_us,
        prompt_tokens=10,
        max_tokens=max_tokens,
        external_id=external_id,
        session_id=session_id,
    )


def finished(
    seq: int,
    number: int,
    arrival_us: int,
    at_us: int,
    *,
    by: SeenStamp | None = None,
    intent: str = "live",
    status: Status = "ok",
    ttft_us: int | None = 200_000,
    tpot_us: int | None = 20_000,
    max_tokens: int = 21,
    external_id: str | None = None,
    session_id: str | None = None,
) -> Finished:
    return Finished(
        seq=seq,
        stamp=by or stamp(),
        request_id=request_id(number),
        intent=intent,
        class_="interactive",
        arrival_us=arrival_us,
        finished_us=at_us,
        status=status,
        prompt_tokens=10,
        output_tokens=5,
        max_tokens=max_tokens,
        ttft_us=ttft_us,
        tpot_us=tpot_us,
        external_id=external_id,
        session_id=session_id,
    )


def second(seq: int, to_us: int, *, by: SeenStamp | None = None, **loads: IntentLoad) -> Second:
    return Second(
        seq=seq,
        stamp=by or stamp(),
        from_us=to_us - MICROS,
        to_us=to_us,
        intents=loads,
        kv_blocks_used=10,
        kv_blocks_total=100,
        steps=StepMoments(n=1, b=2, t=3),
        knobs={"active_cap": 8},
        prefix_lookups=40,
        prefix_hits=10,
    )


KV = KvLayout(layers=30, kv_heads=3, head_dim=64, value_bits=16, block_tokens=16, blocks=100)


def started(seq: int, at_us: int, *, by: SeenStamp | None = None) -> Started:
    return Started(
        seq=seq,
        stamp=by or stamp(),
        at_us=at_us,
        fingerprint="cpu",
        curve=(CurvePoint(decode=1, prefill=0, step_us=20_000),),
        kv=KV,
    )


def basic(record: Record) -> Signal:
    return Signal(
        id=record_id(record),
        producer="engine",
        kind="basic",
        name=record_name(record),
        target=record.stamp.target,
        time_us=event_time_us(record),
        data=record,
    )


def feedback(
    id_: str,
    at_us: int,
    *,
    number: int | None = None,
    external_id: str | None = None,
    session_id: str | None = None,
    name: str = "copied",
    value: float = 1.0,
    producer: str = "shop",
    definition: int | None = None,
) -> Signal:
    return Signal(
        id=id_,
        producer=producer,
        kind="business",
        name=name,
        target="chat",
        time_us=at_us,
        value=value,
        request_id=request_id(number) if number is not None else None,
        external_id=external_id,
        session_id=session_id,
        definition=definition,
    )


def score(
    id_: str,
    at_us: int,
    *,
    number: int,
    value: float,
    model: str = "m1",
    name: str = "reward",
    producer: str = "score",
) -> Signal:
    return Signal(
        id=id_,
        producer=producer,
        kind="semantic",
        name=name,
        target="chat",
        time_us=at_us,
        value=value,
        request_id=request_id(number),
        model=model,
    )


def entries(signals: Iterable[Signal | Record], *, first: int = 1) -> list[Entry]:
    found = []
    for offset, each in enumerate(signals, first):
        signal = each if isinstance(each, Signal) else basic(each)
        found.append(
            Entry(
                offset=offset,
                key=signal.target,
                body=encode(signal),
                producer=signal.producer,
                accepted_us=signal.time_us,
            )
        )
    return found


class Folding:
    """A stage on a real file that is fed by hand."""

    def __init__(self, path: Path, **settings: float) -> None:
        self.path = path
        self._rules = rules(**settings)
        self.store = FeatureStore(path)
        self._next = self.store.position.bus_offset + 1

    def take(self, *signals: Signal | Record) -> None:
        """One batch."""
        batch = entries(signals, first=self._next)
        self._next += len(batch)
        FeatureStage(self.store, self._rules).advance(batch)

    def take_all(self, signals: Sequence[Signal | Record], sizes: Random) -> None:
        """Many batches of random sizes."""
        start = 0
        while start < len(signals):
            stop = start + sizes.randint(1, 40)
            self.take(*signals[start:stop])
            start = stop

    def prune(self) -> bool:
        return self.store.prune(self._rules.settings)

    def close(self) -> None:
        self.store.close()
