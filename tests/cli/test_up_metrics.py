"""Metrics on a running machine: a team's change is followed, a changed file at the next start."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.layout import Layout
from controller.store.sql import SqlReader
from signals.definitions import Definition
from tests.cli.running import Done, Trimtab, Up, until
from tests.cli.test_up import CHILDREN, configured

REQUEST = "chat.01990000-0000-7000-8000-000000000001"


def started(config: Path) -> Up:
    up = Up(config)
    for name in CHILDREN:
        up.wait_for("ready", name, within_s=60)
    return up


def rewritten(config: Path, **metrics: Any) -> None:
    config.write_text(json.dumps(json.loads(config.read_text()) | {"metrics": metrics}))


def posted(trimtab: Trimtab, key: Path, name: str, value: float) -> Done:
    event = {
        "id": f"{name}-{value}",
        "kind": "business",
        "time": datetime.now(UTC).isoformat(),
        "name": name,
        "value": value,
        "request_id": REQUEST,
    }
    return trimtab("signals", "post", "-", "--key", str(key), stdin=json.dumps(event))


def versions(folder: Path, name: str) -> list[Definition]:
    reader = SqlReader(Layout(folder / "state").store_db)
    with reader.read() as tx:
        found = tx.versions(name)
    reader.close()
    return found


def test_metrics_are_followed_while_it_runs_and_the_file_at_its_next_start(tmp_path: Path) -> None:
    config, trimtab = configured(tmp_path), Trimtab(tmp_path)
    rewritten(config, reopened={"type": "count", "high": 3})
    up, key = started(config), tmp_path / "shop.key"
    try:
        words = ("keys", "create", "shop", "--role", "producer", "--kind", "business")
        assert trimtab(*words, "--out", str(key)).code == 0
        assert posted(trimtab, key, "reopened", 3).code == 0
        assert posted(trimtab, key, "reopened", 4).code == 2
        assert posted(trimtab, key, "stars", 4).code == 2
        stars = ("metrics", "declare", "stars", "--type", "float", "--low", "1", "--high", "5")
        assert trimtab(*stars).code == 0
        until(lambda: posted(trimtab, key, "stars", 4).code == 0, "ingest follows", within_s=10)
        refused = trimtab("metrics", "declare", "reopened", "--high", "9")
        assert (refused.code, "in the configuration" in refused.err) == (2, True)
    finally:
        up.close()

    rewritten(config, reopened={"type": "count", "high": 9})
    up = started(config)
    try:
        assert posted(trimtab, key, "reopened", 4).code == 0
        assert posted(trimtab, key, "stars", 5).code == 0
        highs = [(one.version, one.metric.high) for one in versions(tmp_path, "reopened")]
        assert highs == [(1, 3.0), (2, 9.0)]
        assert trimtab("audit", "verify").out.endswith("clean\n")
    finally:
        up.close()

    rewritten(config, reopened={"type": "boolean"})
    up = Up(config)
    code, told = up.ended(within_s=30)
    up.close()
    assert code == 2
    assert "metrics.reopened: reopened was declared with type 'count', for ever" in told
