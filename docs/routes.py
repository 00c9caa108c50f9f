"""The page of the control plane's routes, drawn from its routers and its table of who may what."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi.routing import APIRoute

from controller.api.access import ACCESS, CAPABILITIES
from controller.api.app import ROUTERS

HEAD = """# REST

Generated from the routes by `make docs`; do not edit by hand.

Errors are RFC 9457 problem documents: `title` says whose fault it is, `detail` says it in words,
and `field`, `value` and `allowed` say which input, what it was and what it could have been.

| status | meaning |
|---|---|
| 401, 403 | no valid key; the key's role or targets do not allow this |
| 404 | no such thing |
| 409 | against what is there now: an illegal move, a stale digest, a setting that a file owns |
| 422 | bad input |
| 503 | something it depends on does not answer; see `Retry-After` |

A route needs a capability, and a role has some of them; a key's targets and intents bound it
further ([security.md](security.md)). Each process describes itself in full at `/openapi.json`.
"""

OTHERS = """## The other listeners

| listener | path | for |
|---|---|---|
| signals API | `POST /v1/signals` | producers: one event, an array, NDJSON or CloudEvents |
| engine, chat | `POST /v1/chat/completions`, `GET /v1/models` | clients of the OpenAI API |
| engine, control | `GET/PATCH /v1/runtime_config` | the controller, with the control key |

The signals API and the engine's chat listener answer `/healthz` and `/metrics` too.
"""


def page() -> str:
    """The whole page: the control plane's routes in the order of its rooms, then the others."""
    roles = ["## Who may what", "", "| needs | roles |", "|---|---|"]
    roles += [f"| {name} | {', '.join(sorted(who))} |" for name, who in CAPABILITIES.items()]
    table = ["", "## The control plane", "", "| route | needs | what it does |", "|---|---|---|"]
    return "\n".join([HEAD, *roles, *table, *_rows(), "", OTHERS])


def _rows() -> Iterator[str]:
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute):
                for method in sorted(route.methods or ()):
                    needs = ACCESS.get((method, route.path), "nothing")
                    says = (route.endpoint.__doc__ or "").strip().partition("\n\n")[0]
                    yield f"| `{method} {route.path}` | {needs} | {plain(says)} |"


def plain(docstring: str) -> str:
    r"""One line of Markdown from a docstring.

    >>> plain("Ask for ``x``\n    again.")
    'Ask for `x` again.'
    """
    return " ".join(docstring.split()).replace("``", "`")
