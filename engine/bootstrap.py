"""Puts one engine process together, runs it, and takes it apart. The only file that names parts.

::

    keys read, ports bound ─► engine built and calibrated ─► served until told to stop
                                                                        │
    accept no more ─► running answers end, or are cancelled ─► engine ─► last signals and traces
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TypedDict

from engine.embedded.build import Capacity, EmbeddedEngine, build
from engine.generation import CLASSES, Boundary
from engine.http.chat import ChatApi, chat_app
from engine.http.control import control_app
from engine.http.conversations import Conversations, Rooms
from engine.http.descriptors import affordable_connections
from engine.http.listeners import Doors, Listeners, url_of
from engine.http.mailbox import Mailbox
from engine.knobs import embedded_knobs
from engine.live_settings import LiveSettings, system_clock
from engine.run_settings import DEFAULT_INTENT, EngineRun, Keys
from engine.settings_in_force import EngineIdentity
from engine.stamps import seen
from engine.telemetry.figures import EngineFigures, Sources
from engine.telemetry.outlets import Outlets
from engine.telemetry.seconds import SecondsTelemetry
from signals.errors import Broken
from signals.events import MICROS, Started

log = logging.getLogger(__name__)

CUT_OFF_S = 3.0
"""After the grace: how long cancelled answers may take to tell their clients."""


class Ready(TypedDict):
    """What a started engine says of itself, on one line of standard output."""

    ready: str
    target: str
    replica: str
    incarnation: str
    url: str
    control_url: str
    model: str
    fingerprint: str
    knobs: dict[str, int]


class EngineProcess:
    """One engine with its two listeners. ``start`` once, ``close`` once, from one thread.

    Raises ``Unavailable`` when the weights were not fetched.
    """

    def __init__(self, run: EngineRun, keys: Keys, doors: Doors) -> None:
        settings = run.engine
        self._run = run
        self._keys = keys
        self._doors = doors
        self._identity = EngineIdentity(
            target=run.target, replica=run.replica, incarnation=os.urandom(6).hex()
        )
        self._outlets = Outlets(
            settings, self._identity, producer_key=keys.producer, intents=run.intents
        )
        self._seconds = SecondsTelemetry(
            self._outlets.ring, length_s=settings.second_ms / 1000, now=system_clock()
        )
        self._engine: EmbeddedEngine = build(
            settings, boundary=self._make_boundary, on_step=self._seconds.stepped, say=log.info
        )
        loop = asyncio.new_event_loop()
        self._listeners = Listeners(
            loop,
            max_connections=affordable_connections(settings.max_connections),
            stop_grace_s=settings.stop_grace_s,
        )
        self._conversations = self._make_conversations(Mailbox(loop))

    def start(self) -> Ready:
        """Serve. Returns when both listeners accept connections."""
        figures = self._make_figures()
        self._outlets.start(self._engine.model_name, figures)
        self._say_started()
        self._seconds.begin(system_clock())
        self._engine.worker.start()
        control = control_app(
            self._live,
            self._engine.worker.wake,
            key=self._keys.control,
            apply_timeout_s=self._run.engine.apply_timeout_s,
        )
        chat = chat_app(self._chat_api(figures))
        self._listeners.start([(chat, self._doors.chat), (control, self._doors.control)])
        return self._ready()

    def check(self) -> None:
        """Raise ``Broken`` when a part has stopped that must not."""
        failure = self._engine.worker.failure
        if failure is not None:
            raise Broken(f"the engine has stopped: {failure!r}") from failure
        if not self._listeners.alive:
            raise Broken("the listeners have stopped")
        if not self._outlets.alive:
            raise Broken("a telemetry thread has stopped")

    def close(self) -> None:
        """Stop gracefully: running answers end or are cancelled, the last signals are posted."""
        self._listeners.stop_accepting()
        if not self._listeners.join(self._run.engine.stop_grace_s):
            self._conversations.cancel_all()
            self._listeners.join(CUT_OFF_S)
        self._engine.worker.close()
        self._outlets.close()

    def _make_boundary(self, capacity: Capacity) -> Boundary:
        settings = self._run.engine
        knobs = embedded_knobs(
            capacity_active=capacity.active_cap,
            capacity_budget=capacity.step_token_budget,
            boot_active_cap=settings.boot_active_cap,
            boot_step_token_budget=settings.boot_step_token_budget,
            capacity_answer=capacity.context,
            intents=tuple(self._run.intents),
        )
        self._live = LiveSettings(
            self._identity,
            knobs,
            CLASSES,
            self._seconds,
            max_pending=settings.max_pending_patches,
            remembered=settings.remembered_changes,
        )
        return self._live.boundary

    def _make_conversations(self, mailbox: Mailbox) -> Conversations:
        settings = self._run.engine
        return Conversations(
            model=self._engine.model_name,
            templating=self._engine.tokenizer,
            generator=self._engine.worker,
            live=self._live,
            ledger=self._outlets.ledger,
            rooms=Rooms(
                context=self._engine.capacity.context,
                prompt_share=settings.prompt_share,
                default_max_tokens=settings.default_max_tokens,
            ),
            mailbox=mailbox,
        )

    def _make_figures(self) -> EngineFigures:
        return EngineFigures(
            self._engine.model_name,
            Sources(
                load=self._engine.worker.load,
                knobs=lambda: self._live.values,
                version=lambda: self._live.stamp.version,
                dropped=lambda: self._outlets.ring.dropped,
            ),
        )

    def _chat_api(self, figures: EngineFigures) -> ChatApi:
        settings = self._run.engine
        intents = (DEFAULT_INTENT, *self._run.intents)
        return ChatApi(
            model=self._engine.model_name,
            conversations=self._conversations,
            classes={intent: self._run.class_of(intent) for intent in intents},
            key=self._keys.serving,
            max_request_bytes=settings.max_request_bytes,
            retry_after_s=settings.retry_after_s,
            metrics=figures.text,
            failed=lambda: self._engine.worker.failure,
            pseudonyms=self._keys.pseudonyms,
        )

    def _say_started(self) -> None:
        at_us = round(system_clock().wall_s * MICROS)
        self._outlets.ring.push(
            lambda seq: Started(
                seq=seq,
                stamp=seen(self._live.stamp),
                at_us=at_us,
                fingerprint=self._engine.fingerprint,
                curve=self._engine.curve,
                kv=self._engine.kv,
            )
        )

    def _ready(self) -> Ready:
        return Ready(
            ready="engine",
            target=self._identity.target,
            replica=self._identity.replica,
            incarnation=self._identity.incarnation,
            url=url_of(self._doors.chat),
            control_url=url_of(self._doors.control),
            model=self._engine.model_name,
            fingerprint=self._engine.fingerprint,
            knobs=self._live.values,
        )
