"""Commands from the command line: given, then watched for a moment until they are carried out."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from controller.cli.client import Client
from controller.cli.tables import when

POLL_S = 0.1
MAX_COMMANDS = 1000
"""Of one call of the command line: a million letters."""

Wait = Annotated[
    float, typer.Option("--wait", min=0, max=600, help="Seconds to wait until it is carried out.")
]


def give(client: Client, path: str, body: object, *, wait_s: float) -> Any:
    """Give a command and return what became of it within ``wait_s``, or that it still waits."""
    return watched(client, client.post(path, body)["id"], wait_s=wait_s)


def watched(client: Client, command_id: str, *, wait_s: float) -> Any:
    """What became of a command within ``wait_s``, or that it still waits."""
    until_s = time.monotonic() + wait_s
    while True:
        found = client.get(f"/v1/commands/{command_id}")
        if found["state"] != "waiting" or time.monotonic() >= until_s:
            return found
        time.sleep(POLL_S)


def give_until_done(client: Client, path: str, body: dict[str, Any], *, wait_s: float) -> list[Any]:
    """Give a command about selected letters, and others until none are left that it selects.

    Stops at the first that is not carried out within ``wait_s``. Raises what ``give`` does.
    """
    given = [give(client, path, body, wait_s=wait_s)]
    waiting = _left(given[0])
    while waiting and len(given) < MAX_COMMANDS:
        target, after = waiting.pop(0)
        where = {**body["where"], "target": target, "after": after}
        given.append(give(client, path, {**body, "where": where}, wait_s=wait_s))
        waiting += _left(given[-1])
    return given


def _left(command: Any) -> list[tuple[str, int]]:
    """Where letters are left, and after which offset."""
    outcomes = [(event["target"], event["outcome"]) for event in command["events"]]
    return [
        (target, outcome["last_offset"])
        for target, outcome in outcomes
        if outcome is not None and outcome["left"]
    ]


def told(command: Any) -> str:
    """A command and each of its events, in words."""
    head = (
        f"{command['id']} {command['command']} by {command['by']} at {when(command['at_us'])}:"
        f" {command['state']} ({command['reason']})"
    )
    return "\n".join([head, *(f"  {_event(event)}" for event in command["events"])])


def _event(event: Any) -> str:
    outcome = event["outcome"]
    if outcome is None:
        return f"{event['target']}: {event['state']}"
    if outcome["subject"] is not None:
        verb = "set aside" if outcome["command"] == "quarantine" else "let in again"
        return f"{event['target']}: {outcome['subject']} is {verb}"
    parts = [f"{outcome['done']} done"]
    parts += [f"{outcome['failed']} failed again"] if outcome["failed"] else []
    parts += [f"{outcome['absent']} not there"] if outcome["absent"] else []
    parts += [f"{outcome['left']} left for another command"] if outcome["left"] else []
    return f"{event['target']}: {', '.join(parts)}"
