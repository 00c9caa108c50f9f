"""``trimtab metrics`` and what a configuration declares, brought into the store at each start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.audit.verify import verify
from controller.definition_reader import StoreDefinitions
from controller.settings import DEFAULT_METRICS
from controller.store.sql import SqlReader
from signals.file_lock import FileLock
from tests.cli.conftest import Served
from tests.cli.running import Done, Trimtab


def named(served: Served, name: str) -> dict[str, Any]:
    done = served.as_("viewer")("metrics", "show", name, "--json")
    found: dict[str, Any] = done.json["items"][-1]
    return found


def test_a_metric_is_declared_changed_shown_and_retired(served: Served) -> None:
    admin = served.as_("admin")
    words = ("--type", "float", "--low", "1", "--high", "5", "--unit", "stars")
    made = admin("metrics", "declare", "stars", *words, "--absent", "missing")
    assert (made.code, made.out) == (0, "stars version 1 is in force\n")
    served.plane.world.run(1)
    changed = admin("metrics", "declare", "stars", "--attribution-s", "600", "--owner", "growth")
    assert changed.out == "stars version 2 is in force, owned by growth\n"
    found = named(served, "stars")
    assert (found["low"], found["high"], found["absent"]) == (1.0, 5.0, "missing")
    assert (found["attribution_s"], found["owner"]) == (600, "growth")
    shown = admin("metrics", "show", "stars").out
    assert shown.startswith("stars: business, float, in stars\n")
    assert len(shown.splitlines()) == 4
    assert "1..5 stars" in admin("metrics", "list").out
    assert admin("metrics", "retire", "stars").out == (
        "stars version 2 is retired, owned by growth\n"
    )
    assert "stars" not in admin("metrics", "list").out


def test_the_built_in_metrics_are_listed_with_who_manages_them(served: Served) -> None:
    listed = served.as_("viewer")("metrics", "list").out.splitlines()
    assert "managed by" in listed[0]
    assert {line.split()[0] for line in listed if line.endswith("built_in")} == {*DEFAULT_METRICS}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("declare", "thumbs", "--high", "2"), "in the configuration, under metrics"),
        (("retire", "thumbs"), "declared by the product itself"),
        (("retire", "nothing"), "no metric nothing is in force"),
        (("show", "nothing"), "no metric nothing was ever declared"),
        (("declare", "tone", "--type", "text"), "'boolean', 'float', 'count' or 'duration'"),
        (("declare", "tone", "--low", "3"), "low = 3.0 must be below high = 1.0"),
        (("declare", "Tone"), "^[a-z][a-z0-9_]{0,62}$"),
        (("declare", "error"), "choose another name"),
    ],
)
def test_a_refusal_says_what_would_be_allowed(
    served: Served, words: tuple[str, ...], told: str
) -> None:
    refused = served.as_("admin")("metrics", *words)
    assert refused.code == 2
    assert told in refused.err


def test_what_is_for_ever_is_said_with_the_way_out(served: Served) -> None:
    admin = served.as_("admin")
    admin("metrics", "declare", "kept")
    refused = admin("metrics", "declare", "kept", "--type", "float")
    assert refused.code == 2
    assert "type 'boolean', for ever" in refused.err
    assert "declare a new name" in refused.err


def test_teams_keep_to_their_own_metrics(served: Served, tmp_path: Path) -> None:
    admin = served.as_("admin")
    for name, team in (("gus", "growth"), ("sam", "support")):
        out = tmp_path / f"{name}.key"
        words = ("--role", "operator", "--team", team, "--out", str(out))
        assert admin("keys", "create", name, *words).code == 0
        served.plane.tokens[name] = out.read_text().strip()
    gus, sam = served.as_("gus"), served.as_("sam")
    assert gus("metrics", "declare", "grown").out.endswith("owned by growth\n")
    assert "grown belongs to growth" in sam("metrics", "declare", "grown", "--high", "2").err
    assert gus("metrics", "declare", "grown", "--high", "2").code == 0
    assert "has no team" in served.as_("operator")("metrics", "declare", "mine").err


def test_a_producers_key_says_its_rate_and_influence(served: Served, tmp_path: Path) -> None:
    admin = served.as_("admin")
    words = ("--role", "producer", "--kind", "business", "--out", str(tmp_path / "shop.key"))
    made = admin("keys", "create", "shop", *words, "--rate", "250", "--influence", "0.2")
    assert made.code == 0, made.err
    line = next(one for one in admin("keys", "list").out.splitlines() if " shop " in one)
    assert "250/s" in line.split()
    assert "0.2" in line.split()
    for wrong, told in (
        (("--rate", "0"), "rate_per_s"),
        (("--influence", "2"), "influence"),
        (("--team", "Big"), "team"),
        (("--kind", "command"), "basic, semantic, business"),
    ):
        refused = admin("keys", "create", "shop", "--role", "producer", "--kind", "basic", *wrong)
        assert (refused.code, told in refused.err) == (2, True), refused.err


class Machine:
    """A state directory and its file, started anew whenever the file says something else."""

    def __init__(self, folder: Path) -> None:
        self.trimtab = Trimtab(folder)
        self.config = folder / "trimtab.yaml"
        self.store_db = folder / "state/store.db"

    def starts(self, **metrics: Mapping[str, Any]) -> Done:
        self.config.write_text(yaml.safe_dump({"metrics": metrics}))
        return self.trimtab("init")

    def versions(self, name: str) -> list[tuple[int, str, bool]]:
        reader = SqlReader(self.store_db)
        with reader.read() as tx:
            found = [(v.version, str(v.managed_by), not v.retired_us) for v in tx.versions(name)]
        reader.close()
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_start_has_every_metric_before_anything_else_runs(machine: Machine) -> None:
    machine.starts(reopened={"direction": "down"})
    definitions = StoreDefinitions(machine.store_db)
    assert definitions.current().keys() == {*DEFAULT_METRICS, "reopened"}
    definitions.close()
    assert machine.versions("reopened") == [(1, "file", True)]
    assert verify(machine.store_db).clean


def test_a_start_with_the_same_file_writes_nothing(machine: Machine) -> None:
    machine.starts(reopened={})
    before = machine.store_db.read_bytes()
    machine.starts(reopened={})
    assert machine.store_db.read_bytes() == before


def test_a_changed_file_is_followed_at_the_next_start(machine: Machine) -> None:
    machine.starts(reopened={}, thumbs={"type": "float", "low": -1.0})
    machine.starts(reopened={"attribution_s": 60}, solved={})
    assert machine.versions("reopened") == [(1, "file", False), (2, "file", True)]
    assert machine.versions("solved") == [(1, "file", True)]
    assert machine.versions("thumbs") == [(1, "file", False), (2, "built_in", True)]
    machine.starts()
    assert machine.versions("solved") == [(1, "file", False)]
    assert machine.trimtab("audit", "verify", "--db", str(machine.store_db)).code == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"type": "count"}, "declared with type 'boolean', for ever, and can't become 'count'"),
        ({"unit": "s"}, "declared with unit '', for ever"),
        ({"layer": "semantic"}, "declared with layer 'business', for ever"),
    ],
)
def test_a_file_that_changes_what_is_for_ever_stops_the_start(
    machine: Machine, change: dict[str, Any], told: str
) -> None:
    machine.starts(reopened={})
    refused = machine.starts(reopened=change)
    assert refused.code == 2
    assert "metrics.reopened" in refused.err
    assert told in refused.err
    assert machine.versions("reopened") == [(1, "file", True)]
    assert machine.starts(reopened={}).code == 0


def test_a_running_controller_brings_a_changed_file_in_itself(machine: Machine) -> None:
    machine.starts(reopened={})
    with FileLock(machine.store_db):
        assert machine.starts(reopened={"high": 2.0}).code == 0
        assert machine.versions("reopened") == [(1, "file", True)]
    machine.starts(reopened={"high": 2.0})
    assert machine.versions("reopened") == [(1, "file", False), (2, "file", True)]
