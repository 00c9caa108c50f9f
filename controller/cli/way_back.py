"""``rollback`` and ``targets detach | attach``: whole settings back, or the hand off an engine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.root import UNAVAILABLE, Json, Reason, fail, root_of, show
from controller.cli.tables import table, when
from policies.overrides import Expiries

app = typer.Typer(
    help="Take the hand off an engine, and up again.", no_args_is_help=True, rich_markup_mode=None
)

Target = Annotated[str, typer.Argument(help="A target's name.")]


def add_to(root: typer.Typer) -> None:
    """Put the commands in their places."""
    root.command()(rollback)
    root.add_typer(app, name="targets")


def rollback(
    ctx: typer.Context,
    target: Target,
    reason: Reason,
    to: Annotated[
        str, typer.Option("--to", help="last-stable, or a time: 30m ago, or RFC 3339.")
    ] = "last-stable",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it, and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Put whole settings back: to last stable, or to what was in force at a time.

    Last stable is the baseline and what was kept: the trial, emergencies and pins go. To a time:
    policies newer than that are reverted too, and what then still differs is pinned for a while.
    Forces stand. A hold does not stop it. Exits 3 when a replica could not be read back.

    \b
    trimtab rollback chat --dry-run --reason "latency since noon"
    trimtab rollback chat --to 2026-11-24T11:55:00Z --reason "latency since noon"
    """
    with root_of(ctx).client() as client:
        query = "?dry_run=true" if dry_run else ""
        body = {"to": to, "reason": reason}
        done = client.post(f"/v1/targets/{target}/rollback{query}", body)
    show(done, as_json, _words)
    _must_have_reached("rollback", done)


@app.command()
def detach(
    ctx: typer.Context,
    target: Target,
    reason: Reason,
    expiries: Annotated[
        Expiries,
        typer.Option(help="What expires in the engine: keep it for good, or let it expire."),
    ] = "keep",
    as_json: Json = False,
) -> None:
    """Leave an engine exactly as it stands; the loop lets go of it until `attach`.

    Laws go on running in the engine. The answer says of each setting what becomes of it.

    \b
    trimtab targets detach chat --expiries keep --reason "handing it to the platform team"
    """
    with root_of(ctx).client() as client:
        body = {"reason": reason, "expiries": expiries}
        done = client.post(f"/v1/targets/{target}/detach", body)
    show(done, as_json, lambda one: "\n".join([f"{target} is detached", *one["words"]]))
    _must_have_reached("detach", done)


@app.command()
def attach(ctx: typer.Context, target: Target, reason: Reason, as_json: Json = False) -> None:
    """Let the loop go on; what others changed meanwhile is kept as a pin for a while.

    \b
    trimtab targets attach chat --reason "it is ours again"
    """
    with root_of(ctx).client() as client:
        done = client.post(f"/v1/targets/{target}/attach", {"reason": reason})
    show(done, as_json, lambda one: f"{one['target']} is attached")


def _must_have_reached(verb: str, done: Any) -> None:
    missed = [one["replica"] for one in done["replicas"] if not one["ok"]]
    if missed:
        raise fail(f"{verb} did not reach {', '.join(missed)}", UNAVAILABLE)


def _words(done: Any) -> str:
    to = "last stable" if done["to"] == "last_stable" else when(done["to"])
    would = "would go" if done["dry_run"] else "goes"
    places = sorted({*done["before"], *done["after"]})
    rows = [
        (at, done["before"].get(at), done["after"].get(at, "as booted"), _why(done, at))
        for at in places
    ]
    told = [f"{done['target']} {would} to {to}"]
    told.append(table(["place", "before", "after", ""], rows, none="nothing is set"))
    for name in ("reverted", "ended", "standing"):
        verb = {"reverted": "reverted", "ended": "ended", "standing": "stands"}[name]
        told += [f"{verb:<9} {one}: {words}" for one, words in sorted(done[name].items())]
    told += [
        f"replica   {r['replica']} at {r['url']}: {r['detail']}, {r['took_ms']} ms"
        for r in done["replicas"]
    ]
    return "\n".join(told)


def _why(done: Any, at: str) -> str:
    return f"pinned until {when(done['pinned_until_us'])}" if at in done["pinned"] else ""
