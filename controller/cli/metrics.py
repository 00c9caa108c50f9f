"""``trimtab metrics``: which metrics signals may carry, what their values mean, whose they are."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.client import Client
from controller.cli.root import Json, root_of, show
from controller.cli.tables import table, when
from signals.errors import NotFound

app = typer.Typer(
    help="Metric definitions: what feedback may say.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PATH = "/v1/metric-definitions"
FIELDS = (
    "layer",
    "type",
    "unit",
    "direction",
    "low",
    "high",
    "attribution_s",
    "absent",
    "owner",
)

MetricName = Annotated[str, typer.Argument(help="A metric's name, for ever.")]


@app.command("list")
def listed(ctx: typer.Context, as_json: Json = False) -> None:
    """List the metrics in force; ingest refuses any other name.

    \b
    trimtab metrics list
    """
    with root_of(ctx).client() as client:
        show(client.get(PATH), as_json, _table)


@app.command("show")
def one(ctx: typer.Context, name: MetricName, as_json: Json = False) -> None:
    """Show every version of one metric. An event is read under the version of its time.

    \b
    trimtab metrics show thumbs
    """
    with root_of(ctx).client() as client:
        show(client.get(f"{PATH}/{name}"), as_json, _versions)


@app.command()
def declare(
    ctx: typer.Context,
    name: MetricName,
    type_: Annotated[
        str | None,
        typer.Option("--type", help="boolean, float, count or duration; for ever.", metavar="TYPE"),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            help="business (users' acts) or semantic (scores); for ever.", metavar="LAYER"
        ),
    ] = None,
    unit: Annotated[str | None, typer.Option(help="Shown beside figures; for ever.")] = None,
    direction: Annotated[
        str | None, typer.Option(help="Which way is better: up or down.", metavar="WAY")
    ] = None,
    low: Annotated[float | None, typer.Option(help="A value below is refused.")] = None,
    high: Annotated[float | None, typer.Option(help="A value above is refused.")] = None,
    attribution_s: Annotated[
        int | None,
        typer.Option(
            help="Seconds after a request's arrival that feedback counts; 7 days at most."
        ),
    ] = None,
    absent: Annotated[
        str | None,
        typer.Option(
            help="A request without a value counts as zero, or is missing.", metavar="HOW"
        ),
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="The team that may change it; default: your key's team.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Declare a metric, or change one: what is not named stays, or has its default.

    A change is a new version, in force within seconds; what was accepted before is still read
    under the old one. Layer, type and unit can't change: declare a new name instead.

    \b
    trimtab metrics declare ticket_reopened --type boolean --direction down
    trimtab metrics declare stars --type float --low 1 --high 5 --absent missing
    trimtab metrics declare stars --attribution-s 86400
    """
    bounds = _given(low=low, high=high, attribution_s=attribution_s, absent=absent, owner=owner)
    named = _given(layer=layer, type=type_, unit=unit, direction=direction) | bounds
    with root_of(ctx).client() as client:
        made = client.put(f"{PATH}/{name}", _latest(client, name) | named)
    show(made, as_json, _line)


@app.command()
def retire(ctx: typer.Context, name: MetricName, as_json: Json = False) -> None:
    """Take a metric out of force: new events of it are refused, its past stays readable."""
    with root_of(ctx).client() as client:
        show(client.delete(f"{PATH}/{name}"), as_json, _line)


def _given(**fields: object) -> dict[str, object]:
    return {field: value for field, value in fields.items() if value is not None}


def _latest(client: Client, name: str) -> dict[str, Any]:
    """The fields of a metric's last version; empty when it was never declared."""
    try:
        found = client.get(f"{PATH}/{name}")["items"][-1]
    except NotFound:
        return {}
    return {field: found[field] for field in FIELDS}


def _table(found: Any) -> str:
    rows = [
        (
            one["name"],
            one["version"],
            one["type"],
            _values(one),
            one["direction"],
            f"{one['attribution_s']} s",
            one["owner"] or None,
            one["managed_by"],
        )
        for one in found["items"]
    ]
    head = ["name", "version", "type", "values", "better", "attribution", "owner", "managed by"]
    return table(head, rows, none="no metrics")


def _versions(found: Any) -> str:
    latest = found["items"][-1]
    told = [
        f"{latest['name']}: {latest['layer']}, {latest['type']}"
        + (f", in {latest['unit']}" if latest["unit"] else "")
    ]
    rows = [
        (
            one["version"],
            when(one["from_us"]),
            when(one["retired_us"]),
            _values(one),
            one["direction"],
            f"{one['attribution_s']} s",
            one["absent"] or "by type",
            one["owner"] or None,
            one["managed_by"],
        )
        for one in found["items"]
    ]
    head = ["version", "from", "until", "values", "better", "attribution", "absent"]
    return "\n".join([*told, table([*head, "owner", "managed by"], rows, none="")])


def _values(one: Any) -> str:
    return f"{one['low']:g}..{one['high']:g} {one['unit']}".rstrip()


def _line(one: Any) -> str:
    state = "in force" if one["retired_us"] is None else "retired"
    owner = f", owned by {one['owner']}" if one["owner"] else ""
    return f"{one['name']} version {one['version']} is {state}{owner}"
