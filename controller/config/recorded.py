"""The configuration in the audit: what was loaded at a start, and what changed since the last one.

Compared are values by path (``serve.tick_ms``), defaults filled in, so that a new version's other
default is a change too. No secret is in them: settings name files for those, and of an address only
what can hold none is kept.

>>> shown("sinks.url", "postgresql://trimtab:hunter2@db/trimtab?sslkey=x")
'postgresql://db/trimtab'
>>> compare({"a.b": 1, "a.c": 2}, {"a.b": 1, "a.c": 3, "d": None})
[Changed(path='a.c', before=2, after=3), Changed(path='d', before=None, after=None)]
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from controller.store.port import Tx

Plain = str | int | float | bool | None
NOTE: Final = "configuration"
ACTOR: Final = "serve"
MOST: Final = 200
"""Changes that one entry lists; ``changed`` says how many there were."""
LONGEST: Final = 200
"""Characters of a value."""
SECRET: Final = re.compile(r"(^|_)(password|secret|token|key)$")
WITHHELD: Final = "withheld"


class Changed(Struct, frozen=True):
    """One value before and after; None: not set."""

    path: str
    before: Plain
    after: Plain


def values(settings: BaseModel) -> dict[str, Plain]:
    """Every value by its path, without secrets."""
    return dict(sorted(_flat("", settings.model_dump(mode="json"))))


def digests(found: Mapping[str, Plain]) -> dict[str, str]:
    """12 hex digits of each section's values."""
    sections: dict[str, dict[str, Plain]] = {}
    for path, value in found.items():
        sections.setdefault(path.partition(".")[0], {})[path] = value
    return {
        name: hashlib.sha256(msgspec.json.encode(one, order="sorted")).hexdigest()[:12]
        for name, one in sections.items()
    }


def compare(before: Mapping[str, Plain], now: Mapping[str, Plain]) -> list[Changed]:
    """What differs, by path."""
    return [
        Changed(path, before.get(path), now.get(path))
        for path in sorted(before.keys() | now.keys())
        if path not in before or path not in now or before[path] != now[path]
    ]


def record(tx: Tx, settings: BaseModel, *, at_us: int) -> list[Changed]:
    """Audit ``configuration.loaded`` the first time, ``configuration.changed`` where it differs.

    Nothing is written where it is as it was. Answers what changed.
    """
    now = values(settings)
    noted = tx.note(NOTE)
    before = None if noted is None else msgspec.json.decode(noted, type=dict[str, Plain])
    changes = [] if before is None else compare(before, now)
    if before is not None and not changes:
        return []
    sections = digests(now)
    details: dict[str, Any] = {"sections": sections}
    if before is not None:
        were = digests(before)
        differing = {name: one for name, one in sections.items() if were.get(name) != one}
        details = {
            "sections": differing,
            "changed": len(changes),
            "changes": msgspec.to_builtins(changes[:MOST]),
        }
    tx.append_audit(
        at_us=at_us,
        actor=ACTOR,
        action="configuration.loaded" if before is None else "configuration.changed",
        subject="configuration",
        target="",
        details=details,
    )
    tx.set_note(NOTE, msgspec.json.encode(now).decode())
    return changes


def shown(path: str, value: Plain) -> Plain:
    """A value as it may be written down for ever."""
    if SECRET.search(path.rpartition(".")[2]) and value is not None:
        return WITHHELD
    if not isinstance(value, str):
        return value
    if "://" not in value:
        return value[:LONGEST]
    address = urlsplit(value)
    host = address.netloc.rpartition("@")[2]
    place = "" if path.startswith("webhooks.") else address.path
    return f"{address.scheme}://{host}{place}"[:LONGEST]


def _flat(path: str, value: Any) -> Iterator[tuple[str, Plain]]:
    """Objects by name, lists by place."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(f"{path}.{name}" if path else str(name), inner)
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _flat(f"{path}.{number}", inner)
    elif isinstance(value, (dict, list)):
        yield path, None
    else:
        yield path, shown(path, value)
