"""An event that can't be folded, or a body that can't be read, stands in nobody else's way."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from signals.codec import Malformed, split
from signals.errors import Rejected
from signals.events import SeenTrial
from signals.features.reader import SqliteFeatures
from signals.wire import read_posted
from tests.signals.making import T0_US, Folding, arrived, request_id, stamp


def test_an_entry_that_fails_by_itself_is_buried_and_the_others_count(tmp_path: Path) -> None:
    path = tmp_path / "features.db"
    folding = Folding(path)
    plain = stamp()
    poisoned = msgspec.structs.replace(
        plain, trial=SeenTrial(id="tri", block=2**63, arm="candidate")
    )
    records = [arrived(n, n, T0_US + n) for n in range(1, 8)]
    records[3] = msgspec.structs.replace(records[3], stamp=poisoned)
    folding.take(*records)
    folding.close()
    features = SqliteFeatures(path)
    found = [n for n in range(1, 8) if features.request(request_id(n)) is not None]
    assert found == [1, 2, 3, 5, 6, 7]
    letters = features.dead_letters()
    assert [letter.reason for letter in letters] == ["unfoldable"]
    assert "OverflowError" in letters[0].detail
    features.close()


def test_a_document_nested_without_end_is_refused_by_itself() -> None:
    deep = b'{"id":"a","kind":"basic","name":"x","data":{"record":"arrived","zz":' + b"[" * 100_000
    with pytest.raises(Rejected, match="nested too deeply"):
        read_posted(deep)
    with pytest.raises(Malformed):
        split(b"[" * 100_000, "application/json", max_events=10)


def test_a_folder_with_signs_that_mean_something_in_addresses_works(tmp_path: Path) -> None:
    folder = tmp_path / "c# 50%20off?x=1"
    folder.mkdir()
    folding = Folding(folder / "features.db")
    folding.take(arrived(1, 1, T0_US))
    folding.close()
    features = SqliteFeatures(folder / "features.db")
    assert features.request(request_id(1)) is not None
    features.close()
