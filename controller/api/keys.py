"""``/v1/keys``: who may call. A key is shown once, when it is made."""

from __future__ import annotations

from fastapi import APIRouter, Response

from controller import keys
from controller.api.access import Caller, Wired
from controller.api.answers import Answer
from controller.api.bodies import NewKey
from controller.api.problems import documented

router = APIRouter(prefix="/v1/keys", tags=["keys"])


@router.get("")
def listed(services: Wired) -> Response:
    """Every key's owner and rights, oldest first; never the key."""
    with services.store.read() as tx:
        return Answer({"items": tx.keys()})


@router.post("", status_code=201, responses=documented(409, 422))
def created(body: NewKey, services: Wired, caller: Caller) -> Response:
    """A new key. ``key`` in the answer is the only time it is shown."""
    now_us = services.clock()
    wanted = body.wanted(now_us)
    with services.store.write() as tx:
        principal, token = keys.create(tx, wanted, actor=caller.id, at_us=now_us)
    return Answer({"principal": principal, "key": token}, status_code=201)


@router.delete("/{key_id}", status_code=204, responses=documented(404, 422))
def revoked(key_id: str, services: Wired, caller: Caller) -> Response:
    """The key stops working: here at once, in other processes within their cache's age."""
    with services.store.write() as tx:
        tx.revoke_key(key_id, actor=caller.id, at_us=services.clock())
    services.authenticator.forget()
    return Response(status_code=204)
