"""Signed heads, brought outside: checked against the last one first, and never signed otherwise.

::

    the newest head outside ──┐
    the one in our own memory ┴─► does the tree of now extend it? ──no──► ALARM, nothing is signed
                                          │ yes
    tree of now ──► head ──► signature ──► sink ──► our memory, a copy in the store

An alarm stays until the log extends what was published, or a person says with ``restored`` that a
backup was put back and which heads are given up for it. While the sink is away nothing is lost: the
next head says all that the ones before it would have said.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from controller.audit.live_tree import LiveTree
from controller.audit.memory import KeptLine
from controller.audit.settings import AuditSettings
from controller.audit.signing import Signer
from controller.audit.sinks import Sink
from controller.layout import Layout
from controller.store.port import Store
from policies.heads import Head, Restore, Rotation, canonical, parsed, signed_by
from policies.published import Checkpoint, read_published, span
from signals.errors import Conflict, Rejected, Unavailable
from signals.events import MICROS

log = logging.getLogger(__name__)

SYSTEM = "audit"
"""Who acts where nobody did."""


class HeadStatus(Struct, frozen=True, kw_only=True):
    """``size`` and ``root`` of the log now; ``published``: the newest head that is outside.

    ``line``: that head as it was published. ``alarm``: why nothing is signed; None while all is
    well. ``warning``: why the sink does not count as outside.
    """

    log: str
    key: str
    size: int
    root: str
    published: Head | Restore | None
    line: str | None
    unpublished: int
    sink: str
    warning: str | None
    alarm: str | None
    sink_error: str | None

    def shown(self) -> dict[str, Any]:
        """For answers: the statement with its type."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Publisher:
    """The one that signs. Every method may be called from any thread."""

    def __init__(
        self,
        store: Store,
        tree: LiveTree,
        signer: Signer,
        sink: Sink,
        layout: Layout,
        settings: AuditSettings,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._tree = tree
        self._signer = signer
        self._sink = sink
        self._memory = KeptLine(layout.audit_memory)
        self._pending = KeptLine(layout.audit_pending)
        self._settings = settings
        self._clock = clock
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._read_back = False
        self._said_us = 0
        self._alarm: str | None = None
        self._sink_error: str | None = None
        self.failed: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        """Publish until stopped, soon after each entry and at least every interval.

        And once more in the end, so that nothing is left unpublished for the next start to find;
        a sink that does not answer anyway is not waited for, nor is there rest between blocks.
        """
        self._stopping = stop
        try:
            if self._sink.warning is not None:
                log.warning("AUDIT: %s; set audit.sink to a place outside", self._sink.warning)
            while not stop.wait(self._settings.soon_s):
                self._try()
            if self._sink_error is None:
                self._try()
        except BaseException as error:
            self.failed = error
            raise

    def _try(self) -> None:
        try:
            self.publish()
        except Unavailable as error:
            log.warning("no audit head was published: %s", error.detail)

    def publish(self, *, now: bool = False) -> Head | None:
        """A head, if one is due (``now``: in any case); None where it is not, or must not be.

        Raises ``Unavailable`` when the sink or the store does not answer.
        """
        with self._lock:
            self._bring_pending()
            complaint = self._tree.sync()
            due = self._due(self._last())
            if complaint is None and not (due or now):
                return None
            complaint = complaint or self._scrubbed()
            if complaint is None:
                complaint = next((c for tip in self._tips() if (c := self._differs(tip))), None)
            self._sound(complaint)
            if complaint is not None:
                return None
            return self._head()

    def _scrubbed(self) -> str | None:
        """Compare blocks one by one, with a rest after each: whoever else computes gets his turn.

        All at once would hold the interpreter and the tree for a tenth of a second.
        """
        for _ in range(min(self._settings.scrub_blocks, self._tree.blocks())):
            complaint = self._tree.scrub(1)
            if complaint is not None:
                return complaint
            self._stopping.wait(self._settings.scrub_rest_ms / 1000)
        return None

    def status(self) -> HeadStatus:
        """Where log, sink and publisher stand. Does not wait for a sink that hangs."""
        size, root = self._tree.head()
        line, said = self._memory.kept()
        published = said if isinstance(said, (Head, Restore)) else None
        covered = 0 if published is None else published.size
        return HeadStatus(
            log=self._signer.public.log,
            key=self._signer.key,
            size=size,
            root=root.hex(),
            published=published,
            line=line,
            unpublished=max(0, size - covered),
            sink=self._sink.where,
            warning=self._sink.warning,
            alarm=self._alarm or self._tree.altered,
            sink_error=self._sink_error,
        )

    def rotate(self, *, by: str) -> Rotation:
        """Hand over to a new key: both sign, the audit and the sink say so, the old key is gone.

        Raises ``Conflict`` during an alarm; ``Unavailable`` while the sink is away: the hand-over
        is recorded then, and takes place with the next head.
        """
        with self._lock:
            if self.publish(now=True) is None:
                raise Conflict(f"no key is rotated during an alarm: {self._alarm}", field="alarm")
            at_us = self._after_last()
            new = self._signer.prepare_next(at_us)
            rotation = Rotation(
                log=self._signer.public.log,
                at_us=at_us,
                key=self._signer.key,
                new=new.id,
                public=new.public,
                by=by,
            )
            line = self._signer.sign_over(rotation)
            self._record("audit.key_rotated", new.id, by, at_us, canonical(rotation).decode())
            self._say(line)
            self.publish(now=True)
            return rotation

    def restored(self, *, by: str, reason: str) -> Restore:
        """Say that a backup was put back: the log goes on from the newest head it still extends.

        Raises ``Conflict`` where it extends the newest of all, for then nothing is given up.
        """
        with self._lock:
            self._bring_pending()
            self._tree.rebuild()
            if self._tree.altered is not None:
                raise Conflict(f"the store has no whole log: {self._tree.altered}", field="log")
            standing = self._standing()
            tip = max(standing, key=lambda one: (one.at_us, one.line), default=None)
            good = next((one for one in reversed(standing) if self._differs(one) is None), None)
            if tip is None or tip is good:
                raise Conflict("the log extends every published head; nothing is given up")
            at_us = self._after_last()
            restore = Restore(
                log=self._signer.public.log,
                at_us=at_us,
                key=self._signer.key,
                size=0 if good is None else good.size,
                root=(self._tree.root_at(0) if good is None else good.root).hex(),
                last_size=tip.size,
                last_root=tip.root.hex(),
                by=by,
                reason=reason,
            )
            line = self._signer.sign(restore)
            self._record(
                "audit.restored", self._signer.public.log, by, at_us, canonical(restore).decode()
            )
            self._say(line)
            self.publish(now=True)
            return restore

    def settle(self) -> None:
        """At the start: the audit says which key there is."""
        with self._store.read() as tx:
            known = tx.audit(subject=self._signer.key, limit=1)
        if not known:
            with self._store.write() as tx:
                tx.append_audit(
                    at_us=self._clock(),
                    actor=SYSTEM,
                    action="audit.key_made",
                    subject=self._signer.key,
                    target="",
                    details={"log": self._signer.public.log, "keys": self._signer.public.keys},
                )

    def _due(self, last: Head | Restore | None) -> bool:
        if last is None or last.size != self._tree.size or not self._read_back:
            return True
        return self._clock() - last.at_us >= self._settings.interval_s * MICROS

    def _head(self) -> Head:
        size, root = self._tree.head()
        last = self._last()
        head = Head(
            log=self._signer.public.log,
            size=size,
            root=root.hex(),
            at_us=self._after_last(),
            key=self._signer.key,
        )
        line = self._signer.sign(head)
        self._bring(line)
        self._memory.write(line)
        if last is None or last.size != size:
            with self._store.write() as tx:
                tx.add_tree_head(size, head.at_us, line.decode())
        return head

    def _say(self, line: bytes) -> None:
        """Bring a rotation or a restore outside, however often it takes, also after a crash.

        What comes twice, because an answer was lost, is counted once by whoever reads it.
        """
        self._pending.write(line)
        self._bring_pending()

    def _bring_pending(self) -> None:
        line, said = self._pending.line(), self._pending.read()
        if line is None or said is None:
            return
        self._bring(line.encode())
        if isinstance(said, Rotation) and self._signer.waiting() == said.new:
            self._signer.adopt_next(said.at_us)
        if isinstance(said, Restore):
            self._memory.write(line.encode())
            self._sound(None)
        self._pending.clear()

    def _last(self) -> Head | Restore | None:
        """The newest head that is outside, as far as we remember."""
        said = self._memory.read()
        return said if isinstance(said, (Head, Restore)) else None

    def _bring(self, line: bytes) -> None:
        try:
            self._sink.append(line)
        except Unavailable as error:
            self._sink_error = error.detail
            raise
        self._sink_error = None
        self._read_back = self._read_back or self._sink.cheap

    def _record(self, action: str, subject: str, by: str, at_us: int, statement: str) -> None:
        with self._store.write() as tx:
            tx.append_audit(
                at_us=at_us,
                actor=by,
                action=action,
                subject=subject,
                target="",
                details={"statement": statement},
            )

    def _after_last(self) -> int:
        """Now, or the time of what was said last: statements never run back.

        Also of what may be outside because only the answer was lost.
        """
        last = [one.at_us for one in self._tail()[-1:]]
        memory = self._last()
        known = (self._said_us, *last, 0 if memory is None else memory.at_us)
        self._said_us = max(self._clock(), *known)
        return self._said_us

    def _tips(self) -> list[Checkpoint]:
        """The heads that the log must extend: our memory's, and the newest outside."""
        found = [self._last()]
        found += [one for one in self._tail() if isinstance(one, (Head, Restore))][-1:]
        self._read_back = True
        return [
            Checkpoint(size=one.size, root=bytes.fromhex(one.root), at_us=one.at_us, line=0)
            for one in found
            if one is not None
        ]

    def _tail(self) -> list[Head | Rotation | Restore]:
        """The newest of our statements outside. A sink that is dear to read is read once."""
        if self._read_back and not self._sink.cheap:
            return []
        public, found = self._signer.public.by_id(), []
        for raw in self._sink.tail() or []:
            try:
                line, statement = parsed(raw)
            except Rejected:
                continue
            if signed_by(line, statement.key, public):
                found.append(statement)
        return found

    def _standing(self) -> list[Checkpoint]:
        """Every published head that is not given up, by size: from the sink, or from copies."""
        lines: list[bytes | str] = list(self._sink.lines() or ())
        if not lines:
            with self._store.read() as tx:
                lines = list(reversed(tx.tree_heads(limit=10_000)))
            lines += [line for line in [self._memory.line()] if line is not None]
        return list(read_published(lines, self._signer.public).checkpoints)

    def _differs(self, tip: Checkpoint) -> str | None:
        """How the tree of now fails to extend a published head; None when it does."""
        size = self._tree.size
        if size < tip.size:
            return f"{span(size, tip.size)} are gone: a head of {tip.size} entries was published"
        if self._tree.root_at(tip.size) != tip.root:
            return f"the first {tip.size} entries are not the ones whose head was published"
        return None

    def _sound(self, complaint: str | None) -> None:
        if complaint is not None and complaint != self._alarm:
            log.critical("AUDIT ALARM: %s. No head is signed", complaint)
        if complaint is None and self._alarm is not None:
            log.warning("audit alarm is over: %s", self._alarm)
        self._alarm = complaint
