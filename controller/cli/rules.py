"""``trimtab rules``: how they stand, whether a file's are sound, what they would have done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.asking import Since, Until
from controller.cli.root import REJECTED, Json, fail, root_of, show
from controller.cli.tables import figure, share, table, when
from controller.config.load import load, read_tree
from controller.rules.candidates import RuleProblem, problems, rules_in
from controller.rules.firing import compile_rules
from controller.rules.settings import RuleSettings
from controller.settings import Settings
from signals.errors import Rejected

app = typer.Typer(
    help="Declared triggers: how they stand, and tests of them on history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Target = Annotated[
    str | None, typer.Option("--target", "-t", help="Default: the only one that is configured.")
]
SHOWN = 20
"""Firings of a rule that a table shows; --json has them all."""


@app.command("list")
def listed(ctx: typer.Context, target: Target = None, as_json: Json = False) -> None:
    """Show each rule in force: what it reads, its last answer and since when, its cooldown.

    \b
    trimtab rules list
    trimtab rules list --target chat --json
    """
    with root_of(ctx).client() as client:
        show(client.get("/v1/rules", target=target), as_json, _standing)


@app.command("show")
def one_rule(
    ctx: typer.Context,
    rule: Annotated[str, typer.Argument(help="The rule's id.")],
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Show one rule: how it stands, and of an emergency what delaying it has shown.

    Some of an emergency's acts come later, by chance; whether attainment is better then or when it
    acts at once is what judges the rule. One that does harm only proposes from then on.

    \b
    trimtab rules show slow --target chat
    """
    with root_of(ctx).client() as client:
        found = client.get("/v1/rules", target=target)["items"]
    mine = [one for one in found if one["id"] == rule]
    if not mine:
        known = ", ".join(one["id"] for one in found)
        raise Rejected(f"there is no rule {rule!r}", field="RULE", value=rule, allowed=known)
    shown = mine[0] if len(mine) == 1 else {"items": mine}
    show(shown, as_json, lambda _: "\n\n".join(map(rule_in_words, mine)))


@app.command()
def test(
    ctx: typer.Context,
    rules: Annotated[list[str] | None, typer.Argument(help="Ids; default: every rule.")] = None,
    target: Target = None,
    since: Since = None,
    to: Until = None,
    file: Annotated[
        Path | None,
        typer.Option("--rules", help="A file whose rules are tested instead; not put in force."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say when rules would have fired, for how long, and what they would have proposed.

    The stored windows go through the loop's own view and timers; nothing is changed. Without
    --since, the last hour.

    \b
    trimtab rules test --target chat --since 2h
    trimtab rules test slow --target chat --rules new-rules.yaml --json
    """
    name = _target(ctx, target)
    body: dict[str, Any] = {
        "target": name,
        "rules": rules or [],
        "from": since or "1h",
        "to": to or "now",
    }
    if file is not None:
        sound = _sound(root_of(ctx).settings, file, name)
        body["candidates"] = [one.model_dump(by_alias=True) for one in sound]
    with root_of(ctx).client() as client:
        show(client.post("/v1/rules/test", body), as_json, _tested)


@app.command()
def check(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="A whole configuration, or YAML with `rules:` alone.")
    ],
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Check a file's rules without starting anything: each problem with its rule and position.

    A whole configuration is checked against its own intents and metrics; a file with `rules:`
    alone against those of the configuration in force. Exit code 2 when something is wrong.

    \b
    trimtab rules check trimtab.yaml
    trimtab rules check new-rules.yaml --target chat --json
    """
    whole = "targets" in read_tree(file)
    settings = load(file, os.environ) if whole else root_of(ctx).settings
    names = list(settings.targets) if whole and target is None else [_only(settings, target)]
    answers = [_checked(settings, file, name) for name in names]
    wrong = sum(len(one["problems"]) for one in answers)
    show({"sound": not wrong, "targets": answers}, as_json, _checks)
    if wrong:
        raise fail("1 problem" if wrong == 1 else f"{wrong} problems", REJECTED)


def _target(ctx: typer.Context, target: str | None) -> str:
    """The target named; else the only one that is configured. It may be a server's alone."""
    return target if target is not None else _only(root_of(ctx).settings, None)


def _only(settings: Settings, target: str | None) -> str:
    names = list(settings.targets)
    if target is None and len(names) == 1:
        return names[0]
    if target not in settings.targets:
        raise Rejected(
            "say which target" if target is None else f"no target {target!r} is configured",
            field="--target",
            value=target,
            allowed=", ".join(names) or "none is configured",
        )
    return target


def _looked(
    settings: Settings, file: Path, target: str
) -> tuple[list[RuleSettings], list[RuleProblem]]:
    declared = settings.targets[target]
    raw = rules_in(read_tree(file), target)
    return problems(
        raw,
        intents=declared.intents,
        metrics=settings.metrics,
        safer={name: one.safer for name, one in declared.knobs.declared.items()},
        baseline=declared.baseline,
    )


def _sound(settings: Settings, file: Path, target: str) -> Sequence[RuleSettings]:
    """The file's rules. Raises ``Rejected`` with every problem where this target is known here."""
    if target not in settings.targets:
        raw = rules_in(read_tree(file), target)
        return [RuleSettings.model_validate(one) for one in raw]
    sound, wrong = _looked(settings, file, target)
    if wrong:
        words = "".join(f"\n  {one.words()}" for one in wrong)
        raise Rejected(f"{file} is not sound:{words}", field=wrong[0].field)
    return sound


def _checked(settings: Settings, file: Path, target: str) -> dict[str, Any]:
    sound, wrong = _looked(settings, file, target)
    declared = settings.targets[target]
    rules = compile_rules(sound, intents=declared.intents, metrics=settings.metrics).rules
    return {
        "target": target,
        "rules": [{"id": one.id, "reads": list(one.reads), "digest": one.digest} for one in rules],
        "problems": [
            {"rule": one.rule, "field": one.field, "detail": one.detail, "allowed": one.allowed}
            for one in wrong
        ],
    }


def _checks(found: Any) -> str:
    told = []
    for one in found["targets"]:
        told.append(f"{one['target']}: {len(one['rules'])} sound")
        told += [f"  ok  {rule['id']}: reads {', '.join(rule['reads'])}" for rule in one["rules"]]
        told += [
            f"  !!  {wrong['field']}: {wrong['detail']}"
            + (f" (allowed: {wrong['allowed']})" if wrong["allowed"] else "")
            for wrong in one["problems"]
        ]
    return "\n".join(told)


def _standing(found: Any) -> str:
    rows = [
        (
            one["target"],
            one["id"],
            one["when"],
            one["for"],
            _kind(one),
            ", ".join(f"{knob}: {move}" for knob, move in one["propose"].items()),
            one["truth"] or "not looked at",
            when(one["since_us"]),
            when(one["fired_us"]),
            one["not_applicable"] or "-",
        )
        for one in found["items"]
    ]
    head = ["target", "rule", "when", "for", "kind", "moves", "is", "since", "fired", "can't act"]
    told = [table(head, rows, none="no rules")]
    if found["problem"] is not None:
        told.append(f"!! the file is refused, these rules stay: {found['problem']}")
    if found["restart"]:
        told.append(f"a restart is needed for: {', '.join(found['restart'])}")
    return "\n".join(told)


def _kind(one: Any) -> str:
    judged = one["judged"]
    if judged is None:
        return "proposes"
    if judged["suspended"]:
        return "proposes (did HARM as an emergency)"
    verdict = judged["verdict"]
    return "emergency" if verdict is None else f"emergency ({verdict})"


def rule_in_words(one: Any) -> str:
    """One rule, a fact a line."""
    told = [
        f"{one['target']}: rule {one['id']} ({one['digest']}), {_kind(one)}",
        f"when     {one['when']} for {one['for']}, then quiet for {one['cooldown']}",
        f"moves    {', '.join(f'{knob}: {move}' for knob, move in one['propose'].items())}",
        f"is       {one['truth'] or 'not looked at'} since {when(one['since_us'])}",
        f"fired    {when(one['fired_us'])}",
    ]
    judged = one["judged"]
    if one["not_applicable"]:
        told.append(f"can't    {one['not_applicable']}")
    if judged is not None:
        told += [
            f"judged   {judged['words']}",
            f"         E {judged['e_harmed']:.3g} that acting at once harms,"
            f" {judged['e_improved']:.3g} that it helps"
            + ("; an episode runs" if judged["running"] else ""),
        ]
    return "\n".join(told)


def _tested(found: Any) -> str:
    rows = [
        (
            one["id"],
            one["fired"],
            figure(one["per_hour"]),
            share(one["true_share"]),
            share(one["unknown_share"]),
            f"{one['recovered_alone']} of {len(one['firings'])}",
            ", ".join(f"{name} {share(part)}" for name, part in one["missing"].items()) or "-",
        )
        for one in found["rules"]
    ]
    head = ["rule", "fired", "an hour", "true", "unknown", "recovered alone", "missing"]
    span = f"from {when(found['from_us'])} to {when(found['to_us'])}"
    told = [
        f"{found['target']} {span}, to within {found['resolution_s']} s",
        *([f"less than asked: {found['cut']}"] if found["cut"] else []),
        "",
        table(head, rows, none="no rules"),
    ]
    for one in found["rules"]:
        if one["firings"]:
            told += ["", f"{one['id']}: {one['when']}", _firings(one["firings"][:SHOWN])]
        if one["fired"] > SHOWN:
            told.append(f"… {one['fired'] - SHOWN} more")
    return "\n".join([*told, "", f"guardrails {found['guardrails']}"])


def _firings(firings: Any) -> str:
    rows = [
        (
            when(one["at_us"]),
            f"{one['held_s']:g} s",
            "; ".join(_proposal(each) for each in one["proposes"]),
            one["recovery"],
            "-" if one["recovered_s"] is None else f"{one['recovered_s']:g} s",
            ", ".join(f"{name} {value:.4g}" for name, value in one["evidence"].items()),
        )
        for one in firings
    ]
    return table(["fired", "held", "proposes", "recovered", "after", "saw"], rows, none="never")


def _proposal(one: Any) -> str:
    before = "?" if one["before"] is None else one["before"]
    if one["to"] is not None:
        return f"{one['knob']} {before} → {one['to']}"
    return f"{one['knob']} {before}: nothing, {one['why']}"
