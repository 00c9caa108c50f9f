"""``ETag``, ``If-None-Match`` and ``If-Match``: look, decide, and act only on what was looked at.

A tag is ``"<state>.<digest>"``. The state is what acts are checked against: a policy's or an
override's ``rev``, a baseline's version, a metric's, and of a target a digest of what people and
the loop have said of it. The digest is of the whole answer, which shows more (what engines have
now), so ``If-None-Match`` sees that too. ``kill`` and ``hold`` don't look at ``If-Match``: they
must not fail.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.api.access import Route, services_of
from controller.api.headers import values, with_headers
from controller.expecting import EXPECTED, Expectation
from controller.store.port import Tx
from policies.lifecycle import LAYERED
from signals.errors import Rejected

STATE: Final = "tagged_state"
NEVER: Final = re.compile(r"/v1/(kill|hold|targets/{target}/(kill|hold))")
TAGGED: Final = re.compile(
    r"/v1/(policies/{policy_id}|overrides/{override_id}|metric-definitions/{name}"
    r"|targets/{target}/(settings|baseline))"
)
"""What answers with an ``ETag``."""
ONE: Final = re.compile(r'(?:W/)?"([^"]*)"')
MOST: Final = 1000


class Tags:
    """An ASGI application around another: adds the tag that ``conditions`` asked for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; the answer to a GET is taken whole, then tagged."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        noted = scope.setdefault("state", {})
        messages: list[Message] = []

        async def take(message: Message) -> None:
            if noted.get(STATE) is None:
                await send(message)
            else:
                messages.append(message)

        await self._app(scope, receive, take)
        if messages:
            for message in _tagged(messages, noted[STATE], values(scope, "if-none-match")):
                await send(message)


async def conditions(request: Request) -> None:
    """Note the state that a GET shows; hold an act to the state that it names.

    The state is read before the answer is made: at worst it is older than what is shown, and an
    act on it is refused. Raises ``Stale``, ``Rejected`` for what is no tag.
    """
    route: Route = (request.method, request.scope["route"].path)
    named = dict(request.path_params)
    if request.method == "GET":
        if TAGGED.fullmatch(route[1]):
            setattr(request.state, STATE, await run_in_threadpool(_now, request, route[1], named))
        return
    wanted = request.headers.getlist("if-match")
    if not wanted or NEVER.fullmatch(route[1]) or not has_state(route[1]):
        return
    found = await run_in_threadpool(_now, request, route[1], named)
    if [one.strip() for one in wanted] == ["*"]:
        return
    expectation = Expectation(_states(wanted), lambda tx: state(tx, route[1], named))
    if found not in _states(wanted):
        await run_in_threadpool(_check, request, expectation)
    EXPECTED.set(expectation)


def has_state(path: str) -> bool:
    """Whether ``state`` knows what routes with this template are about."""
    return (
        any(f"{{{name}}}" in path for name in ("policy_id", "override_id", "target"))
        or path == "/v1/metric-definitions/{name}"
    )


def state(tx: Tx, path: str, named: dict[str, str]) -> str:
    """The state of what a path names. Raises ``NotFound``."""
    if "policy_id" in named:
        return str(tx.policy(named["policy_id"]).rev)
    if "override_id" in named:
        return str(tx.override(named["override_id"]).rev)
    if "target" in named:
        if path.endswith("/baseline"):
            return _baseline(tx, named["target"])
        return _target(tx, named["target"])
    versions = tx.versions(named["name"])
    if not versions:
        return "none"
    return f"{versions[-1].version}{'' if versions[-1].retired_us is None else 'r'}"


def _baseline(tx: Tx, target: str) -> str:
    found = tx.baseline(target)
    return "0" if found is None else str(found.version)


def _target(tx: Tx, target: str) -> str:
    """12 hex digits of what was said of a target: control, modes, baseline, layers, overrides."""
    overrides = tx.overrides(target=target, state="active", limit=MOST)
    layers = tx.policies(target=target, states=sorted(LAYERED), limit=MOST)
    said = (
        tx.control(target),
        sorted(tx.modes(target).items()),
        _baseline(tx, target),
        sorted((one.id, one.rev) for one in layers),
        sorted((one.id, one.rev) for one in overrides),
    )
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()[:12]


def _now(request: Request, path: str, named: dict[str, str]) -> str:
    with services_of(request).store.read() as tx:
        return state(tx, path, named)


def _check(request: Request, expectation: Expectation) -> None:
    with services_of(request).store.read() as tx:
        expectation.check(tx)


def _states(wanted: list[str]) -> list[str]:
    """The states that the tags of ``If-Match`` name. Raises ``Rejected``."""
    found = [part.partition(".")[0] for value in wanted for part in ONE.findall(value)]
    if not found:
        raise Rejected(
            "no entity tag", field="If-Match", value=", ".join(wanted), allowed='"…" or *'
        )
    return found


def _tagged(messages: list[Message], found: str, known: list[str]) -> list[Message]:
    """The answer with its tag; 304 where the caller has it."""
    start = messages[0]
    if start["status"] != 200:
        return messages
    body = b"".join(message.get("body", b"") for message in messages[1:])
    tag = f'"{found}.{hashlib.sha256(body).hexdigest()[:16]}"'
    ours = tag.strip('"')
    if any(value.strip() == "*" or ours in ONE.findall(value) for value in known):
        empty: Message = {"type": "http.response.start", "status": 304, "headers": []}
        return [with_headers(empty, [("etag", tag)]), {"type": "http.response.body", "body": b""}]
    return [with_headers(start, [("etag", tag)]), *messages[1:]]
