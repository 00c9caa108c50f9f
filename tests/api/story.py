"""A policy tried and taken back, a hold, a restart, a stranger's change: a past to ask about."""

from __future__ import annotations

from typing import Any

from policies.runtime_config import Patch, SettingChange
from tests.api.plane import Plane


class Story:
    """A policy tried, reverted; a hold; a restart; a stranger's change; in this order."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.at: dict[str, int] = {}
        plane.world.run(2)
        self.mark("baseline")
        self.policy_id = str(plane.approved()["id"])
        plane.world.run(30, until=lambda: self.cap() == 16)
        plane.world.run(1)
        self.mark("candidate")
        self.request_id = plane.world.rows.requests[-1].request_id
        plane.world.run(2)
        plane.post(f"/v1/policies/{self.policy_id}/revert", {"reason": "=2+2"})
        plane.world.run(2)
        self.mark("reverted")
        plane.post("/v1/targets/chat/hold", {"reason": "an alarm"})
        plane.world.run(2)
        self.mark("held")
        plane.post("/v1/targets/chat/release", {"reason": "it was not us"})
        plane.world.run(2)
        self.mark("released")
        plane.world.engine.reachable = False
        plane.world.run(5)
        self.mark("away")
        plane.world.run(1)
        self.mark("died")
        plane.world.engine.die()
        plane.world.run(3)
        plane.world.engine.reachable = True
        plane.world.run(3)
        self.mark("back")
        self.foreign()
        plane.world.run(3)
        self.mark("foreign")

    def mark(self, name: str) -> None:
        self.at[name] = self.plane.world.clock_us()

    def cap(self) -> int:
        return self.plane.world.cap()

    def foreign(self) -> None:
        world = self.plane.world
        seen = world.engine.read()
        world.engine.patch(
            Patch(
                change_id="a-stranger",
                epoch=seen.epoch,
                expected=seen.expected,
                settings=(SettingChange(knob="active_cap", value=5),),
                trial=seen.trial,
            )
        )

    def settings(self, name: str, more: str = "") -> Any:
        answer = self.plane.get(f"/v1/targets/chat/settings?at={self.at[name]}{more}")
        assert answer.status == 200
        return answer.body

    def place(self, name: str) -> Any:
        found = self.settings(name)["replicas"][0]
        assert found["known"]
        return next(one for one in found["places"] if one["place"] == "active_cap")

    def diff(self, first: str, then: str) -> Any:
        span = f"from={self.at[first]}&to={self.at[then]}"
        answer = self.plane.get(f"/v1/targets/chat/settings/diff?{span}")
        assert answer.status == 200
        return answer.body

    def pages(self, path: str, query: str, *, limit: int) -> list[Any]:
        found: list[Any] = []
        before = ""
        while True:
            page = self.plane.get(f"{path}?limit={limit}{query}{before}").body
            found += page["items"]
            if page["next"] is None:
                return found
            before = f"&before={page['next']}"
