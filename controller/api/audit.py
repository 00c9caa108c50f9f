"""``/v1/audit``: who did what, exported as it was hashed, proven, verified, sealed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from controller.api.access import Caller, Wired
from controller.api.answers import NDJSON, Answer
from controller.api.bodies import Sealing, WithReason
from controller.api.bounds import check_sees_all
from controller.api.problems import documented
from controller.audit.export import export
from controller.audit.verify import verify
from signals.errors import Unavailable

router = APIRouter(prefix="/v1/audit", tags=["audit"])

After = Annotated[int, Query(ge=-1, description="only entries with a higher index")]
MOST = 2**53 - 1
AGAIN_S = 5.0
Index = Annotated[int, Query(ge=0, le=MOST, description="of the entry")]
Size = Annotated[int | None, Query(ge=1, le=MOST, description="of the tree; unset = all of it")]
First = Annotated[int, Query(ge=1, le=MOST, description="size of the older tree")]
Second = Annotated[int | None, Query(ge=1, le=MOST, description="of the newer; unset = all of it")]
LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {NDJSON: {}}, "description": "one entry a line, in order"}
}


@router.get("", responses={**LINES, **documented(422)})
def exported(services: Wired, caller: Caller, after: After = -1) -> Response:
    """The audit as JSON lines: index, leaf hash, and the stored bytes verbatim as a string.

    ``entry`` is null for an entry whose archive is not at hand.
    """
    check_sees_all(caller)
    lines = export(services.store_file, after=after, archives=services.audit.archives.folder)
    return StreamingResponse(lines, media_type=NDJSON)


@router.get("/head")
def head(services: Wired) -> Response:
    """The log as it is, the head that was published last, where to, and whether all is well.

    ``alarm`` says why no head is signed any more: the log does not extend what was published.
    """
    desk = services.audit
    return Answer({**desk.publisher.status().shown(), "public_keys": desk.signer.public})


@router.get("/proof", responses=documented(422))
def proof(services: Wired, index: Index, size: Size = None) -> Response:
    """That an entry is in the tree of ``size`` entries: RFC 9162, 2.1.3; hashes in hex."""
    tree = services.audit.tree
    size = size or _all(services)
    leaf, path = tree.inclusion(index, size)
    return Answer(
        {
            "index": index,
            "size": size,
            "root": tree.root_at(size).hex(),
            "leaf_hash": leaf.hex(),
            "path": [one.hex() for one in path],
        }
    )


@router.get("/consistency", responses=documented(422))
def consistent(services: Wired, first: First, second: Second = None) -> Response:
    """That the tree of ``second`` entries is that of ``first``, grown: RFC 9162, 2.1.4."""
    tree = services.audit.tree
    second = second or _all(services)
    path = tree.consistency(first, second)
    return Answer(
        {
            "first": first,
            "first_root": tree.root_at(first).hex(),
            "second": second,
            "second_root": tree.root_at(second).hex(),
            "path": [one.hex() for one in path],
        }
    )


@router.get("/verify")
def verified(services: Wired) -> Response:
    """Check every entry, the rows they speak of, and the published heads where the sink answers.

    ``findings`` names each that disagrees. Whoever does not trust this process runs
    ``trimtab audit verify`` over an export, with the heads that he keeps himself. One runs at a
    time, for each takes seconds of a long log: 503 with ``Retry-After`` meanwhile.
    """
    desk = services.audit
    if not desk.verifying.acquire(blocking=False):
        raise Unavailable("the audit is being verified for somebody else", retry_after_s=AGAIN_S)
    try:
        found = verify(services.store_file, outside=desk.outside(), archives=desk.archives.folder)
    finally:
        desk.verifying.release()
    return Answer({"clean": found.clean, "result": found})


@router.post("/seal", status_code=201, responses=documented(409, 422))
def sealed(body: Sealing, services: Wired, caller: Caller) -> Response:
    """Move the oldest entries' bytes to an archive file; leaf hashes and columns stay."""
    archive = services.audit.sealer.seal(
        by=caller.id, before_us=body.before_us, entries=body.entries
    )
    return Answer(archive, status_code=201)


@router.post("/rotate-key", status_code=201, responses=documented(409))
def rotated(services: Wired, caller: Caller) -> Response:
    """Sign heads with a new key from now on; the old one and the new one both sign that."""
    rotation = services.audit.publisher.rotate(by=caller.id)
    return Answer({"rotation": rotation, "public_keys": services.audit.signer.public}, 201)


@router.post("/restored", status_code=201, responses=documented(409, 422))
def restored(body: WithReason, services: Wired, caller: Caller) -> Response:
    """Say that a backup was put back: signed, outside and in the log, with the heads given up.

    409 where the log extends every published head: then nothing was lost.
    """
    restore = services.audit.publisher.restored(by=caller.id, reason=body.reason)
    return Answer({"restore": restore}, status_code=201)


def _all(services: Wired) -> int:
    services.audit.tree.sync()
    return max(1, services.audit.tree.size)
