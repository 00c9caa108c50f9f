"""The webhooks of a serve process, on a thread of their own."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from controller.layout import Layout
from controller.settings import Settings
from controller.store.port import Store
from controller.webhooks.posting import Posting
from controller.webhooks.sender import Sender
from controller.webhooks.settings import WebhookSettings
from signals.errors import Broken

JOIN_S: Final = 5.0


def secret_file(settings: Settings, hook: str) -> Path:
    """Where a hook's secrets are."""
    named = settings.webhooks.hooks[hook].secret_file
    return Path(named) if named else Layout(settings.state_dir).key(f"webhook-{hook}")


@contextmanager
def webhooks_running(
    settings: Settings, store: Store, stop: threading.Event, *, clock: Callable[[], int]
) -> Iterator[None]:
    """Relay and send while the ``with`` is open; nothing at all without hooks.

    Raises ``Broken`` at the end when they stopped by themselves; ``stop`` is set then.
    """
    if not settings.webhooks.hooks:
        yield
        return
    ours = threading.Event()
    failed: list[BaseException] = []
    files = partial(secret_file, settings)

    def run() -> None:
        try:
            asyncio.run(_run(settings.webhooks, store, files, ours, clock))
        except BaseException as error:
            failed.append(error)
            stop.set()
            raise

    thread = threading.Thread(target=run, name="webhooks")
    thread.start()
    try:
        yield
    finally:
        ours.set()
        thread.join(JOIN_S)
    if failed:
        raise Broken(f"the webhooks stopped: {failed[0]!r}") from failed[0]


async def _run(
    settings: WebhookSettings,
    store: Store,
    files: Callable[[str], Path],
    stop: threading.Event,
    clock: Callable[[], int],
) -> None:
    async with httpx.AsyncClient(
        timeout=settings.timeout_s,
        follow_redirects=False,
        trust_env=False,
        limits=httpx.Limits(max_connections=len(settings.hooks) * settings.concurrency),
    ) as http:
        posting = Posting(http, store, settings, files, clock=clock)
        draw = random.SystemRandom().random
        await Sender(store, settings, posting, clock=clock, draw=draw).run(stop)
