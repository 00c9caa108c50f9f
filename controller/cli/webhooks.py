"""``trimtab webhooks``: receivers of what happens here, and what became of telling them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when
from controller.webhooks.posting import read_secrets
from controller.webhooks.signing import TOLERANCE_S, verify

app = typer.Typer(
    help="Receivers of what happens here.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(help="A webhook's name, as configured.")]


@app.command("list")
def listed(ctx: typer.Context, as_json: Json = False) -> None:
    """List webhooks: how far each is behind the audit, what waits, what was given up.

    \b
    trimtab webhooks list
    trimtab webhooks list --json
    """
    with root_of(ctx).client() as client:
        show(client.get("/v1/webhooks"), as_json, _hooks)


@app.command()
def deliveries(
    ctx: typer.Context,
    name: Name,
    state: Annotated[
        str | None, typer.Option(help="Only these: waiting, delivered or given_up.")
    ] = None,
    before: Annotated[int | None, typer.Option(help="The next page, as the last one said.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    as_json: Json = False,
) -> None:
    """List what a webhook was sent, or is owed, newest first.

    \b
    trimtab webhooks deliveries ops --state given_up
    """
    with root_of(ctx).client() as client:
        found = client.get(
            f"/v1/webhooks/{name}/deliveries", state=state, before=before, limit=limit
        )
    show(found, as_json, _deliveries)


@app.command()
def test(ctx: typer.Context, name: Name, as_json: Json = False) -> None:
    """Send a webhook a `webhook.tested` event; `deliveries` shows what became of it.

    \b
    trimtab webhooks test ops
    trimtab webhooks deliveries ops --limit 1
    """
    with root_of(ctx).client() as client:
        sent = client.post(f"/v1/webhooks/{name}/test")
    show(sent, as_json, lambda _: f"{name} is sent a webhook.tested")


@app.command()
def redeliver(
    ctx: typer.Context,
    name: Name,
    delivery_id: Annotated[str, typer.Argument(help="A delivery's id, as listed.")],
    as_json: Json = False,
) -> None:
    """Send a delivery again, with the same id, after the receiver was mended, say.

    \b
    trimtab webhooks redeliver ops ops:4711
    """
    with root_of(ctx).client() as client:
        again = client.post(f"/v1/webhooks/{name}/deliveries/{delivery_id}/redeliver")
    show(again, as_json, lambda one: f"{one['id']} is sent again")


@app.command("verify-signature")
def verify_signature(
    secret_file: Annotated[Path, typer.Option(help="The secret, as its sender has it.")],
    id_: Annotated[str, typer.Option("--id", help="The header webhook-id.")],
    timestamp: Annotated[str, typer.Option(help="The header webhook-timestamp.")],
    signature: Annotated[str, typer.Option(help="The header webhook-signature.")],
    body: Annotated[
        Path | None, typer.Option(help="The body, byte for byte; default: standard input.")
    ] = None,
    tolerance_s: Annotated[
        float, typer.Option(min=0, help="How far its time may be from now.")
    ] = TOLERANCE_S,
) -> None:
    """Check a signature as a receiver does. Needs no control plane. Exit code 2: it is wrong.

    \b
    trimtab webhooks verify-signature --secret-file ops.key --id ops:7 \\
        --timestamp 1767225600 --signature "v1,…" --body event.json
    """
    posted = sys.stdin.buffer.read() if body is None else body.read_bytes()
    headers = {
        "webhook-id": id_,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature,
    }
    verify(headers, posted, read_secrets(secret_file), now_s=time.time(), tolerance_s=tolerance_s)
    typer.echo("the signature is right")


def _hooks(found: Any) -> str:
    rows = [
        (
            one["name"],
            one["url"],
            ", ".join(one["events"]),
            one["lag"],
            one["waiting"],
            when(one["oldest_waiting_us"]),
            one["given_up"],
            one["error"],
        )
        for one in found["items"]
    ]
    head = ["name", "url", "events", "lag", "waiting", "since", "given up", "last error"]
    return table(head, rows, none="no webhooks are configured")


def _deliveries(found: Any) -> str:
    rows = [
        (
            one["id"],
            one["event"],
            one["state"],
            one["attempts"],
            when(one["due_us"]),
            one["error"],
        )
        for one in found["items"]
    ]
    shown = table(["id", "event", "state", "attempts", "due or done", "error"], rows, none="none")
    if found["next"] is None:
        return shown
    return f"{shown}\nmore: --before {found['next']}"
