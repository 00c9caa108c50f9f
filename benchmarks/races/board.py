"""What all operators look at: one list of policies, read again and again by one reader.

Fifty people who each look for themselves would spread out; with one list before them they fall
upon the same few policies. The reader is a witness, too: a revision that was seen never goes back,
whoever was killed in between.
"""

from __future__ import annotations

import threading

import httpx

from benchmarks.races.acts import Shown, View
from benchmarks.races.books import Books

EVERY_S = 0.04
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
        self.looks = 0

    def view(self) -> View:
        """The list as it was read last."""
        return View(target=self._target, policies=self._policies)

    def run(self) -> None:
        """Look, until told to end."""
        while not self._ended.wait(EVERY_S):
            try:
                answer = self._http.get(
                    "/v1/policies", params={"target": self._target, "limit": SHOWN}
                )
            except httpx.HTTPError:
                continue
            if answer.status_code == 200:
                self._take(answer.json()["items"])
            elif answer.status_code != 503:
                self._books.fault(f"the list answered {answer.status_code}: {answer.text}")

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join(10)

    def _take(self, items: list[Shown]) -> None:
        for one in items:
            before = self._revs.get(one["id"])
            now = (one["rev"], one["state"])
            if before is not None and (
                now[0] < before[0] or (now[0] == before[0] and now != before)
            ):
                self._books.fault(f"{one['id']} went back from {before} to {now}")
            self._revs[one["id"]] = now
        self._policies = items
        self.looks += 1
