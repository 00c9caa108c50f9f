"""Archive files: lines of the export in zstd frames, 4,096 entries each, to be read one by one.

``zstd -d`` unpacks such a file as a whole; where each frame begins is in the archive's row and in
its audit entry, so a reader who wants one entry unpacks one frame.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
import zstandard

from controller.audit.lines import Line, encode_line
from controller.store.past_port import Archive
from policies.audit import Entry, leaf_hash
from signals.errors import Broken, Rejected, Unavailable

FRAME_ENTRIES: Final = 4096
LEVEL: Final = 9
CACHED_FRAMES: Final = 16
MAX_FRAME_BYTES: Final = 1 << 30


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a file has become."""

    sha256: str
    bytes: int
    frames: tuple[int, ...]
    entries: int


def name_of(first: int, last: int) -> str:
    """The file of a range: names sort as ranges do."""
    return f"audit-{first:012d}-{last:012d}.jsonl.zst"


def write_archive(path: Path, entries: Iterable[tuple[int, bytes, bytes]]) -> Written:
    """Write a new file, durably. Raises ``Broken`` where bytes are not those of their leaf hash.

    ``entries``: index, leaf hash, bytes, in order.
    """
    packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    digest, size, count = hashlib.sha256(), 0, 0
    frames: list[int] = []
    new = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with new.open("wb") as file:
            for frame in _frames(entries):
                packed = packer.compress(b"".join(frame))
                frames.append(size)
                digest.update(packed)
                file.write(packed)
                size, count = size + len(packed), count + len(frame)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        raise Unavailable(f"the archive can't be written: {error}") from error
    return Written(sha256=digest.hexdigest(), bytes=size, frames=tuple(frames), entries=count)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex. Raises ``Unavailable``."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Unavailable(f"the archive can't be read: {error}") from error


def read_archive(path: Path) -> Iterator[Line]:
    """Every line of a file, in order, unchecked. Raises ``Rejected`` where it is no archive."""
    decoder, rest = msgspec.json.Decoder(Line), b""
    try:
        with path.open("rb") as file:
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            while piece := reader.read(1 << 20):
                *whole, rest = (rest + piece).split(b"\n")
                for raw in whole:
                    yield decoder.decode(raw)
    except (OSError, zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Rejected(f"{path.name} is no archive: {error}", field="archive") from error


class Sequential:
    """Archived bytes in rising order of index, from files that are read once."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = sorted(files, key=lambda path: path.name)
        self._lines = (line for path in self._files for line in read_archive(path))
        self._line: Line | None = None

    @classmethod
    def of(cls, folder: Path | None) -> Sequential:
        """Of every archive in a folder; of none without one."""
        return cls(() if folder is None else folder.glob("audit-*.jsonl.zst"))

    def stored(self, index: int) -> bytes | None:
        """The bytes of an entry; None where no file holds it. Raises ``Rejected``."""
        while self._line is None or self._line.index < index:
            self._line = next(self._lines, None)
            if self._line is None:
                return None
        if self._line.index != index or self._line.entry is None:
            return None
        return self._line.entry.encode()


class Archives:
    """The archives that are at hand: files of one folder, looked up by the store's rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._frame = lru_cache(maxsize=CACHED_FRAMES)(self._read_frame)

    def path(self, archive: Archive) -> Path:
        """Where its file is, or should be."""
        return self.folder / Path(archive.file).name

    def stored(self, archives: Sequence[Archive], index: int) -> bytes | None:
        """The bytes of one archived entry, checked against nothing; None without the file."""
        found = next((one for one in archives if one.first <= index <= one.last), None)
        if found is None or not self.path(found).is_file():
            return None
        place, inside = divmod(index - found.first, found.frame_entries)
        lines = self._frame(found, place)
        entry = lines[inside].entry if inside < len(lines) else None
        return None if entry is None else entry.encode()

    def filled(self, archives: Sequence[Archive], entries: Sequence[Entry]) -> list[Entry]:
        """Archived entries as they were, where their file is at hand; else as they are."""
        return [self._filled(archives, one) if one.archived else one for one in entries]

    def _filled(self, archives: Sequence[Archive], entry: Entry) -> Entry:
        stored = self.stored(archives, entry.index)
        if stored is None:
            return entry
        found = msgspec.json.decode(stored, type=Entry)
        if found.index != entry.index:
            raise Broken(f"the archive of audit entry {entry.index} holds {found.index} there")
        return found

    def _read_frame(self, archive: Archive, place: int) -> list[Line]:
        if place >= len(archive.frames):
            return []
        ends = (*archive.frames, archive.bytes)
        try:
            with self.path(archive).open("rb") as file:
                file.seek(archive.frames[place])
                packed = file.read(ends[place + 1] - archive.frames[place])
            unpacked = zstandard.ZstdDecompressor().decompress(
                packed, max_output_size=MAX_FRAME_BYTES
            )
            decoder = msgspec.json.Decoder(Line)
            return [decoder.decode(line) for line in unpacked.splitlines()]
        except (OSError, zstandard.ZstdError, msgspec.DecodeError) as error:
            raise Unavailable(f"{archive.file} can't be read: {error}") from error


def _frames(entries: Iterable[tuple[int, bytes, bytes]]) -> Iterator[list[bytes]]:
    frame: list[bytes] = []
    for index, leaf, stored in entries:
        if leaf_hash(stored) != leaf:
            raise Broken(f"audit entry {index} does not match its leaf hash; verify the log")
        frame.append(encode_line(index, leaf, stored))
        if len(frame) == FRAME_ENTRIES:
            yield frame
            frame = []
    if frame:
        yield frame
