"""``trimtab doctor``: is everything well, and if not, what is to be done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import httpx
import typer

from controller.cli.client import Client
from controller.cli.root import Json, Root, root_of, show
from controller.doctoring import Finding, Seen, examine, exit_code
from controller.keys import wall_us
from signals.errors import Denied, Rejected, Unavailable
from signals.events import MICROS

SPAN_S = 20 * 60
ASK_S = 3.0


def add_to(app: typer.Typer) -> None:
    """Put the command at the top level."""
    app.command()(doctor)


def doctor(
    ctx: typer.Context,
    target: Annotated[str | None, typer.Argument(help="Without it: every target.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is wrong and what to do about it, the worst first.

    Looks at each target (a hold, a drift alarm, memory's wall), at its engines (age of their
    records, gaps, live knobs), at the file's rules (refused, waiting for a restart), at the
    features (how far behind, incomplete windows, dead letters), at the bus (lag, size) and at each
    producer (joined, waiting, dead, clock, quarantine, share of each rate). Changes nothing. When
    serve does not answer, it says what it can't see and looks at the rest.
    Exit codes: 0 all is well, 1 look at it, 2 something fails.

    \b
    trimtab doctor
    trimtab doctor chat --json
    """
    root = root_of(ctx)
    unseen: list[str] = []
    findings = _findings(root, target, unseen)
    answer = {"findings": findings, "unseen": unseen}
    show(answer, as_json, lambda _: _words(findings, unseen))
    raise typer.Exit(exit_code(findings))


def _findings(root: Root, target: str | None, unseen: list[str]) -> list[Finding]:
    found = [_ingest(root)]
    try:
        with root.client() as client:
            seen = _look(client, target, unseen)
    except Unavailable as error:
        unseen.append("targets, features, dead letters and producers: serve shows them")
        advice = "start it (trimtab up), then see logs/serve.log in the state directory"
        away = Finding(level="FAIL", about="serve", what=error.detail, advice=advice)
        return [away, *sorted([*found, *_bus_here(root, unseen)], key=_order)]
    return sorted([*found, *examine(seen)], key=_order)


def _order(finding: Finding) -> int:
    return ("FAIL", "WARN", "OK").index(finding.level)


def _look(client: Client, target: str | None, unseen: list[str]) -> Seen:
    """Ask for everything. What the key does not show is said, not guessed."""
    if target is None:
        names = [line["name"] for line in client.get("/v1/targets")["items"]]
    else:
        names = [target]
    since_us = wall_us() - SPAN_S * MICROS
    query = {"width": "1m", "by": "intent", "from": since_us, "limit": 1000}

    def ask(what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Denied as error:
            unseen.append(f"{what}: {error.detail}")
        except Unavailable as error:
            unseen.append(f"{what}: {error.detail}")
        return None

    def of(what: str, path: str, part: str, **asked: Any) -> dict[str, Any]:
        answers = {
            name: ask(f"{what} of {name}", partial(client.get, path, target=name, **asked))
            for name in names
        }
        return {name: answer[part] for name, answer in answers.items() if answer is not None}

    glances = {name: ask(name, partial(client.get, f"/v1/targets/{name}")) for name in names}
    rates = {
        name: ask(f"rates of {name}", partial(client.get, f"/v1/targets/{name}/features"))
        for name in names
    }
    producers = ask("producers", partial(client.get, "/v1/producers"))
    return Seen(
        now_us=wall_us(),
        targets={name: glance for name, glance in glances.items() if glance is not None},
        features=of("windows", "/v1/features", "items", **query),
        letters=of("dead letters", "/v1/dead-letters", "counts", limit=1),
        rates={name: one["rates"]["target"] for name, one in rates.items() if one is not None},
        producers=None if producers is None else producers["items"],
        bus=ask("the bus", partial(client.get, "/v1/bus")),
        rules=ask("rules", partial(client.get, "/v1/rules", target=names[0])) if names else None,
    )


def _ingest(root: Root) -> Finding:
    """Whether the signals API would take an event."""
    ingest = root.settings.ingest
    url = f"http://{ingest.host}:{ingest.port}"
    try:
        with httpx.Client(base_url=url, timeout=ASK_S, trust_env=False) as http:
            status = http.get("/readyz").status_code
    except httpx.HTTPError as error:
        why = str(error) or type(error).__name__
        advice = "producers keep their events and post again; see logs/ingest.log"
        told = f"{url} does not answer ({why})"
        return Finding(level="FAIL", about="ingest", what=told, advice=advice)
    if status == 200:
        return Finding(level="OK", about="ingest", what=f"{url} takes events")
    advice = "the log can't be written: is the disk full, or retention held up?"
    told = f"{url} takes no events: /readyz answers {status}"
    return Finding(level="FAIL", about="ingest", what=told, advice=advice)


def _bus_here(root: Root, unseen: list[str]) -> list[Finding]:
    """The log on this machine, read beside whoever writes it."""
    from controller.bootstrap import bus_readers

    try:
        readers = bus_readers(root.settings)
        found = []
        for partition, reader in readers.items():
            status = reader.status()
            reader.close()
            size = "" if status.bytes is None else f", {status.bytes / 1e6:.1f} MB"
            told = f"offsets {status.first} to {status.end}{size}"
            found.append(Finding(level="OK", about=f"bus {partition}", what=told))
    except (Unavailable, Rejected) as error:
        unseen.append(f"the bus: {error.detail}")
        return []
    return found


def _words(findings: list[Finding], unseen: list[str]) -> str:
    wide = max((len(finding.about) for finding in findings), default=0)
    told = []
    for one in findings:
        told.append(f"{one.level:<4}  {one.about:<{wide}}  {one.what}")
        if one.advice:
            told.append(f"{'':<{wide + 6}}  → {one.advice}")
    told += [f"not seen: {what}" for what in unseen]
    return "\n".join(told)
