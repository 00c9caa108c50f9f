"""The hot route: one post from its headers to its answer, without a framework in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from signals.bus.port import Bus
from signals.codec import media_type
from signals.definitions import Definitions
from signals.errors import Denied, Rejected, Unavailable
from signals.ingest.answering import send_answer
from signals.ingest.appending import Appender
from signals.ingest.connections import SURPLUS
from signals.ingest.counters import IngestCounters
from signals.ingest.inflight import Inflight, Share
from signals.ingest.keys import KeyReader, Producer
from signals.ingest.problems import problem, rejected, unavailable
from signals.ingest.rates import Rates
from signals.ingest.reading import BESIDE_BYTES, expand_body, read_body
from signals.ingest.recent import RecentIds
from signals.ingest.sorting import Sorted, Sorting, sorted_at_once
from signals.pseudonyms import Pseudonyms
from signals.rules import Rules
from signals.settings import IngestSettings

Headers = Mapping[bytes, bytes]


class Posting:
    """An ASGI application for ``POST /v1/signals``; see ``signals.ingest.app``. One loop's."""

    def __init__(
        self,
        *,
        bus: Bus,
        keys: KeyReader,
        definitions: Definitions,
        targets: Collection[str],
        settings: IngestSettings,
        counters: IngestCounters,
        clock: Callable[[], int],
        pseudonyms: Pseudonyms | None,
    ) -> None:
        self._pseudonyms = pseudonyms
        self._appender = Appender(bus)
        self._max_event_bytes = bus.max_event_bytes
        self._keys = keys
        self._definitions = definitions
        self._targets = targets
        self._settings = settings
        self._counters = counters
        self._clock = clock
        self._inflight = Inflight(settings.max_inflight_bytes)
        self._rates = Rates()
        self._recent = RecentIds(settings.recent_ids)
        self._large = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Its bytes are in hand until the answer is sent."""
        with self._inflight.share() as share:
            try:
                if scope.get("state", {}).get(SURPLUS, False):
                    raise Unavailable(f"{self._settings.max_connections} connections are open")
                response = await self._answer(dict(scope["headers"]), receive, share)
            except Unavailable as error:
                self._counters.unavailable.inc()
                response = unavailable(error)
            except Rejected as error:
                self._counters.turned_away.labels(error.status).inc()
                response = rejected(error)
            await send_answer(response, scope, send, within_s=self._settings.body_timeout_s)

    async def _answer(self, headers: Headers, receive: Receive, share: Share) -> Response:
        producer = self._authenticate(headers)
        media = media_type(_text(headers, b"content-type"))
        self._keep_rate(producer)
        body = await read_body(receive, _text(headers, b"content-length"), share, self._settings)
        encoding = _text(headers, b"content-encoding")
        plain = await expand_body(body, encoding, share, self._settings)
        rules = Rules(
            producer=producer,
            definitions=self._definitions.current(),
            targets=self._targets,
            settings=self._settings,
            now_us=self._clock(),
            max_event_bytes=self._max_event_bytes,
            pseudonyms=self._pseudonyms,
        )
        return await self._take(await self._sort(plain, media, rules), rules, share)

    def _authenticate(self, headers: Headers) -> Producer:
        scheme, _, token = _text(headers, b"authorization").partition(" ")
        producer = self._keys.lookup(token.strip()) if scheme.lower() == "bearer" else None
        if producer is None:
            raise Denied("a producer's valid bearer key is required", authenticated=False)
        return producer

    def _keep_rate(self, producer: Producer) -> None:
        """Raises ``TooFast`` before the body is read when not even one event would pass."""
        rate_per_s = producer.rate_per_s
        if rate_per_s is not None:
            self._rates.check(producer.name, rate_per_s, events=1, now_us=self._clock())

    async def _sort(self, plain: bytes, media: str, rules: Rules) -> Sorted:
        """Judge the post. A large one lets small ones in between its slices, but no other large
        one: read, it is many times its size."""
        if len(plain) <= BESIDE_BYTES:
            return sorted_at_once(plain, media, rules)
        async with self._large:
            sorting = Sorting(plain, media, rules)
            for _ in sorting.pauses():
                await asyncio.sleep(0)
            return sorting.outcome

    async def _take(self, outcome: Sorted, rules: Rules, share: Share) -> Response:
        """Commit what is taken; the answer. Raises ``Unavailable`` or ``TooFast``."""
        refused = msgspec.json.encode(outcome.refused) if outcome.refused else b"[]"
        share.grow(outcome.read_bytes + len(refused))
        if outcome.refused:
            self._counters.count_refused(outcome.refused)
        if not outcome.messages:
            return _nothing_taken(outcome, refused)
        taken = len(outcome.messages)
        kinds, ids = outcome.kinds, outcome.ids
        await self._commit(outcome, rules)
        duplicates = self._recent.count_seen(rules.producer.name, ids)
        self._counters.count_accepted(kinds, duplicates)
        answer = b'{"accepted":%d,"duplicates":%d,"refused":%b}' % (taken, duplicates, refused)
        return Response(answer, 202, media_type="application/json")

    async def _commit(self, outcome: Sorted, rules: Rules) -> None:
        """Return when the events are durable."""
        producer, events = rules.producer, len(outcome.messages)
        if producer.rate_per_s is not None:
            self._rates.take(producer.name, producer.rate_per_s, events=events, now_us=rules.now_us)
        try:
            with self._counters.commit_s.time():
                await self._appender.append(outcome.messages)
        except (Unavailable, Rejected):
            self._rates.give_back(producer.name, events)
            raise


def _text(headers: Headers, name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")


def _nothing_taken(outcome: Sorted, refused: bytes) -> Response:
    only_denied = outcome.denied == len(outcome.refused)
    status = 403 if only_denied else 422
    return problem(
        status,
        {
            "type": "about:blank",
            "title": "Denied" if only_denied else "Rejected",
            "status": status,
            "detail": "every event was refused",
            "accepted": 0,
            "duplicates": 0,
            "refused": msgspec.Raw(refused),
        },
    )
