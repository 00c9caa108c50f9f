"""Posts the ring's records to ingest, on a thread of its own, for as long as it takes.

A record leaves the ring when ingest has acknowledged it (after its fsync). While ingest is away the
same oldest records are offered again and again, further and further apart; the ring keeps the
latest, and the engine notices nothing. A post repeated after a lost answer is harmless: ingest's
readers know each record by its number.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import httpx
import msgspec
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_when_event_set,
    wait_exponential_jitter,
)
from tenacity.nap import sleep_using_event

from engine.telemetry.counting import Outgoing
from engine.telemetry.wire import ndjson
from signals.errors import Unavailable
from signals.events import Record

log = logging.getLogger(__name__)

SIGNALS_PATH = "/v1/signals"
TAKEN = 202
NEVER = (400, 413, 415, 422)
"""Statuses that the same bytes would get again: the batch is given up, and counted."""


class _Taken(msgspec.Struct, frozen=True):
    """The part of ingest's answer that matters here."""

    refused: tuple[msgspec.Raw, ...] = ()


class SignalPoster:
    """See the module. ``start`` once, ``close`` once."""

    def __init__(
        self,
        ring: Outgoing,
        *,
        url: str,
        key: str | None,
        batch: int,
        linger_s: float,
        timeout_s: float,
        backoff_max_s: float,
    ) -> None:
        self._ring = ring
        self._batch = batch
        self._linger_s = linger_s
        self._backoff_max_s = backoff_max_s
        self._stopping = threading.Event()
        self._abandoned = threading.Event()
        self.refused = 0
        headers = {"Content-Type": "application/x-ndjson"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._client = httpx.Client(
            base_url=url, headers=headers, timeout=timeout_s, trust_env=False
        )
        self._thread = threading.Thread(target=self._run, name="signal-poster", daemon=True)

    def start(self) -> None:
        """Begin to post."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it posts."""
        return self._thread.is_alive()

    def close(self, flush_s: float) -> bool:
        """Stop, after posting what the ring still holds if that takes ``flush_s`` at most.

        True when the ring was emptied.
        """
        self._stopping.set()
        self._thread.join(flush_s)
        self._abandoned.set()
        self._thread.join(1.0)
        self._client.close()
        return len(self._ring) == 0

    def _run(self) -> None:
        while not self._abandoned.is_set():
            stopping = self._stopping.is_set()
            if not self._post_oldest() and stopping:
                return
            self._stopping.wait(0.0 if len(self._ring) >= self._batch else self._linger_s)

    def _post_oldest(self) -> bool:
        """Post one batch until it is taken; False when there was nothing to post."""
        if not len(self._ring):
            return False
        retrying = Retrying(
            retry=retry_if_exception_type(Unavailable),
            wait=wait_exponential_jitter(multiplier=0.05, max=self._backoff_max_s, jitter=0.05),
            stop=stop_when_event_set(self._abandoned),
            sleep=sleep_using_event(self._abandoned),
            before_sleep=_say_once,
            reraise=True,
        )
        try:
            retrying(self._attempt)
        except Unavailable as away:
            log.warning("%d signals were not posted: %s", len(self._ring), away.detail)
        return True

    def _attempt(self) -> None:
        records = self._ring.take(self._batch)
        if not records:
            return
        try:
            refused = self._send(records)
        except Unavailable:
            self._ring.give_back()
            raise
        self._ring.done()
        self.refused += refused

    def _send(self, records: Sequence[Record]) -> int:
        """Post; how many were refused, which would be refused again. Raises ``Unavailable``."""
        try:
            answer = self._client.post(SIGNALS_PATH, content=ndjson(records))
        except httpx.HTTPError as failed:
            raise Unavailable(f"ingest: {type(failed).__name__}: {failed}") from failed
        if answer.status_code not in (TAKEN, *NEVER):
            raise Unavailable(f"ingest: {answer.status_code} {answer.text[:200]}")
        refused = len(records) if answer.status_code in NEVER else _refused(answer)
        if refused:
            log.error("ingest refused %d signals: %s", refused, answer.text[:500])
        return refused


def _refused(answer: httpx.Response) -> int:
    try:
        return len(msgspec.json.decode(answer.content, type=_Taken).refused)
    except msgspec.MsgspecError as foreign:
        raise Unavailable(f"not ingest's answer: {foreign}") from foreign


def _say_once(state: RetryCallState) -> None:
    """Log the first failure of a batch only: an outage is one line, not thousands."""
    if state.attempt_number == 1 and state.outcome is not None:
        log.warning("ingest is away, records wait in the ring: %s", state.outcome.exception())
