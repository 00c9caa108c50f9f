"""After the races: everything is brought to its end, and must let itself be brought there.

Two who may do everything release, reject and revert what is left. What then does not end is stuck.
At last they let one more policy live its whole life, with nobody disturbing it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx

from benchmarks.races.acts import Shown, Wish, about, baseline, end, on_target, proposal, unset
from benchmarks.races.books import Act, Books, Kind
from benchmarks.races.operators import Person, attempt
from policies.lifecycle import FINAL

SETTLES_S: Final = 20.0
LIVES_S: Final = 8.0
POLL_S: Final = 0.03
PAGE: Final = 200
BASELINE, CANDIDATE = 8, 16
ENDS: Final[dict[str, Kind]] = {
    "pending": "reject",
    "on_trial": "revert",
    "paused": "revert",
    "in_force": "revert",
    "kept": "revert",
}
"""What ends a policy in this state; one in another state ends by itself."""


class Settling:
    """``closers``: two people. What they do is in the books, too."""

    def __init__(self, closers: Sequence[Person], target: str, books: Books) -> None:
        self._closers = closers
        self._target = target
        self._books = books
        self._acts = 0

    def settle(self) -> dict[str, str]:
        """End everything; the state of each policy then. Faults for what does not end."""
        deadline_s = time.monotonic() + SETTLES_S
        self._do(baseline(self._target, BASELINE, self._mark()))
        while self._end_all() and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        found = {one["id"]: str(one["state"]) for one in self.policies()}
        stuck = [f"{name} is {state}" for name, state in found.items() if state not in FINAL]
        if stuck:
            self._books.fault(f"stuck: {'; '.join(stuck)}")
        return found

    def _end_all(self) -> bool:
        """End what can be ended now; whether anything is left."""
        control = self._get(f"/v1/targets/{self._target}")["control"]
        latched = control["hold"] or control["killed"]
        if latched:
            self._do(on_target("release", self._target, self._mark()))
        overrides = self._list("/v1/overrides", state="active")
        for one in overrides:
            self._do(unset(one, self._mark()))
        changes = [one for one in self._list("/v1/changes") if one["until_us"] is None]
        for one in changes:
            self._do(end(one, self._mark()))
        left = [one for one in self.policies() if one["state"] not in FINAL]
        for one in left:
            if one["state"] in ENDS:
                self._do(about(ENDS[one["state"]], one, self._mark()))
        return bool(latched or overrides or changes or left)

    def still_alive(self) -> None:
        """One more policy: proposed, approved, tried, taken back; the engine follows each step."""
        self._until("the baseline", lambda: self.cap() == BASELINE)
        made = self._do(proposal(self._target, "active_cap", CANDIDATE, self._mark()))
        if made.made is None:
            self._books.fault(f"nothing can be proposed any more: {made.status} {made.detail}")
            return
        policy = self._policy(made.made)
        self._do(about("approve", policy, self._mark()), self._closers[1])
        self._until("the trial", lambda: self._policy(policy["id"])["state"] == "on_trial")
        self._until("the candidate", lambda: self.cap() == CANDIDATE)
        self._do(about("revert", policy, self._mark()))
        self._until("the way back", lambda: self._policy(policy["id"])["state"] == "reverted")
        self._until("the baseline again", lambda: self.cap() == BASELINE)

    def agrees(self, *, latched: bool) -> None:
        """Latch, store and engine say the same, and the audit verifies."""
        control = self._get(f"/v1/targets/{self._target}")["control"]
        if bool(control["hold"] or control["killed"]) != latched:
            self._books.fault(
                f"the latch {'stands' if latched else 'is off'}, the store: {control}"
            )
        settings = self._get(f"/v1/targets/{self._target}/settings")
        for replica in settings["replicas"]:
            if replica["differs"] or not replica["reachable"]:
                self._books.fault(f"the engine is not as wished: {replica}")
        verified = self._get("/v1/audit/verify")
        if not verified["clean"]:
            self._books.fault(f"the audit does not verify: {verified['result']['findings']}")

    def policies(self) -> list[Shown]:
        """Every policy there is."""
        return self._list("/v1/policies")

    def _list(self, path: str, **query: Any) -> list[Shown]:
        found: list[Shown] = []
        more: dict[str, Any] = {}
        while True:
            page = self._get(path, target=self._target, limit=PAGE, **query, **more)
            found += page["items"]
            if page["next"] is None:
                return found
            more = {"before": page["next"]}

    def cap(self) -> int:
        """What the engine has."""
        settings = self._get(f"/v1/targets/{self._target}/settings")
        shown = settings["replicas"][0]["observed"]["settings"]
        return int(next(one["value"] for one in shown if one["knob"] == "active_cap"))

    def _policy(self, policy_id: str) -> Shown:
        return self._get(f"/v1/policies/{policy_id}")

    def _do(self, wanted: Wish, person: Person | None = None) -> Act:
        act = attempt(person or self._closers[0], wanted)
        self._books.note(act)
        return act

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        answer = self._closers[0].http.get(path, params=query)
        if not answer.is_success:
            raise httpx.HTTPStatusError(answer.text, request=answer.request, response=answer)
        found: dict[str, Any] = answer.json()
        return found

    def _mark(self) -> str:
        self._acts += 1
        return f"race-{10_000}-{self._acts}."

    def _until(self, what: str, so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + LIVES_S
        while not so():
            if time.monotonic() > deadline_s:
                self._books.fault(f"at rest, waited {LIVES_S:g} s for {what}")
                return
            time.sleep(POLL_S)
