"""Compile the kernels with the system's C compiler, once per machine and version."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from signals.errors import Unavailable

HERE = Path(__file__).parent
SOURCES = ("lanes.h", "pool.h", "product.h", "attention.h", "sample.h", "forward.c")
FLAGS = (
    "-std=gnu11",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wno-psabi",
    "-shared",
    "-fPIC",
    "-pthread",
)
COMPILE_LIMIT_S = 120


def compile_kernels(
    cache: Path, *, head_dim: int, group: int, target: tuple[str, ...] = ("-march=native",)
) -> Path:
    """The shared library for this machine, from ``cache`` or freshly compiled into it.

    ``group``: query heads per KV head. Raises ``Unavailable`` without a C compiler, or when it
    refuses the source.
    """
    compiler = find_compiler()
    defines = (f"-DHEAD_DIM={head_dim}", f"-DGROUP={group}")
    command = [compiler, *FLAGS, *target, *defines]
    library = cache / "kernels" / f"kernels-{_fingerprint(command)}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        _compile(command, library)
    return library


def find_compiler() -> str:
    """``$CC``, or the first of cc, gcc, clang on the path."""
    wanted = os.environ.get("CC")
    found = next(
        (
            path
            for name in ([wanted] if wanted else ["cc", "gcc", "clang"])
            if name and (path := shutil.which(name))
        ),
        None,
    )
    if found is None:
        raise Unavailable(
            f"the embedded engine compiles its kernels at first start and found no C compiler"
            f" ({wanted or 'cc, gcc, clang'}); install gcc or clang, or set CC"
        )
    return found


def _fingerprint(command: list[str]) -> str:
    digest = hashlib.sha256()
    version = subprocess.run(
        [command[0], "--version"], capture_output=True, check=False, timeout=COMPILE_LIMIT_S
    )
    for part in (*command, platform.machine(), _cpu_flags()):
        digest.update(part.encode() + b"\0")
    digest.update(version.stdout)
    for source in SOURCES:
        digest.update((HERE / source).read_bytes())
    return digest.hexdigest()[:20]


def _cpu_flags() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else [platform.processor()]
    return next((line for line in lines if line.startswith(("flags", "Features"))), lines[0])


def _compile(command: list[str], library: Path) -> None:
    """Build beside the target, then rename: two starting engines cannot see half a library."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        done = subprocess.run(
            [*command, str(HERE / "forward.c"), "-o", str(made), "-lm"],
            capture_output=True,
            text=True,
            check=False,
            timeout=COMPILE_LIMIT_S,
        )
        if done.returncode != 0:
            raise Unavailable(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        made.rename(library)
