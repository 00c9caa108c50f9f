"""The floors hold: what the import contracts cannot say is said here, and the contracts bite."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.house.tree import PACKAGES, ROOT, imports, name_of, nodes, sources, where

CONTRACTS: list[dict[str, Any]] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["tool"]["importlinter"]["contracts"]
PURE = next(each for each in CONTRACTS if "What decides" in each["name"])["source_modules"]
ONLY_IN_THEIR_ADAPTER = {
    "aiokafka": "signals.bus",
    "kafka": "signals.bus",
    "psycopg": "controller.store",
    "redis": "controller.store",
}
OWN_TIME_OR_CHANCE = re.compile(
    r"^(datetime\.(datetime\.)?(now|utcnow|today)|date\.today|open|input"
    r"|uuid\.uuid[1-8]|random\.(random|randint|choice|shuffle|uniform|gauss|seed)|np\.random\.\w+)$"
)


def within(module: str, packages: list[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


PURE_FILES = [path for path in sources(*PACKAGES) if within(name_of(path), PURE)]


def test_the_pure_modules_are_there() -> None:
    assert {name_of(path) for path in PURE_FILES} >= set(PURE)


@pytest.mark.parametrize("path", PURE_FILES, ids=name_of)
def test_what_decides_asks_for_time_and_chance(path: Path) -> None:
    calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
    own = [
        where(path, call.lineno)
        for call in calls
        if OWN_TIME_OR_CHANCE.match(called := ast.unparse(call.func))
        or (called.split(".")[-1] in {"Random", "default_rng"} and not call.args)
    ]
    assert own == []


def test_what_is_kept_in_one_adapter_stays_there() -> None:
    strays = [
        f"{where(path, line)} {name}"
        for path in sources(*PACKAGES)
        for name, line in imports(path)
        if (home := ONLY_IN_THEIR_ADAPTER.get(name.split(".")[0]))
        and not within(name_of(path), [home])
    ]
    assert strays == []


KNOWN_ONLY_ELSEWHERE = (
    "torch",
    "fastapi",
    "sqlalchemy",
    "sqlite3",
    "kafka",
    "cel_expr_python",
    "jwt",
)
BREACHES = {
    "policies/breach.py": "import time\nimport signals.errors\nimport controller.state\n",
    "controller/breach.py": "".join(f"import {name}\n" for name in KNOWN_ONLY_ELSEWHERE),
}


def test_every_contract_is_broken_by_its_breach(tmp_path: Path) -> None:
    """A contract that cannot break is no contract."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, text in BREACHES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    program = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; lint_imports_command(['--no-cache'])"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    said = " ".join(done.stdout.split())
    for contract in CONTRACTS:
        assert f"{contract['name']} BROKEN" in said, said
