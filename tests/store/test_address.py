"""Where a store may lie, and that no password is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.config.load import validate
from controller.store.address import SCHEMA, StoreAddress, address_of
from controller.store.sql import SqlReader, open_store
from signals.errors import Rejected, Unavailable


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "mysql://localhost/x",
        "postgresql://localhost",
        "postgresql+asyncpg://localhost/x",
        "store.db",
    ],
)
def test_a_url_that_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(Rejected) as refused:
        open_store(url)
    assert (refused.value.field, refused.value.value) == ("store.url", url)
    assert "postgresql://" in str(refused.value.allowed)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cret@db/control",
        "postgresql://db/control?user=ann&password=s3cret",
        "postgresql://ann:s3cret@db:badport/control",
    ],
)
def test_a_password_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(Rejected) as refused:
        address_of(url)
    assert "s3cret" not in f"{refused.value} {refused.value.problem()}"


def test_without_a_url_the_store_is_a_file_of_the_state_directory() -> None:
    settings = validate({"state_dir": "/srv/trimtab"})
    address = settings.store.address(Path("/srv/trimtab/store.db"))
    assert address.file == Path("/srv/trimtab/store.db")
    assert address.words() == "/srv/trimtab/store.db"


def test_the_file_of_settings_may_name_a_database_and_a_schema() -> None:
    url = "postgresql://serve@db.example/control"
    settings = validate({"store": {"url": url, "schema_name": "blue", "password_file": "/run/pw"}})
    address = settings.store.address(Path("ignored.db"))
    assert address == StoreAddress(url, "blue", Path("/run/pw"))
    assert address.file is None
    assert "schema blue" in address.words()


@pytest.mark.parametrize("schema", ["", "Trimtab", "a b", "x;drop", "a" * 64])
def test_a_schema_has_a_plain_name(schema: str) -> None:
    with pytest.raises(Rejected, match="schema"):
        address_of("postgresql://db/control", schema=schema)


def test_a_password_is_read_from_its_file_at_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "password"
    address = StoreAddress("postgresql://ann@127.0.0.1:1/control", SCHEMA, file)
    with pytest.raises(Unavailable, match="password can't be read"), SqlReader(address).read():
        pass
    file.write_text("s3cret\n")
    with pytest.raises(Unavailable) as away, SqlReader(address).read() as tx:
        tx.note("a")
    assert "s3cret" not in f"{away.value}"
