"""The one error tree; each leaf says whose fault it is.

::

    TrimtabError
    ├── Rejected       the caller's: answered 4xx, never retried
    │   ├── Conflict   well-formed, but it clashes with what is there: 409
    │   ├── Stale      the caller looked at an older state than the one there is: 412
    │   ├── NotFound   names something that does not exist: 404
    │   └── Denied     the principal may not do this: 401 without a valid key, 403 with one
    ├── Unavailable    a dependency's: answered 503, retried with a bound
    ├── Fenced         nobody's: another owner has taken over; let go of it, and go on
    └── Broken         an invariant does not hold: the worker stops loudly
"""

from __future__ import annotations


class TrimtabError(Exception):
    """Root of every error raised on purpose."""


class Rejected(TrimtabError):
    """Bad input. Names the field, the value and what was allowed.

    ``status`` is the HTTP status the shells answer with (RFC 9457 problem details).
    """

    status = 422

    def __init__(
        self, detail: str, *, field: str | None = None, value: object = None, allowed: object = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.value = value
        self.allowed = allowed

    def problem(self) -> dict[str, object]:
        """The members of an RFC 9457 problem document, absent ones left out."""
        found = {"field": self.field, "value": self.value, "allowed": self.allowed}
        members: dict[str, object] = {
            "type": "about:blank",
            "title": type(self).__name__,
            "status": self.status,
            "detail": self.detail,
        }
        return members | {name: value for name, value in found.items() if value is not None}


class Conflict(Rejected):
    """Well-formed, but against the present state (stale version, illegal move, lower epoch)."""

    status = 409


class Stale(Rejected):
    """What the caller had seen (``If-Match``) is not what is there now; nothing was changed."""

    status = 412


class NotFound(Rejected):
    """Names something that does not exist."""

    status = 404


class Denied(Rejected):
    """No valid key (401) or a role that does not allow this (403)."""

    status = 403

    def __init__(
        self, detail: str, *, authenticated: bool = True, field: str | None = None
    ) -> None:
        super().__init__(detail, field=field)
        self.status = 403 if authenticated else 401


class Unavailable(TrimtabError):
    """A dependency did not answer; the same call may succeed later."""

    def __init__(self, detail: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_s = retry_after_s


class Fenced(TrimtabError):
    """What we owned was taken over; nothing was written. Trying again would be wrong."""


class Broken(TrimtabError):
    """An invariant of ours does not hold. Never caught to carry on."""
