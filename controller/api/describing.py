"""The OpenAPI document, exact: what each route answers, with what headers, and nothing else.

The framework knows paths, parameters and bodies. Added here: answers' schemas (``ANSWERS``), the
problem document, what the layers around the app answer (413, 429, idempotency keys, tags), and
examples. There are no catch-all responses: a code that is not described is not answered.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.routing import APIRoute

from controller.api.access import ACCESS, PUBLIC, Route
from controller.api.answering import ANSWERS, Lines, Nothing, Text
from controller.api.answers import NDJSON
from controller.api.examples import EXAMPLES
from controller.api.guard import WITH_BODY
from controller.api.problems import PROBLEM_SCHEMA, documented
from controller.api.tags import NEVER, TAGGED, has_state

SCHEMAS: Final = "#/components/schemas/{name}"
ETAG: Final = {
    "ETag": {"description": "for If-Match and If-None-Match", "schema": {"type": "string"}}
}
IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "the same call with the same key is carried out once; the answer comes again",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}
IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "the ETag of what was looked at: 412, and nothing done, if it has changed",
    "schema": {"type": "string", "pattern": '^("[!#-~]*"|\\*)$'},
}
IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "an ETag that the caller has: 304 if it is still right",
    "schema": {"type": "string", "pattern": '^("[!#-~]*"|\\*)$'},
}


def operation_id(route: APIRoute) -> str:
    """Unique and stable: ``policies_approve``."""
    return f"{route.tags[-1]}_{route.name}".replace(" ", "_")


def describe(app: FastAPI) -> None:
    """Let the app describe itself as it is served. Computed once."""
    generated = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(generated())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    types = [one for one in ANSWERS.values() if one not in (Lines, Text, Nothing)]
    described, components = msgspec.json.schema_components(types, ref_template=SCHEMAS)
    schemas = iter(described)
    of_answers = {
        route: None if one in (Lines, Text, Nothing) else next(schemas)
        for route, one in ANSWERS.items()
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete((method.upper(), path), operation, of_answers)
    known = document.setdefault("components", {}).setdefault("schemas", {})
    known.update(components)
    known["Problem"] = PROBLEM_SCHEMA
    for unused in ("HTTPValidationError", "ValidationError"):
        known.pop(unused, None)
    return document


def _complete(route: Route, operation: dict[str, Any], schemas: dict[Route, Any]) -> None:
    method, path = route
    responses = operation["responses"]
    for code, response in responses.items():
        if code.startswith("2"):
            _describe_success(route, response, schemas.get(route, {}))
    codes = _codes(route, has_input="parameters" in operation or "requestBody" in operation)
    for code, problem in documented(*sorted(codes)).items():
        responses[str(code)] = (
            problem | responses.get(str(code), {}) | {"content": problem["content"]}
        )
    parameters = operation.setdefault("parameters", [])
    if method in WITH_BODY:
        parameters.append(IDEMPOTENCY_KEY)
        if has_state(path) and not NEVER.fullmatch(path):
            parameters.append(IF_MATCH)
    if method == "GET" and TAGGED.fullmatch(path):
        parameters.append(IF_NONE_MATCH)
        responses["304"] = {"description": "It is what the caller has", "headers": ETAG}
        responses["200"]["headers"] = ETAG
    if route in EXAMPLES:
        operation["requestBody"]["content"]["application/json"]["example"] = EXAMPLES[route]


def _describe_success(route: Route, response: dict[str, Any], schema: Any) -> None:
    one = ANSWERS.get(route)
    if one is Nothing:
        response.pop("content", None)
    elif one is Lines:
        response["content"] = {NDJSON: {"schema": {"type": "string"}}}
    elif one is Text:
        response["content"] = {"text/plain": {"schema": {"type": "string"}}}
    else:
        forms = {kind: {"schema": {"type": "string"}} for kind in response.get("content", {})}
        response["content"] = {**forms, "application/json": {"schema": schema}}


def _codes(route: Route, *, has_input: bool) -> set[int]:
    """The problems that the layers around the app, and the framework, answer with."""
    method, path = route
    codes = set() if route in PUBLIC else {429}
    if method in WITH_BODY:
        codes |= {409, 413, 422}
        if has_state(path) and not NEVER.fullmatch(path):
            codes.add(412)
    if has_input and route in ACCESS:
        codes.add(422)
    return codes
