"""``/v1/keys``: who may call. A key is shown once, when it is made or rotated."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from controller import keys
from controller.api.access import Caller, Wired
from controller.api.answers import Answer
from controller.api.bodies import NewKey, Rotation
from controller.api.problems import documented
from controller.api.shown import KeyListed, KeyMade
from signals.events import MICROS

router = APIRouter(prefix="/v1/keys", tags=["keys"])

SECRET = {"Cache-Control": "no-store"}
"""The answer holds a key: nobody on the way keeps it, nor do we for an ``Idempotency-Key``."""

Within = Annotated[
    int | None,
    Query(ge=0, le=315_360_000, description="only live keys that expire within so many seconds"),
]


@router.get("", responses=documented(422))
def listed(services: Wired, expiring_within_s: Within = None) -> Response:
    """Every key's owner, rights and last use, oldest first; never the key.

    ``last_used_us`` is of calls to the control plane, a minute late at most after a crash.
    """
    now_us = services.clock()
    with services.store.read() as tx:
        everybody = tx.keys()
        found = [
            KeyListed(
                **msgspec.structs.asdict(one),
                live=keys.is_live(one, now_us),
                last_used_us=services.authenticator.last_used(tx, one.id),
            )
            for one in everybody
        ]
    if expiring_within_s is not None:
        until_us = now_us + expiring_within_s * MICROS
        found = [one for one in found if one.live and (one.expires_us or until_us + 1) <= until_us]
    return Answer({"items": found})


@router.post("", status_code=201, responses=documented(409, 422))
def created(body: NewKey, services: Wired, caller: Caller) -> Response:
    """A new key. ``key`` in the answer is the only time it is shown."""
    now_us = services.clock()
    wanted = body.wanted(now_us)
    with services.store.write() as tx:
        principal, token = keys.create(tx, wanted, actor=caller.id, at_us=now_us)
    return Answer(KeyMade(principal=principal, key=token), status_code=201, headers=SECRET)


@router.post("/{key_id}/rotate", responses=documented(404, 409, 422))
def rotated(key_id: str, body: Rotation, services: Wired, caller: Caller) -> Response:
    """A new secret for a key, shown this once; the old one works ``grace_s`` longer."""
    with services.store.write() as tx:
        principal, token = keys.rotate(
            tx, key_id, grace_s=body.grace_s, actor=caller.id, at_us=services.clock()
        )
    services.authenticator.forget()
    return Answer(KeyMade(principal=principal, key=token), headers=SECRET)


@router.delete("/{key_id}", status_code=204, responses=documented(404, 409, 422))
def revoked(key_id: str, services: Wired, caller: Caller) -> Response:
    """The key stops working: here at once, in other processes within their cache's age."""
    with services.store.write() as tx:
        tx.revoke_key(key_id, actor=caller.id, at_us=services.clock())
    services.authenticator.forget()
    return Response(status_code=204)
