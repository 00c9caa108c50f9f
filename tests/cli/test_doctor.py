"""What doctor makes of what it sees, and of what it can't see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.doctoring import Finding, Seen, examine, exit_code
from tests.cli.conftest import Served
from tests.cli.running import Trimtab
from tests.signals.processes import free_port

NOW_US = 1_800_000_000_000_000
S = 1_000_000


WALL = {
    "wall_bytes": 512 * 2**20,
    "exhausted_us": NOW_US - 7200 * S,
    "highest": 20,
    "context_tokens": 300.0,
}


def engine(**changed: Any) -> dict[str, Any]:
    return {"replica": "r0", "last_us": NOW_US - S, "gaps": 0, "dropped": 0} | changed


def glance(**changed: Any) -> dict[str, Any]:
    knob = {"knob": "active_cap", "observed": {"value": 8}}
    replica = {"name": "r0", "url": "u", "reachable": True, "problem": None, "differs": []}
    well: dict[str, Any] = {
        "control": {"hold": False, "killed": False, "actor": None, "reason": None},
        "replicas": [replica],
        "knobs": [knob],
        "engines": [engine()],
        "watermark_us": NOW_US - 2 * S,
        "drift": {"alarm": None},
        "wall": None,
    }
    return well | changed


def producer(**changed: Any) -> dict[str, Any]:
    well: dict[str, Any] = {
        "producer": "shop",
        "events": 100,
        "kinds": {"business": {"events": 100}},
        "joined": 100,
        "expired": 0,
        "join_rate": 1.0,
        "waiting": 0,
        "dead_by_reason": {},
        "dropped": 0,
        "clock": {"flags": [], "most_ahead_ms": 0.0, "least_delay_ms": 20.0},
        "influence": 1.0,
        "quarantine": None,
    }
    return well | changed


def bus(**changed: Any) -> dict[str, Any]:
    part: dict[str, Any] = {
        "partition": 0,
        "lag": {"features": 3},
        "bytes": 1_000_000,
        "oldest_us": NOW_US - 3600 * S,
    }
    sizes = {"max_bytes": 10_000_000, "hard_bytes": 20_000_000, "retention_s": 691_200}
    return {"kind": "sqlite", "partitions": [part | changed], **sizes}


def rate(**producers: int) -> dict[str, Any]:
    """A rate that producers gave so many values of; none of them is over its cap."""
    total = sum(producers.values())
    return {
        "with_value": total,
        "by_producer": {
            name: {"requests": count, "share": count / total} for name, count in producers.items()
        },
    }


WINDOW = {"incomplete": False}


def seen(**changed: Any) -> Seen:
    well: dict[str, Any] = {
        "now_us": NOW_US,
        "targets": {"chat": glance()},
        "features": {"chat": []},
        "letters": {"chat": {}},
        "rates": {"chat": {"copied": rate(shop=1, mall=9)}},
        "producers": [producer()],
        "bus": bus(),
    }
    return Seen(**(well | changed))


def bad(found: Seen) -> list[Finding]:
    return [finding for finding in examine(found) if finding.level != "OK"]


def test_a_sound_system_has_only_findings_that_are_fine() -> None:
    found = examine(seen())
    assert {finding.level for finding in found} == {"OK"}
    assert any("live knobs: active_cap 8" in finding.what for finding in found)
    assert exit_code(found) == 0


UNWELL: list[tuple[dict[str, Any], str, str, str]] = [
    (
        {"targets": {"chat": glance(engines=[engine(last_us=NOW_US - 10 * S)])}},
        "WARN",
        "chat",
        "last record 10.0 s ago",
    ),
    (
        {"targets": {"chat": glance(engines=[engine(last_us=NOW_US - 60 * S)])}},
        "FAIL",
        "chat",
        "last record 60.0 s ago",
    ),
    (
        {"targets": {"chat": glance(engines=[engine(gaps=3, dropped=2)])}},
        "WARN",
        "chat",
        "3 records missing, 2 dropped",
    ),
    (
        {"targets": {"chat": glance(wall=WALL)}},
        "WARN",
        "chat",
        (
            "memory was exhausted 2.0 h ago at 512 MiB of KV;"
            " 20 sequences of 300 tokens are allowed at once"
        ),
    ),
    (
        {"targets": {"chat": glance(drift={"alarm": {"words": "ttft:live is off"}})}},
        "WARN",
        "chat",
        "drift: ttft:live is off; no trial starts",
    ),
    ({"targets": {"chat": glance(engines=[])}}, "WARN", "chat", "no engine has ever reported"),
    (
        {"targets": {"chat": glance(watermark_us=NOW_US - 60 * S)}},
        "WARN",
        "chat",
        "features are 60.0 s behind",
    ),
    (
        {"features": {"chat": [{"incomplete": True}, WINDOW]}},
        "WARN",
        "chat",
        "1 of 2 windows",
    ),
    ({"letters": {"chat": {"conflict": 4}}}, "WARN", "chat", "4 dead letters: conflict"),
    ({"bus": bus(lag={"features": 50_000})}, "WARN", "bus 0", "has 50000 events before it"),
    ({"bus": bus(lag={"features": None})}, "WARN", "bus 0", "nobody knows"),
    ({"bus": bus(bytes=12_000_000)}, "WARN", "bus 0", "12.0 MB"),
    ({"bus": bus(bytes=19_000_000)}, "FAIL", "bus 0", "19.0 MB"),
    ({"bus": bus(oldest_us=NOW_US - 700_000 * S)}, "WARN", "bus 0", "194.4 h old"),
    ({"producers": [producer(join_rate=0.5, expired=100)]}, "WARN", "shop", "50.0 % joined"),
    ({"producers": [producer(dropped=7)]}, "WARN", "shop", "7 of its dead letters were dropped"),
    (
        {"producers": [producer(quarantine={"actor": "ana", "reason": "spam"})]},
        "WARN",
        "shop",
        "set aside by ana: spam",
    ),
    (
        {
            "producers": [
                producer(clock={"flags": ["ahead"], "most_ahead_ms": 9000.0, "least_delay_ms": 0.0})
            ]
        },
        "WARN",
        "shop",
        "9.0 s ahead",
    ),
    (
        {
            "producers": [
                producer(clock={"flags": ["behind"], "most_ahead_ms": 0.0, "least_delay_ms": 4e5})
            ]
        },
        "WARN",
        "shop",
        "sooner than 400 s",
    ),
    (
        {
            "rates": {"chat": {"copied": rate(shop=9, mall=1)}},
            "producers": [producer(influence=0.3)],
        },
        "WARN",
        "shop",
        "90 % of the values of chat's copied, 90 % of its rate (capped at 30 %)",
    ),
]


@pytest.mark.parametrize(
    ("changed", "level", "about", "what"), UNWELL, ids=[row[3] for row in UNWELL]
)
def test_what_is_wrong_is_found_with_its_level_and_what_to_do(
    changed: dict[str, Any], level: str, about: str, what: str
) -> None:
    (found,) = bad(seen(**changed))
    assert (found.level, found.about) == (level, about)
    assert what in found.what
    assert found.advice
    assert exit_code([found]) == {"WARN": 1, "FAIL": 2}[level]


def test_the_worst_comes_first() -> None:
    found = examine(seen(letters={"chat": {"conflict": 1}}, bus=bus(bytes=19_500_000)))
    assert [finding.level for finding in found][:3] == ["FAIL", "WARN", "OK"]


def test_a_share_is_told_for_each_producer_of_a_rate() -> None:
    found = examine(seen(producers=[producer(), producer(producer="mall", influence=0.3)]))
    told = [(one.level, one.about) for one in found if "of its rate" in one.what]
    assert told == [("WARN", "mall"), ("OK", "shop")]


def test_without_serve_it_says_what_it_cannot_see(tmp_path: Path) -> None:
    key = tmp_path / "some.key"
    key.write_text("x")
    settings = {"serve": {"port": free_port()}, "ingest": {"port": free_port()}}
    trimtab = Trimtab(tmp_path)
    (tmp_path / "trimtab.yaml").write_text(json.dumps(settings))
    done = trimtab("--key-file", str(key), "doctor", "--json")
    assert done.code == 2
    assert [one["about"] for one in done.json["findings"]] == ["serve", "ingest"]
    assert {what.partition(":")[0] for what in done.json["unseen"]} == {
        "targets, features, dead letters and producers",
        "the bus",
    }
    assert "not seen: the bus" in trimtab("--key-file", str(key), "doctor").out


def test_a_key_bounded_to_one_target_is_told_what_it_does_not_show(served: Served) -> None:
    served.plane.tokens["local"] = served.plane.key("local", "viewer", targets=("chat",))
    done = served.as_("local")("doctor", "chat", "--json")
    assert [what.partition(":")[0] for what in done.json["unseen"]] == ["producers"]
    assert any(one["about"] == "chat" for one in done.json["findings"])
