"""Tables of events that ingest refuses, class by class: what is wrong, in which field, in words.

``JUDGED`` are JSON documents, refused alone among valid ones in an array as in lines; ``LINES`` are
no JSON at all, so they can only stand in lines; ``CLOUD`` are CloudEvents.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from signals.events import MICROS, CurvePoint, IntentLoad, Record, StepMoments
from tests.signals import making
from tests.signals.making import KV, T0_US, request_id
from tests.signals.posted_events import (
    ATOM_US,
    ID,
    NOW,
    START_US,
    about,
    cloud,
    command,
    counted,
    counts,
    event,
    named,
    posted,
    score,
    with_moments,
)

LONG = "x" * 201


class Bad(NamedTuple):
    """One event that is refused: its JSON, the field that is named, and words of the reason."""

    event: Any
    field: str | None
    words: str
    denied: bool = False


def _replaced(record: Record, **changes: Any) -> dict[str, Any]:
    return posted(msgspec.structs.replace(record, **changes))


FINISHED = making.finished(3, 1, T0_US - 9, T0_US)
SECOND = making.second(4, T0_US)
HUGE = 2**53 + 1
MANY_LOADS = {f"i{number}": IntentLoad() for number in range(65)}
LOST = IntentLoad(arrivals=-1)
STARTED = making.started(5, T0_US)
POINT = CurvePoint(decode=1, prefill=0, step_us=20_000)
BACKWARDS = CurvePoint(decode=1, prefill=0, step_us=-1)
NO_BLOCKS = msgspec.structs.replace(KV, blocks=0)
TOO_DEEP = msgspec.structs.replace(KV, layers=2**40)
SWARMED = msgspec.structs.replace(making.stamp(), policies=("p",) * 65)
TWICE = msgspec.msgpack.encode([100, 1, 100, 1])
FALLING = msgspec.msgpack.encode([200, 1, 100, 1])
SKETCHES = (
    (msgspec.msgpack.encode([1, 1, 1]), "not a sketch"),
    (msgspec.msgpack.encode(["a", "b"]), "not a sketch"),
    (b"\xc1", "not a sketch"),
    (b"\xdd\xff\xff\xff\xff", "not a sketch"),
    (b"\x00" * 30_000, "too large"),
    (TWICE, "one encoding"),
    (FALLING, "one encoding"),
    (msgspec.msgpack.encode([9000, 2]), "no such bins"),
    (msgspec.msgpack.encode([100, 3, 101, -1]), "no such bins"),
    (msgspec.msgpack.encode([100, 3]), "another number of values"),
)

JUDGED: Mapping[str, tuple[Bad, ...]] = {
    "another JSON type": (
        Bad(3, None, "Expected `object`"),
        Bad("event", None, "Expected `object`"),
        Bad(None, None, "Expected `object`"),
        Bad([event()], None, "Expected `object`"),
        Bad(event(id=7), "id", "Expected `str`"),
        Bad(event(request_id=["x"]), "request_id", "Expected `str"),
        Bad(event(value={"v": 1}), "value", "Expected"),
    ),
    "missing and unknown members": (
        Bad({}, "id", "missing required"),
        Bad(event(id=None), "id", "missing required"),
        Bad(event(kind=None), "kind", "missing required"),
        Bad(event(name=None), "name", "missing required"),
        Bad(event(user="u1"), "user", "unknown field"),
        Bad(event(**{"x" * 5000: 1}), "x" * 200, "unknown field"),
    ),
    "ids": (
        Bad(event(id=""), "id", "not usable"),
        Bad(event(id="a b"), "id", "not usable"),
        Bad(event(id="é"), "id", "not usable"),
        Bad(event(id="a\x00b"), "id", "not usable"),
        Bad(event(id="a\n"), "id", "not usable"),
        Bad(event(id=LONG), "id", "not usable"),
    ),
    "kinds and metrics": (
        Bad(event(kind="vital"), "kind", "Invalid enum value"),
        Bad(event(kind="Business"), "kind", "Invalid enum value"),
        Bad(event(kind="semantic", model="m"), "kind", "is a business metric"),
        Bad(score(kind="business", model=None), "kind", "is a semantic metric"),
        Bad(score(request_id=None, external_id="e", target="chat"), "request_id", "its request"),
        Bad(score(request_id=None, session_id="s", target="chat"), "request_id", "its request"),
        Bad(event(name="copies"), "name", "not declared"),
        Bad(event(name=""), "name", "not declared"),
        Bad(event(name="n" * 5000), "name", "not declared"),
    ),
    "times": (
        Bad(event(time=None), "time", "required"),
        Bad(event(time="yesterday"), "time", "Invalid RFC3339"),
        Bad(event(time="2026-13-41T25:61:61Z"), "time", "Invalid RFC3339"),
        Bad(event(time="2026-09-21T13:33:20"), "time", "offset"),
        Bad(event(time=1_790_000_000), "time", "Expected"),
        Bad(event(time="0001-01-01T00:00:00+23:59"), "time", "not within"),
        Bad(event(time="9999-12-31T23:59:59.999999-23:59"), "time", "not within"),
        Bad(event(time=(NOW - timedelta(days=8, seconds=1)).isoformat()), "time", "not within"),
        Bad(event(time=(NOW + timedelta(seconds=301)).isoformat()), "time", "not within"),
    ),
    "values": (
        Bad(event(value=None), "value", "required"),
        Bad(event(value="yes"), "value", "Expected"),
        Bad(event(value=0.5), "value", "not a boolean"),
        Bad(event(value=2), "value", "not a boolean"),
        Bad(event(value=10**40), "value", "not a boolean"),
        Bad(event(name="stars", value=True), "value", "not a float"),
        Bad(event(name="stars", value=5.0000001), "value", "bounds"),
        Bad(event(name="stars", value=-1e308), "value", "bounds"),
        Bad(event(name="stars", value=10**300), "value", "bounds"),
        Bad(event(name="edits", value=1.5), "value", "not a count"),
        Bad(event(name="edits", value=-1), "value", "not a count"),
        Bad(event(name="edits", value=1e300), "value", "bounds"),
        Bad(event(name="dwell", value=-0.1), "value", "not a duration"),
        Bad(event(name="dwell", value=True), "value", "not a duration"),
    ),
    "which request": (
        Bad(event(request_id=None), "request_id", "exactly one"),
        Bad(event(external_id="x1"), "request_id", "exactly one"),
        Bad(event(session_id="s1"), "request_id", "exactly one"),
        Bad(about(external_id="x1", session_id="s1"), "request_id", "exactly one"),
        Bad(event(request_id="chat.7"), "request_id", "not a request id"),
        Bad(event(request_id=ID + "\n"), "request_id", "not a request id"),
        Bad(event(request_id=ID.upper()), "request_id", "not a request id"),
        Bad(event(request_id=ID.replace("-7", "-4", 1)), "request_id", "not a request id"),
        Bad(about(external_id="x 1"), "external_id", "not usable"),
        Bad(about(session_id=""), "session_id", "not usable"),
        Bad(about(session_id=LONG), "session_id", "not usable"),
    ),
    "targets": (
        Bad(event(request_id=request_id(1, "other")), "target", "no such target"),
        Bad(event(target="code"), "target", "names another target"),
        Bad(about(external_id="x1", target="nope"), "target", "no such target"),
        Bad(about(external_id="x1", target=""), "target", "no such target"),
        Bad(about(external_id="x1", target=None), "target", "more than one"),
    ),
    "models of scores": (
        Bad(score(model=None), "model", "names the version"),
        Bad(score(model=""), "model", "not usable"),
        Bad(score(model="m 1"), "model", "not usable"),
        Bad(score(model=LONG), "model", "not usable"),
        Bad(event(model="m1"), "model", "only scores"),
        Bad(score(value=11), "value", "bounds"),
    ),
    "members of another kind": (
        Bad(event(data=msgspec.to_builtins(SECOND)), "data", "only basic"),
        Bad(event(command={"command": "replay", "actor": "a"}), "command", "only commands"),
        Bad(posted(FINISHED, value=1), "value", "nothing beside it"),
        Bad(posted(FINISHED, request_id=ID), "request_id", "nothing beside it"),
        Bad(posted(FINISHED, model="m"), "model", "nothing beside it"),
        Bad(command() | {"value": 1}, "value", "nothing but a command"),
        Bad(command() | {"data": msgspec.to_builtins(SECOND)}, "data", "nothing but a command"),
    ),
    "commands": (
        Bad(command() | {"command": None}, "command", "required"),
        Bad(command() | {"name": "discard"}, "name", "the command says"),
        Bad(command() | {"target": None}, "target", "names its target"),
        Bad(command() | {"target": "nope"}, "target", "no such target"),
        Bad(command() | {"time": None}, "time", "required"),
        Bad(command(command="burn"), "command.command", "Invalid value"),
        Bad(command(command="erase"), "command.by", "missing required"),
        Bad(command(offsets=[]), "command.offsets", "0 offsets"),
        Bad(command(offsets=[1] * 1001), "command.offsets", "1001 offsets"),
        Bad(command(offsets=[0]), "command.offsets", "no offset"),
        Bad(command(offsets=[2**63]), "command.offsets", "no offset"),
        Bad(command(actor=" "), "command.actor", "not usable"),
        Bad(command("discard", where={"limit": 0}), "command.where.limit", "no limit"),
        Bad(command("discard", where={"after": -1}), "command.where.after", "no offset"),
        Bad(command("discard", where={"producer": LONG}), "command.where.producer", "not usable"),
        Bad(command("quarantine", name=""), "command.name", "not usable"),
        Bad(command("quarantine", reason="a\x1b[2J"), "command.reason", "not usable"),
        Bad(command("quarantine", on=None), "command.on", "missing required"),
    ),
    "records that disagree": (
        Bad(posted(FINISHED, data=None), "data", "carries its record"),
        Bad(posted(FINISHED, id="r0.i0.4"), "id", "the record says"),
        Bad(posted(FINISHED, name="arrived"), "name", "the record says"),
        Bad(posted(FINISHED, target="code"), "target", "the record says"),
        Bad(posted(FINISHED) | {"data": {"record": "lost"}}, "data.record", "Invalid value"),
        Bad(posted(FINISHED) | {"data": {"record": "second"}}, "data.seq", "missing required"),
        Bad(_replaced(FINISHED, request_id=request_id(1, "x")), "data.request_id", "engine's"),
    ),
    "records out of bounds": (
        Bad(_replaced(FINISHED, finished_us=T0_US - 10), "data.finished_us", "before it arrived"),
        Bad(_replaced(FINISHED, arrival_us=T0_US - 9 * 86_400 * MICROS), "data.arrival_us", "not"),
        Bad(_replaced(FINISHED, output_tokens=-1), "data.output_tokens", "no count"),
        Bad(_replaced(FINISHED, max_tokens=2**31 + 1), "data.max_tokens", "too many tokens"),
        Bad(_replaced(FINISHED, ttft_us=HUGE), "data.ttft_us", "no count"),
        Bad(_replaced(FINISHED, external_id="a b"), "data.external_id", "not usable"),
        Bad(_replaced(FINISHED, intent=LONG), "data.intent", "no name"),
        Bad(_replaced(FINISHED, class_=LONG), "data.class", "no name"),
        Bad(_replaced(SECOND, from_us=T0_US + 1), "data.from_us", "not a span"),
        Bad(_replaced(SECOND, to_us=T0_US + 301 * MICROS), "data.to_us", "not within"),
        Bad(_replaced(SECOND, intents=MANY_LOADS), "data.intents", "65 of them"),
        Bad(_replaced(SECOND, intents={LONG: IntentLoad()}), "data.intents", "no name"),
        Bad(_replaced(SECOND, intents={"live": LOST}), "data.intents[...].arrivals", "no count"),
        Bad(_replaced(SECOND, steps=StepMoments(tt=2**63)), "data.steps.tt", "no sum"),
        Bad(_replaced(SECOND, knobs={LONG: 1}), "data.knobs", "no name"),
        Bad(_replaced(SECOND, knobs={"active_cap": -HUGE}), "data.knobs", "no value"),
        Bad(_replaced(SECOND, knobs=dict.fromkeys(MANY_LOADS, 1)), "data.knobs", "65 of them"),
        Bad(_replaced(STARTED, curve=(POINT,) * 1001), "data.curve", "1001 of them"),
        Bad(_replaced(STARTED, curve=(BACKWARDS,)), "data.curve[...].step_us", "no count"),
        Bad(
            _replaced(STARTED, kv=NO_BLOCKS),
            "data.kv.blocks",
            "no size",
        ),
        Bad(
            _replaced(STARTED, kv=TOO_DEEP),
            "data.kv.layers",
            "no size",
        ),
        Bad(_replaced(SECOND, stamp=SWARMED), "data.stamp.policies", "65 of them"),
        Bad(_replaced(SECOND, kv_blocks_used=-1), "data.kv_blocks_used", "no count"),
        Bad(_replaced(SECOND, stamp=making.stamp(digest=LONG)), "data.stamp.digest", "no name"),
    ),
    "windows counted at the edge": (
        Bad(posted(counted(start_us=START_US + 1)), "data.start_us", "whole 5 s"),
        Bad(posted(counted(start_us=START_US + 60 * ATOM_US * 2)), "data.start_us", "not within"),
        Bad(posted(counted(revision=0)), "data.revision", "no revision"),
        Bad(posted(counted(source="")), "data.source", "not usable"),
        Bad(posted(counted(intent=LONG)), "data.intent", "no name"),
        Bad(
            posted(counted(counts=counts(outcomes={"copied": {"shop": (1, 1)}}))),
            "data.counts.outcomes",
            "joined here",
        ),
        Bad(posted(counted(counts=counts(arrivals=-1))), "data.counts.arrivals", "no count"),
        Bad(posted(counted(counts=counts(requests=HUGE))), "data.counts.requests", "no count"),
        Bad(posted(counted(counts=counts(good=3))), "data.counts.good", "more good than judged"),
        Bad(posted(counted(counts=counts(prefix_hits=1))), "data.counts.prefix_hits", "more"),
        Bad(
            posted(counted(counts=counts(gauge_us=1))), "data.counts.gauge_us", "come with seconds"
        ),
        Bad(posted(counted(counts=counts(waiting=1))), "data.counts.waiting", "come with seconds"),
        Bad(posted(with_moments(count=-1)), "data.counts.ttft.count", "no count"),
        Bad(posted(with_moments(count=3)), "data.counts.ttft.sketch", "another number"),
        Bad(posted(with_moments(sum_sq=1)), "data.counts.ttft.sum_sq", "no values have"),
        Bad(posted(with_moments(sum_sq=2**62)), "data.counts.ttft.sum_sq", "no values have"),
        Bad(posted(with_moments(count=0, sum_sq=0)), "data.counts.ttft.sum_us", "nothing"),
        *(
            Bad(posted(with_moments(sketch=sketch_)), "data.counts.ttft.sketch", words)
            for sketch_, words in SKETCHES
        ),
        Bad(
            posted(with_moments()) | {"data": msgspec.to_builtins(counted()) | {"counts": 1}},
            "data.counts",
            "Expected `object`",
        ),
    ),
    "requests named by the edge": (
        Bad(posted(named(0)), "data.requests", "0 requests"),
        Bad(posted(named(1001)), "data.requests", "1001 requests"),
        Bad(posted(named(request_id="r1")), "data.requests[1].request_id", "engine's"),
        Bad(posted(named(arrival_us=0)), "data.requests[1].arrival_us", "not within"),
        Bad(posted(named(session_id="a b")), "data.requests[1].session_id", "not usable"),
        Bad(posted(named(intent=LONG)), "data.requests[1].intent", "no name"),
    ),
}

DEEP = b'{"id":"bad","kind":"basic","name":"x","data":{"record":"arrived","zz":' + b"[" * 100_000

LINES: Mapping[str, tuple[Bad, ...]] = {
    "lines that are no JSON": (
        Bad(b"{oops", None, "malformed"),
        Bad(b"{'id':'a'}", None, "malformed"),
        Bad(b'{"id":"a",}', None, "malformed"),
        Bad(b'{"id":"a"', None, "truncated"),
        Bad(b'{"id":NaN}', None, "malformed"),
        Bad(b"\xef\xbb\xbf{}", None, "malformed"),
        Bad(b"\x00\x01\x02", None, "malformed"),
        Bad(b'{"id":"a\xff"}', None, "UTF-8"),
        Bad(b'{"id":"a\x01b"}', None, "malformed"),
        Bad(b'{"id":"\\ud800"}', None, "truncated"),
        Bad(b'{"id":"a"} {"id":"b"}', "kind", "missing required"),
        Bad(b"{}{}", "id", "missing required"),
        Bad(b" ".join([msgspec.json.encode(event())] * 2), None, "malformed"),
        Bad(DEEP, None, "nested too deeply"),
        Bad(msgspec.json.encode(event())[:-1] + b',"value":' + b"9" * 5000 + b"}", "value", ""),
        Bad(msgspec.json.encode(event())[:-1] + b',"value":1e999}', "value", ""),
    ),
}

CLOUD: Mapping[str, tuple[Bad, ...]] = {
    "cloud events": (
        Bad(3, None, "Expected `object`"),
        Bad(cloud(specversion="0.3"), "specversion", "Invalid enum value"),
        Bad(cloud(source=None), "source", "missing required"),
        Bad(cloud(data=None), "data", "missing required"),
        Bad(cloud(time=None), "time", "required"),
        Bad(cloud(type="com.shop.copied"), "type", "is not trimtab"),
        Bad(cloud(type="trimtab.business."), "type", "is not trimtab"),
        Bad(cloud(type="trimtab.command.replay"), "type", "is not trimtab"),
        Bad(cloud(datacontenttype="text/xml"), "datacontenttype", "must be JSON"),
        Bad(cloud(data=7), None, "Expected `object`"),
        Bad(cloud(data={"value": True, "order": 7}), "order", "unknown field"),
        Bad(cloud(data={"value": True}), "request_id", "exactly one"),
        Bad(cloud(source="/a b"), "id", "not usable"),
        Bad(cloud(data={"value": 1, "request_id": ID, "model": "m"}), "model", "only scores"),
    ),
}
