"""What stands around the app, from the outside in.

::

    Gate     an address that is locked out: 429
    Guard    no key: 401 before the body is read; too long a body: 413
    Replays  an Idempotency-Key that was used: the first answer
    Tags     ETag, and 304 for who has it
"""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import ASGIApp

from controller.api.gate import Gate
from controller.api.guard import Guard
from controller.api.ports import Services
from controller.api.replays import Replays
from controller.api.tags import Tags


def fronted(app: FastAPI) -> ASGIApp:
    """The app as it is served."""
    services: Services = app.state.services
    inner = Replays(Tags(app), services)
    return Gate(Guard(inner, max_body_bytes=services.settings.serve.max_body_bytes), services)
