"""What the walk-throughs tell of: a running system, a policy on trial, a request it touched."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.house.tree import ROOT
from tests.whole.system import TARGET, System, running_system, wait

CAP = 2


@contextmanager
def scene(folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment in which a page's commands run.

    ``REQUEST``: a request that was served under the policy. Ada proposed it, Bob approved it; each
    has a key file in the folder, as ``ada.key`` and ``bob.key``. Heads go to ``outside/``.
    """
    outside = folder / "outside"
    outside.mkdir()
    audit = f"audit: {{sink: {outside / 'heads.jsonl'}, soon_s: 0.2, interval_s: 1}}\n"
    with running_system(folder, more=audit) as system:
        _keys(system, folder)
        system.propose(CAP, "fewer at once, to see")
        request = _touched(system)
        yield {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TRIMTAB_CONFIG": str(folder / "trimtab.yaml"),
            "REQUEST": request,
            "STATE": str(system.state),
            "DOCS": str(ROOT / "docs"),
            "TERM": "dumb",
            "COLUMNS": "100",
        }


def _keys(system: System, folder: Path) -> None:
    for name, client in (("ada", system.ada), ("bob", system.bob)):
        key = client.headers["Authorization"].removeprefix("Bearer ")
        (folder / f"{name}.key").write_text(key + "\n", encoding="utf-8")


def _touched(system: System) -> str:
    """A request that arrived in the candidate's arm, once the controller knows it."""
    models = httpx.get(f"{system.urls['chat']}/models").raise_for_status().json()
    numbers = itertools.count(1)
    found: list[str] = []

    def served() -> bool:
        body = {
            "model": models["data"][0]["id"],
            "messages": [{"role": "user", "content": f"Count to {next(numbers)}."}],
            "max_tokens": 8,
        }
        headers = {"X-Trimtab-Intent": "batch"}
        url = f"{system.urls['chat']}/chat/completions"
        answer = httpx.post(url, json=body, headers=headers, timeout=30).raise_for_status()
        if '"arm":"candidate"' in answer.headers["X-Trimtab-Stamp"]:
            found.append(answer.json()["id"])
        return bool(found)

    wait("a request in the candidate's arm", served, within_s=60)
    wait("the request's record", lambda: _known(system, found[0]), within_s=20)
    return found[0]


def _known(system: System, request: str) -> bool:
    answer: dict[str, Any] = system.ada.get(f"/v1/requests/{request}").raise_for_status().json()
    return bool(answer["request"]["target"] == TARGET)
