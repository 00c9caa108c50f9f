"""``trimtab windows``: what happened in each window, as a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from controller.cli.root import Json, root_of, show
from controller.cli.tables import figure, share, table, when
from controller.cli.tailing import moment
from controller.keys import wall_us

MICROS = 1_000_000


def add_to(app: typer.Typer) -> None:
    """Put the command at the top level."""
    app.command("windows")(features)


def features(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="A target's name.")],
    width: Annotated[str, typer.Option(help="5s, 1m, 5m or 1h.")] = "1m",
    intent: Annotated[str | None, typer.Option(help="Only this intent's.")] = None,
    since: Annotated[
        str | None, typer.Option(help="From 10m, 2h, 1d ago, or an RFC 3339 time, on.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="intent, target, or window: each replica and settings alone.")
    ] = "intent",
    after: Annotated[str | None, typer.Option(help="The next page, as the last one said.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 200,
    as_json: Json = False,
) -> None:
    """Show a target's windows: attainment, goodput, latencies, KV usage, business rates.

    A dash is unknown, not zero. An open window may still grow; a corrected one says so. A business
    rate counts the requests that arrived in the window, once their attribution has closed.

    \b
    trimtab windows chat --since 1h
    trimtab windows chat --width 5s --intent live --by window --json
    """
    from_us = None if since is None else moment(since, wall_us())
    query = {"width": width, "intent": intent, "by": by, "after": after, "limit": limit}
    with root_of(ctx).client() as client:
        found = client.get("/v1/features", target=target, **query, **{"from": from_us})
    show(found, as_json, _words)


def _words(found: Any) -> str:
    parts = [_table(found["items"]), _rates(found["items"])]
    parts += [f"more: --after {found['next']}"] if found["next"] else []
    parts.append(f"features up to {when(found['watermark_us'] or None)}")
    return "\n\n".join(part for part in parts if part)


def _table(items: Any) -> str:
    rows = [
        (
            _clock(one["start_us"]),
            one["intent"] or "all",
            one["counts"]["judged"],
            share(one["figures"]["attainment"]),
            share(one["figures"]["error_rate"]),
            figure(one["figures"]["goodput_per_s"]),
            figure(one["figures"]["ttft_ms_p95"]),
            figure(one["figures"]["tpot_ms_p95"]),
            figure(one["figures"]["tokens_per_s"]),
            share(one["figures"]["kv_usage"]),
            share(one["figures"]["kv_hit_ratio"]),
            _state(one),
        )
        for one in items
    ]
    head = ["start", "intent", "judged", "attained", "errors", "good/s", "ttft p95", "tpot p95"]
    head += ["tokens/s", "kv", "kv hits", "state"]
    return table(head, rows, none="no windows")


def _rates(items: Any) -> str:
    """Of metrics that somebody gave a value of in any of the windows."""
    told = {name for one in items for name, it in one["metrics"].items() if it["values"]}
    rows = [
        (
            _clock(one["start_us"]),
            one["intent"] or "all",
            name,
            figure(metric["rate"]),
            metric["closed_requests"],
            metric["open_requests"],
            metric["values"],
            ", ".join(f"{who} {said['requests']}" for who, said in metric["producers"].items()),
        )
        for one in items
        for name, metric in one["metrics"].items()
        if name in told
    ]
    head = ["start", "intent", "metric", "rate", "closed", "open", "values", "counted from"]
    return table(head, rows, none="")


def _state(one: Any) -> str:
    parts = ["closed" if one["closed"] else "open"]
    parts += ["corrected"] if one["corrected"] else []
    parts += ["INCOMPLETE"] if one["incomplete"] else []
    return ", ".join(parts)


def _clock(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / MICROS, UTC).strftime("%m-%d %H:%M:%S")
