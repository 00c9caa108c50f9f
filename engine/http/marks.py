"""What a client says about a request beside its prompt, in ``X-Trimtab-*`` headers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from engine.generation import CLASSES, Class
from engine.http.asks import BadAsk
from engine.run_settings import DEFAULT_INTENT
from signals.pseudonyms import Pseudonyms

INTENT_HEADER = "x-trimtab-intent"
CLASS_HEADER = "x-trimtab-class"
SESSION_HEADER = "x-trimtab-session"
EXTERNAL_ID_HEADER = "x-trimtab-external-id"
STAMP_HEADER = "X-Trimtab-Stamp"
MAX_ID = 200
"""As long as ingest takes an id."""

_visible = re.compile(rf"[\x21-\x7e]{{1,{MAX_ID}}}").fullmatch


class Marks(Struct, frozen=True, kw_only=True):
    """The marks of one request, checked."""

    intent: str
    class_: Class
    session_id: str | None = None
    external_id: str | None = None
    traceparent: str | None = None


def read_marks(
    headers: Mapping[str, str],
    classes: Mapping[str, Class],
    pseudonyms: Pseudonyms | None = None,
) -> Marks:
    """Marks from lower-case headers. An intent nobody declared counts as ``default``.

    ``classes``: the class of each declared intent. ``pseudonyms`` take the place of ids here, at
    the door, so that nothing behind it holds the client's own. Raises ``BadAsk`` for an unknown
    class and for an id that is empty, too long or not visible ASCII.
    """
    named = headers.get(INTENT_HEADER, DEFAULT_INTENT)
    intent = named if named in classes else DEFAULT_INTENT
    session_id, external_id = _id(headers, SESSION_HEADER), _id(headers, EXTERNAL_ID_HEADER)
    if pseudonyms is not None:
        session_id = session_id and pseudonyms.session(session_id)
        external_id = external_id and pseudonyms.external(external_id)
    return Marks(
        intent=intent,
        class_=_class(headers.get(CLASS_HEADER), classes.get(intent, "interactive")),
        session_id=session_id,
        external_id=external_id,
        traceparent=headers.get("traceparent"),
    )


def _class(named: str | None, of_intent: Class) -> Class:
    if named is None:
        return of_intent
    if named not in CLASSES:
        raise BadAsk("no such class", field=CLASS_HEADER, value=named, allowed=CLASSES)
    return named


def _id(headers: Mapping[str, str], header: str) -> str | None:
    found = headers.get(header)
    if found is not None and not _visible(found):
        raise BadAsk("not an id", field=header, allowed=f"1..{MAX_ID} visible ASCII characters")
    return found
