"""Sealing: old entries go to an archive file; their leaf hashes and columns stay in the table.

File first, then the record of it, then the bytes leave: whatever a crash cuts short, an entry's
bytes are in the table or in a file that was read back and recorded.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Final

from controller.audit.archives import (
    FRAME_ENTRIES,
    Archives,
    file_digest,
    name_of,
    read_archive,
    write_archive,
)
from controller.store.past_port import Archive
from controller.store.port import Store
from policies.audit import leaf_hash
from signals.errors import Broken, Conflict, Rejected

log = logging.getLogger(__name__)

AT_ONCE: Final = 1000
"""Entries read, or let go of, in one transaction: a few milliseconds."""
MIN_LEFT: Final = 1
"""The newest entry stays whole: whoever reads the log's end needs no archive."""


class Sealer:
    """Seals a store's log into a folder of archives."""

    def __init__(self, store: Store, archives: Archives, *, clock: Callable[[], int]) -> None:
        self._store = store
        self._archives = archives
        self._clock = clock
        self._lock = threading.Lock()

    def seal(self, *, by: str, before_us: int | None = None, entries: int | None = None) -> Archive:
        """Archive the oldest whole entries: those before a time, or so many; one caller at a time.

        Raises ``Rejected`` unless exactly one is given, ``Conflict`` when there is nothing to seal.
        """
        if (before_us is None) == (entries is None):
            raise Rejected("say either before which time, or how many entries", field="before_us")
        with self._lock:
            return self._seal(by, before_us, entries)

    def _seal(self, by: str, before_us: int | None, entries: int | None) -> Archive:
        self.finish()
        first = self._first()
        last = self._last(first, before_us, entries)
        path = self._archives.folder / name_of(first, last)
        written = write_archive(path, self._stored(first, last))
        if written.entries != last - first + 1:
            raise Broken(f"entries {first}–{last} are not all there; verify the log")
        archive = Archive(
            first=first,
            last=last,
            file=path.name,
            sha256=written.sha256,
            bytes=written.bytes,
            frame_entries=FRAME_ENTRIES,
            frames=written.frames,
            at_us=self._clock(),
            by=by,
        )
        self._check(archive)
        with self._store.write() as tx:
            tx.add_archive(archive, actor=by)
        self._drop(archive)
        log.info("audit entries %d–%d are sealed in %s", first, last, path)
        return archive

    def finish(self) -> None:
        """Let go of bytes that a seal before recorded and did not come to drop."""
        with self._store.read() as tx:
            archives = tx.archives()
            left = archives and tx.stored_entries(archives[-1].last, limit=1)
        if left and left[0][0] == archives[-1].last:
            self._check(archives[-1])
            self._drop(archives[-1])

    def _first(self) -> int:
        with self._store.read() as tx:
            archives = tx.archives()
        return archives[-1].last + 1 if archives else 0

    def _last(self, first: int, before_us: int | None, entries: int | None) -> int:
        with self._store.read() as tx:
            end = tx.audit_size() - 1 - MIN_LEFT
            wanted = first + (entries or 0) - 1 if before_us is None else tx.index_before(before_us)
        last = min(wanted, end)
        if last < first:
            sealed = f"entries up to {first - 1} are" if first else "nothing is"
            raise Conflict(
                f"nothing to seal: {sealed} sealed, no other is old enough, the newest stays",
                field="entries" if before_us is None else "before_us",
            )
        return last

    def _stored(self, first: int, last: int) -> Iterator[tuple[int, bytes, bytes]]:
        while first <= last:
            with self._store.read() as tx:
                found = tx.stored_entries(first, limit=min(AT_ONCE, last - first + 1))
            if not found:
                return
            yield from found
            first = found[-1][0] + 1

    def _check(self, archive: Archive) -> None:
        """Read the file back: what it holds must be what its digest and the leaf hashes say."""
        path = self._archives.path(archive)
        if file_digest(path) != archive.sha256:
            raise Broken(f"{path} is not the archive that was written")
        index = archive.first
        for line in read_archive(path):
            whole = line.entry is not None and leaf_hash(line.entry.encode()).hex()
            if line.index != index or whole != line.leaf_hash:
                raise Broken(f"{path} does not hold entry {index} as it was")
            index += 1
        if index != archive.last + 1:
            raise Broken(f"{path} ends at entry {index - 1}, not {archive.last}")

    def _drop(self, archive: Archive) -> None:
        """The last batch goes last, so ``finish`` sees whether all have gone."""
        for start in range(archive.first, archive.last + 1, AT_ONCE):
            with self._store.write() as tx:
                tx.drop_stored(start, min(start + AT_ONCE - 1, archive.last))
