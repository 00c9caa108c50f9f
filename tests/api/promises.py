"""What the OpenAPI document promises, held against what is answered."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
from fastapi import FastAPI


class Promises:
    """Every answer's code is described, and its body is as its schema says."""

    def __init__(self, app: FastAPI) -> None:
        self._document: dict[str, Any] = app.openapi()
        self._checks: dict[tuple[str, str, str], Any] = {}

    @classmethod
    def of(cls, app: FastAPI) -> Promises:
        """Those of the first app: all are made of the same routes, and this takes a while."""
        if not _KNOWN:
            _KNOWN.append(cls(app))
        return _KNOWN[0]

    def check(self, method: str, path: str, answer: Any) -> None:
        """Fail where a known route answers otherwise than it is described."""
        template = self._template(method, path.partition("?")[0])
        if template is None:
            return
        described = self._document["paths"][template][method.lower()]["responses"]
        code = str(answer.status_code)
        assert code in described, f"{method} {template} answered {code}"
        kind = answer.headers.get("content-type", "").partition(";")[0]
        content = described[code].get("content", {})
        if code == "304" or (not content and not answer.content):
            return
        assert kind in content, f"{method} {template} {code} is {kind!r}, not {sorted(content)}"
        if kind.endswith("json") and not kind.endswith("ndjson"):
            check = self._check(template, method.lower(), code, content[kind]["schema"])
            wrong = [
                f"{one.instance_path}: {one.message}" for one in check.iter_errors(answer.json())
            ]
            assert not wrong, f"{method} {template} {code}: {wrong}"

    def _template(self, method: str, path: str) -> str | None:
        """The most literal of the known paths that fit."""
        fitting = [
            template
            for template, operations in self._document["paths"].items()
            if method.lower() in operations
            and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path)
        ]
        return min(fitting, key=lambda template: template.count("{"), default=None)

    def _check(self, template: str, method: str, code: str, schema: Any) -> Any:
        place = (template, method, code)
        if place not in self._checks:
            components = {"components": self._document["components"]}
            self._checks[place] = jsonschema_rs.Draft202012Validator({**schema, **components})
        return self._checks[place]


_KNOWN: list[Promises] = []
