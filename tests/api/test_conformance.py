"""The whole API as each role, with calls that schemathesis makes: no surprise in any answer."""

from __future__ import annotations

from typing import Any

from schemathesis import Case

from benchmarks.api.calling import conform
from controller.store.port import ROLES
from tests.api.plane import Plane
from tests.api.records import known

SEED = 20261130


def test_no_answer_is_a_server_error_or_undescribed_as_any_role(plane: Plane) -> None:
    document = plane.app.openapi()
    names = known(plane)

    def send(case: Case[Any], role: str) -> Any:
        bearer = {"Authorization": f"Bearer {plane.tokens[role]}"}
        wanted: dict[str, Any] = case.as_transport_kwargs(headers=bearer)
        wanted.pop("cookies")
        return plane.http.request(**wanted)

    with plane.http:
        tally = conform(document, send, names, roles=ROLES, seed_=SEED, examples=1)
    told = "\n".join(tally.failures[:20])
    assert tally.failures == [], f"seed {SEED}: {len(tally.failures)}\n{told}"
    assert tally.operations == sum(len(found) for found in document["paths"].values())
    assert tally.statuses["producer 200"] <= 4, "a producer may only ask for health"
