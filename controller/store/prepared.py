"""Statements prepared once a session and sent through libpq, together with what begins them.

::

    psycopg, one by one        ``changed``, then it      ``committed``
    BEGIN      ► ◄             BEGIN, both statements    BEGIN, both statements,
    statement  ► ◄                        ► ◄            COMMIT     ► ◄
    statement  ► ◄             COMMIT     ► ◄
    COMMIT     ► ◄

That saves waits for the server, and most of what a driver does around a statement (its cursor, its
adapters). What is sent together stops at the first error, so a statement that fails unless it
changed a row (``sure``) keeps a ``COMMIT`` behind it from happening.

The session stays psycopg's, which sends all else; it need not be told, as it asks libpq how the
transaction stands. It must prepare nothing itself: after a rollback it forgets that with
``DEALLOCATE ALL``, which these statements would not survive.
"""

from __future__ import annotations

import re
import select
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

NAMED: Final = re.compile(r"%\((\w+)\)s")
"""How statements name their values, as psycopg's do."""
BEGIN: Final = "BEGIN"
COMMIT: Final = "COMMIT"
NOTHING: Final[Mapping[str, Any]] = {}
LONGEST_WAIT_MS: Final = 1000
"""How long one look at the socket may take; the server bounds the statement itself."""

Message: TypeAlias = tuple[bytes, Sequence[bytes | None], Sequence[int]]
"""A prepared statement's name, its values and their formats: 0 is text, 1 binary."""


def takes(values: Mapping[str, Any]) -> bool:
    """Whether these are named values that need no adapter: texts, whole numbers, bytes, None.

    A text with a NUL character isn't: libpq would send what stands before it.
    """
    return all(map(_plain, values.values()))


def changed(
    session: psycopg.Connection[Any],
    names: dict[str, bytes],
    statements: Sequence[tuple[str, Mapping[str, Any]]],
) -> list[int]:
    """How many rows each changed; they begin a transaction where there is none.

    ``names``: what this very session has prepared, by statement; kept here. Raises
    ``psycopg.Error`` as psycopg does: the session may be gone then, or its transaction failed.
    """
    begun = [(BEGIN, NOTHING)] if idle(session) else []
    answers = _sent(session, names, [*begun, *statements])
    return [answer.command_tuples or 0 for answer in answers[len(begun) :]]


def committed(
    session: psycopg.Connection[Any],
    names: dict[str, bytes],
    statements: Sequence[tuple[str, Mapping[str, Any]]],
) -> bool:
    """Run them as a transaction of their own; False: one was not ``sure``, so nothing was done.

    The session must be in no transaction. Raises ``psycopg.Error``, as ``changed`` does.
    """
    try:
        answers = _sent(session, names, [(BEGIN, NOTHING), *statements, (COMMIT, NOTHING)])
    except psycopg.errors.DivisionByZero:
        session.rollback()
        return False
    if answers[-1].command_status != COMMIT.encode():
        raise psycopg.InternalError("the server did not commit, and gave no reason")
    return True


def idle(session: psycopg.Connection[Any]) -> bool:
    """Whether it is in no transaction."""
    return session.info.transaction_status == pq.TransactionStatus.IDLE


def sure(change: str, before: str = "") -> str:
    """A change of one row that fails if there was none; ``before``: what its ``WITH`` has."""
    return f"WITH {before}done AS ({change} RETURNING 1) SELECT 1 / count(*) FROM done"


def _sent(
    session: psycopg.Connection[Any],
    names: dict[str, bytes],
    statements: Iterable[tuple[str, Mapping[str, Any]]],
) -> list[PGresult]:
    codec = session.info.encoding
    messages = [_message(session, names, one, codec) for one in statements]
    answers = _answers(session.pgconn, messages)
    for answer in answers:
        _check(answer, codec)
    return answers


def _message(
    session: psycopg.Connection[Any],
    names: dict[str, bytes],
    statement: tuple[str, Mapping[str, Any]],
    codec: str,
) -> Message:
    text, order = _numbered(statement[0])
    given = [_coded(statement[1][name], codec) for name in order]
    name = _prepared(session, names, text)
    return name, [value for value, _ in given], [form for _, form in given]


@cache
def _numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """The statement with ``$1`` for the first name and so on, and the names in that order."""
    order = tuple(dict.fromkeys(NAMED.findall(statement)))
    return NAMED.sub(lambda found: f"${order.index(found[1]) + 1}", statement), order


def _plain(value: object) -> bool:
    if type(value) is str:
        return "\0" not in value
    return value is None or type(value) in (int, bytes)


def _coded(value: str | int | bytes | None, codec: str) -> tuple[bytes | None, int]:
    if value is None or isinstance(value, bytes):
        return value, 1
    return str(value).encode(codec), 0


def _prepared(session: psycopg.Connection[Any], names: dict[str, bytes], text: str) -> bytes:
    """The name under which this session knows the statement."""
    name = names.get(text)
    if name is None:
        name = f"trimtab_{len(names)}".encode()
        codec = session.info.encoding
        _check(session.pgconn.prepare(name, text.encode(codec)), codec)
        names[text] = name
    return name


def _answers(server: PGconn, messages: Sequence[Message]) -> list[PGresult]:
    """Send them all at once; each one's answer, of which one that failed is the last.

    Whoever interrupts the wait, or a connection that is lost, leaves a session that is closed:
    nobody knows how far it came.
    """
    server.enter_pipeline_mode()
    try:
        for name, values, formats in messages:
            server.send_query_prepared(name, values, formats)
        server.pipeline_sync()
        answers = list(_until_sync(server))
        server.exit_pipeline_mode()
    except BaseException:
        server.finish()
        raise
    return answers


def _until_sync(server: PGconn) -> Iterator[PGresult]:
    """What comes back, without what was skipped after a failure."""
    socket = select.poll()
    socket.register(server.socket, select.POLLIN)
    while server.flush():
        _wait(server, select.POLLIN | select.POLLOUT)
    while True:
        while server.is_busy():
            socket.poll(LONGEST_WAIT_MS)
            server.consume_input()
        answer = server.get_result()
        if answer is None:
            if server.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")
        elif answer.status == pq.ExecStatus.PIPELINE_SYNC:
            return
        elif answer.status != pq.ExecStatus.PIPELINE_ABORTED:
            yield answer


def _wait(server: PGconn, events: int) -> None:
    """Until more can be sent; what comes meanwhile is taken in, or neither side could go on."""
    socket = select.poll()
    socket.register(server.socket, events)
    if any(event & ~select.POLLOUT for _, event in socket.poll(LONGEST_WAIT_MS)):
        server.consume_input()


def _check(answer: PGresult, codec: str) -> None:
    """Raise what psycopg raises for that answer."""
    if answer.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        return
    if answer.error_field(pq.DiagnosticField.SQLSTATE) is None:
        text = answer.get_error_message(codec)
        raise psycopg.OperationalError(text, info=answer, encoding=codec)
    raise psycopg.errors.error_from_result(answer, encoding=codec)
