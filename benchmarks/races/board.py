"""What all operators look at: one list of policies, read again and again by one reader.

Fifty people who each look for themselves would spread out; with one list before them they fall
upon the same few policies. The reader is a witness, too: a revision that was seen never goes back,
whoever was killed in between.
"""

from __future__ import annotations

import threading
from typing import Any

import httpx

from benchmarks.races.acts import Shown, View
from benchmarks.races.books import Books

EVERY_S = 0.04
OTHERS_EVERY = 4
"""Looks at policies for each look at the rest."""
SHOWN = 24


class Board(threading.Thread):
    """Reads until ended."""

    def __init__(self, http: httpx.Client, target: str, books: Books) -> None:
        super().__init__(name="board", daemon=True)
        self._http = http
        self._target = target
        self._books = books
        self._ended = threading.Event()
        self._revs: dict[str, tuple[int, str]] = {}
        self._policies: list[Shown] = []
        self._overrides: list[Shown] = []
        self._changes: list[Shown] = []

    def view(self) -> View:
        """Everything as it was read last."""
        return View(
            target=self._target,
            policies=self._policies,
            overrides=self._overrides,
            changes=self._changes,
        )

    def run(self) -> None:
        """Look, until told to end."""
        looks = 0
        while not self._ended.wait(EVERY_S):
            self._policies = self._witnessed(self._read("/v1/policies", limit=SHOWN))
            if looks % OTHERS_EVERY == 0:
                self._overrides = self._read("/v1/overrides", state="active") or []
                changes = self._read("/v1/changes", limit=SHOWN) or []
                self._changes = [one for one in changes if one["until_us"] is None]
            looks += 1

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join(10)

    def _read(self, path: str, **query: Any) -> list[Shown] | None:
        """A list; None when nobody answers."""
        try:
            answer = self._http.get(path, params={"target": self._target, **query})
        except httpx.HTTPError:
            return None
        if answer.status_code == 200:
            found: list[Shown] = answer.json()["items"]
            return found
        if answer.status_code != 503:
            self._books.fault(f"{path} answered {answer.status_code}: {answer.text[:300]}")
        return None

    def _witnessed(self, items: list[Shown] | None) -> list[Shown]:
        if items is None:
            return self._policies
        for one in items:
            before, now = self._revs.get(one["id"]), (one["rev"], one["state"])
            if before is not None and now != before and now[0] <= before[0]:
                self._books.fault(f"{one['id']} went back from {before} to {now}")
            self._revs[one["id"]] = now
        return items
