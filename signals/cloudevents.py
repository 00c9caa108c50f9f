"""CloudEvents 1.0 in JSON, read as feedback events.

=============  ======================================================================
``type``       ``trimtab.<kind>.<name>``, e.g. ``trimtab.business.copied``
``source, id`` unique together, so both make up the event's id: ``<source>#<id>``, where an id's
               own ``%`` and ``#`` are written ``%25`` and ``%23``
``time``       required here, though optional in the standard
``subject``    the request id, where ``data`` names no id itself
``data``       ``{value, request_id | external_id | session_id, target, model}``,
               or the engine's record when the kind is basic
=============  ======================================================================

Extension attributes are ignored. Reference: CloudEvents 1.0.2, sections 3 and JSON format.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from signals.errors import Rejected
from signals.events import Kind, Record
from signals.wire import KINDS, Posted, read

PREFIX = "trimtab"


class _Envelope(Struct, frozen=True, kw_only=True):
    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    data: msgspec.Raw
    time: datetime | None = None
    subject: str | None = None
    datacontenttype: str | None = None


class _Feedback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: bool | int | float | None = None
    request_id: str | None = None
    external_id: str | None = None
    session_id: str | None = None
    target: str | None = None
    model: str | None = None


T = TypeVar("T")
_envelope: msgspec.json.Decoder[_Envelope] = msgspec.json.Decoder(_Envelope)
_feedback: msgspec.json.Decoder[_Feedback] = msgspec.json.Decoder(_Feedback)
_record: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def read_cloud_event(raw: bytes | msgspec.Raw) -> Posted:
    """One CloudEvent as a posted event. Raises ``Rejected`` naming the attribute."""
    event = read(_envelope, raw)
    if not (event.datacontenttype or "application/json").startswith("application/json"):
        raise Rejected(
            "data must be JSON",
            field="datacontenttype",
            value=event.datacontenttype,
            allowed="application/json",
        )
    kind, name = _kind_and_name(event.type)
    if kind == "basic":
        record = read(_record, event.data)
        identity = f"{event.source}#{event.id}"
        return Posted(id=identity, kind=kind, name=name, time=event.time, data=record)
    feedback = read(_feedback, event.data)
    named = feedback.request_id or feedback.external_id or feedback.session_id
    return Posted(
        id=f"{event.source}#{_escaped(event.id)}",
        kind=kind,
        name=name,
        time=event.time,
        value=feedback.value,
        request_id=feedback.request_id if named else event.subject,
        external_id=feedback.external_id,
        session_id=feedback.session_id,
        target=feedback.target,
        model=feedback.model,
    )


def _escaped(id_: str) -> str:
    """Without "#", which a source may have too, so that no two pairs look alike."""
    return id_.replace("%", "%25").replace("#", "%23") if "#" in id_ or "%" in id_ else id_


def _kind_and_name(type_: str) -> tuple[Kind, str]:
    prefix, _, rest = type_.partition(".")
    kind, _, name = rest.partition(".")
    if prefix == PREFIX and name:
        for known in KINDS:
            if kind == known:
                return known, name
    raise Rejected(
        f"type {type_!r} is not {PREFIX}.<kind>.<name>",
        field="type",
        value=type_,
        allowed=[f"{PREFIX}.{kind}.<name>" for kind in KINDS],
    )
