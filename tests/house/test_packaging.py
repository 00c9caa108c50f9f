"""The wheel holds every package of the tree, and works without the tree."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from tests.house.tree import BESIDE, PACKAGES, ROOT, imports, name_of, sources

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NOT_IMPORTED_BUT_NEEDED = {"httptools", "uvloop"}
"""uvicorn runs on them, by name."""
PART_OF = {"annotated-types": "pydantic", "pydantic-core": "pydantic", "starlette": "fastapi"}
"""Imported beside the package that is built on them, in the version that this one asks for."""


def listed() -> set[str]:
    return set(PROJECT["tool"]["setuptools"]["packages"])


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!~\[; ]", distribution)[0]).lower()


def test_the_listed_packages_are_the_packages_of_the_tree() -> None:
    tree = {name_of(path) for path in sources(*PACKAGES) if path.name == "__init__.py"}
    assert listed() == tree


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in sources(*PACKAGES, "tests", "benchmarks", "examples")}
    bare = [folder for folder in folders if not (folder / "__init__.py").is_file()]
    assert bare == []


def test_every_file_beside_the_modules_is_package_data_and_nothing_else_is() -> None:
    declared = PROJECT["tool"]["setuptools"]["package-data"]
    shipped = {
        path
        for package, patterns in declared.items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    beside = {
        path
        for folder in PACKAGES
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    assert shipped == beside


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    owners = packages_distributions()
    imported = {name.split(".")[0] for path in sources(*PACKAGES) for name, _ in imports(path)}
    outside = imported - {*PACKAGES, *BESIDE} - sys.stdlib_module_names
    used = {normal(owners[name][0]) for name in outside}
    used = {PART_OF.get(each, each) for each in used}
    declared = {normal(each) for each in PROJECT["project"]["dependencies"]}
    spoken_for = {each for each in declared if each.startswith("opentelemetry-")}
    used = {each for each in used if not each.startswith("opentelemetry-")}
    assert used == declared - spoken_for - NOT_IMPORTED_BUT_NEEDED
    assert bool(spoken_for) == ("opentelemetry" in outside)


def test_what_stands_beside_the_wheel_imports_what_the_extras_name() -> None:
    owners = packages_distributions()
    project = PROJECT["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    declared = {normal(each) for each in [*project["dependencies"], *extras]}
    names = {name.split(".")[0] for path in sources(*BESIDE) for name, _ in imports(path)}
    outside = names - {*PACKAGES, *BESIDE} - sys.stdlib_module_names
    used = {normal(owners[name][0]) for name in outside}
    assert {PART_OF.get(each, each) for each in used} <= declared


def test_every_declared_dependency_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {normal(line) for line in lines if "==" in line}
    project = PROJECT["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    assert {normal(each) for each in [*project["dependencies"], *extras]} <= pins
    assert not any("+" in line or "@" in line for line in lines)


def test_the_command_is_a_function_of_the_tree() -> None:
    module, function = PROJECT["project"]["scripts"]["trimtab"].split(":")
    path = ROOT / (module.replace(".", "/") + ".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tree (no stale ``build``) and unpacked elsewhere."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    arguments = ["--wheel", "--no-isolation", "--outdir", str(built), str(source)]
    done = subprocess.run(
        [sys.executable, "-m", "build", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=built,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,) = built.glob("*.whl")
    place = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


IMPORT_ALL = """
import importlib, pathlib, sys
place = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(place))
names = [
    ".".join(path.relative_to(place).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(place.rglob("*.py"))
]
scripts = {"migrations.env"} | {name for name in names if name.endswith(".__main__")}
for name in names:
    if name in scripts:
        continue
    module = importlib.import_module(name)
    assert pathlib.Path(module.__file__).is_relative_to(place), module.__file__
print(len(names))
"""


def test_every_module_of_the_wheel_imports_without_the_tree(unpacked: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", IMPORT_ALL, str(unpacked)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=unpacked,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == len(sources(*PACKAGES))


def test_the_wheel_holds_the_package_data_and_the_licence(unpacked: Path) -> None:
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*")}
    for package, patterns in PROJECT["tool"]["setuptools"]["package-data"].items():
        for pattern in patterns:
            for path in (ROOT / package.replace(".", "/")).glob(pattern):
                assert path.relative_to(ROOT).as_posix() in held
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_no_repository_folder_strays_into_the_wheel(unpacked: Path) -> None:
    tops = {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == set(PACKAGES)
