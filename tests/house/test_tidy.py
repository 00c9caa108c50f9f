"""Style is a test: lengths, leftovers, names, and files that nobody needs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.tree import (
    BESIDE,
    PACKAGES,
    ROOT,
    functions,
    imports,
    name_of,
    nodes,
    parsed,
    sources,
    where,
)

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_LINE = 100

EVERYTHING = sources(*PACKAGES, *BESIDE)
LIBRARY = sources(*PACKAGES)
TESTS = sources("tests")

VAGUE_NAMES = {"common", "data", "handle", "handler", "helper", "helpers", "manager", "misc"}
VAGUE_NAMES |= {"process", "stuff", "util", "utils"}
LEFTOVERS = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(home|work|Users|root|mnt|scratch)/\w")
ENTRIES = {"controller.cli.main", "migrations.env"}
"""Run by name, imported by nobody."""
IN_MEMORY = {"signals.bus.memory"}
"""A port without a disk: passes the suite of the real one, and stands in for it in tests."""
MAY_SLEEP: set[str] = {
    # A law must move back by itself while nobody talks to the engine, which would wake it.
    (
        "tests/contract/test_running.py::"
        "test_a_law_switches_within_a_second_of_the_first_interactive_arrival_and_needs_nobody"
    ),
    # Nothing happens during a hold: the engine's own clock must pass an expiry to show it.
    (
        "tests/contract/test_running.py::"
        "test_a_hold_suspends_an_expiry_and_its_remainder_runs_after_release"
    ),
}
"""Tests that wait for real time on purpose; each one needs its reason beside its name."""


def test_no_file_is_long() -> None:
    long = {
        where(path): lines
        for path in EVERYTHING
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_FILE_LINES
    }
    assert long == {}


def test_no_function_is_long() -> None:
    long = {
        f"{where(path, node.lineno)} {node.name}": lines
        for path in EVERYTHING
        for node in functions(path)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_no_line_is_long_or_ends_in_blanks() -> None:
    bad = [
        where(path, number)
        for path in EVERYTHING
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MAX_LINE or line != line.rstrip()
    ]
    assert bad == []


def test_nothing_was_left_for_later() -> None:
    left = [
        where(path, number)
        for path in EVERYTHING
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFTOVERS.search(line)
    ]
    assert left == []


def test_nothing_stands_in_for_the_real_thing() -> None:
    stand_ins = [
        where(path, node.lineno)
        for path in LIBRARY
        for node in nodes(path)
        if isinstance(node, ast.Name) and node.id == "NotImplementedError"
    ]
    assert stand_ins == []


def test_only_the_command_line_prints() -> None:
    prints = [
        where(path, node.lineno)
        for path in LIBRARY
        if not name_of(path).startswith("controller.cli")
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert prints == []


def test_no_exception_is_swallowed() -> None:
    """Neither a bare ``except`` nor one whose only body is ``pass`` for every error there is."""
    swallowed = [
        where(path, node.lineno)
        for path in EVERYTHING
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (broad(node.type) and isinstance(node.body[0], ast.Pass)))
    ]
    assert swallowed == []


def broad(kind: ast.expr) -> bool:
    return isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"}


def test_module_names_say_something() -> None:
    vague = [
        where(path)
        for path in [*LIBRARY, *sources("benchmarks", "examples")]
        if VAGUE_NAMES & set(re.split(r"[./_]", name_of(path)))
    ]
    assert vague == []


def test_no_path_of_one_machine_is_written_down() -> None:
    texts = [*EVERYTHING, ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci" / "run"]
    texts += [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    paths = [
        where(path, number)
        for path in texts
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert paths == []


def test_every_module_is_imported_or_run_by_name() -> None:
    imported = {
        name
        for path in EVERYTHING
        if not name_of(path).startswith("tests.")
        for name, _ in imports(path)
    }
    run_by_name = {
        name
        for path in [*EVERYTHING, ROOT / "Makefile"]
        for name in re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+\b", path.read_text(encoding="utf-8"))
        if "tests" not in path.parts
    }
    dead = [
        where(path)
        for path in LIBRARY
        if path.name not in {"__init__.py", "__main__.py"}
        and path.parent.name != "versions"
        and name_of(path) not in imported | ENTRIES | IN_MEMORY
        and not (name_of(path) in run_by_name and runs_alone(path))
    ]
    assert dead == []


def runs_alone(path: Path) -> bool:
    return '__name__ == "__main__"' in path.read_text(encoding="utf-8")


def test_every_test_folder_is_a_package() -> None:
    bare = {where(path.parent) for path in TESTS if not (path.parent / "__init__.py").is_file()}
    assert bare == set()


def test_every_test_asserts_something() -> None:
    """A test without ``assert``, ``raises`` or a call to something that checks cannot fail."""
    silent = [
        f"{where(path, node.lineno)} {node.name}"
        for path in TESTS
        for node in functions(path)
        if node.name.startswith("test_") and not can_fail(node)
    ]
    assert silent == []


CHECKS = ("raises", "assert", "check", "expect", "must", "until", "wait")
"""What a call that can fail a test begins with; ``until`` and ``wait`` have a bound."""


def can_fail(test: ast.AST) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            if called.lstrip("_").startswith(CHECKS):
                return True
    return False


def test_no_test_is_skipped_or_mocked() -> None:
    banned = re.compile(
        r"pytest\.skip|mark\.skip|mark\.xfail|importorskip|unittest\.mock|MagicMock"
    )
    found = [
        where(path, number)
        for path in TESTS
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if banned.search(line)
    ]
    assert found == []


def test_tests_pass_a_clock_instead_of_sleeping() -> None:
    sleeping = {
        f"{where(path)}::{enclosing(path, node.lineno)}"
        for path in TESTS
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep"
        if not polls(path, node.lineno)
    }
    assert sleeping == MAY_SLEEP


def enclosing(path: Path, line: int) -> str:
    names = [n.name for n in functions(path) if n.lineno <= line <= (n.end_lineno or line)]
    return names[-1] if names else "<module>"


def polls(path: Path, line: int) -> bool:
    """A short sleep inside a loop that waits for something real is a poll, not a delay."""
    loops = [node for node in nodes(path) if isinstance(node, ast.While | ast.For)]
    return any(loop.lineno < line <= (loop.end_lineno or 0) for loop in loops)


@pytest.mark.parametrize("folder", [*PACKAGES, "benchmarks", "examples"])
def test_every_package_says_what_it_is_for(folder: str) -> None:
    silent = [
        where(path)
        for path in sources(folder)
        if path.name == "__init__.py" and ast.get_docstring(parsed(path)) is None
    ]
    assert silent == []


def test_no_key_goes_to_a_proxy_of_the_environment() -> None:
    """Our processes call each other with bearer keys; httpx would use HTTP_PROXY for loopback."""
    calls = re.compile(r"httpx\.(?:Client|AsyncClient|get|post)\((?:[^()]|\([^()]*\))*\)")
    without = [
        f"{where(path)}: {call[:60]}"
        for path in sources(*PACKAGES, "examples")
        for call in calls.findall(path.read_text(encoding="utf-8"))
        if "trust_env=False" not in call
    ]
    assert without == []
