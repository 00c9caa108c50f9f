"""The numbers in ``how-it-decides.md``, from the product's own code and the two seeded runs."""

from __future__ import annotations

from controller.judge.effects import t_interval
from controller.learner.masking import menu_of
from controller.learner.port import Action, Arm
from controller.trials import Unit
from docs.deciding_figures import curve, least_units
from docs.judged_run import CAP, LADDER, LIMIT_MS, PLAN, naive_alarms, with_an_effect, without_one
from policies.settings import Setting

POINTS = 0.05


def plant() -> str:
    """What the curve came to, and how far each form was off."""
    found = curve()
    assert found.line_error is not None
    assert found.log_error is not None
    return (
        f"Learned from {found.steps:,} steps: {found.words()}. A line in the number of sequences"
        f" was off by {found.line_error:.1%} of a step that it was not fitted on, one in their"
        f" logarithm by {found.log_error:.1%}, so the {found.form} is used. The limit is"
        f" {LIMIT_MS} ms a token."
    )


def ladder() -> str:
    """What may be tried next where one value has been in force."""
    arms = [Arm.on(LADDER, "active_cap", Setting(value=value)) for value in LADDER]
    actions = tuple(map(Action.of, arms))
    now = actions[LADDER.index(CAP)].id
    menu = menu_of(actions, baseline=now, current=now, tried={"active_cap": {CAP}})
    rows = ["| `active_cap` | may be tried? |", "|---|---|"]
    for value, action, may in zip(LADDER, actions, menu.mask, strict=True):
        yes = "in force: always" if action.id == now else "yes"
        rows.append(f"| {value} | {yes if may else 'no: ' + menu.why[action.id]} |")
    return "\n".join(rows)


def utility() -> str:
    """U of both blocks of the first unit."""
    unit = with_an_effect().units[0]
    base, candidate = unit.values["baseline"], unit.values["candidate"]
    reference = PLAN.reference_tokens_per_s
    target = PLAN.intents[0].target_attainment
    parts = ("U:tokens_per_s:batch", "U:attainment:live")
    before, after = (sum(arm[part] for part in parts) for arm in (base, candidate))
    rows = [
        "| first unit of the trial | baseline | candidate |",
        "|---|---|---|",
        _row("batch tokens/s while jobs wait", "tokens_per_s:batch", unit, "{:.0f}"),
        _row(f"½ × that ÷ {reference:.0f}", parts[0], unit, "{:.3f}"),
        _row("chats within their limits", "attainment:live", unit, "{:.1%}"),
        _row(f"½ × ½ × min(1, that ÷ {target:g})", parts[1], unit, "{:.3f}"),
        f"| sum | {before:.3f} | {after:.3f} |",
        f"| **d = candidate − baseline** | | **{unit.d['U']:+.3f}** |",
    ]
    return "\n".join(rows)


def verdicts() -> str:
    """What the judge said at the end of both runs, word for word."""
    lines = []
    for name, judged in (("the law", with_an_effect()), ("nothing changed", without_one())):
        lines.append(f"- {name}: *{judged.rulings[-1].words}*")
    return "\n".join(lines)


def naive() -> str:
    """What two usual ways would have said of the run in which nothing changed."""
    judged = without_one()
    off, units = naive_alarms(judged, points=POINTS)
    most = max(abs(unit.d.get("attainment:live", 0.0)) for unit in judged.units)
    ds = [unit.d["U"] for unit in judged.units]
    looks = [n for n in range(2, len(ds) + 1) if _excludes_zero(ds[:n])]
    found = (
        f"A look after each unit at a 95 % t interval would have declared an effect"
        f" after {len(looks)} of the {len(ds) - 1} looks"
        if looks
        else "A 95 % t interval, looked at after each unit, happened to include 0 throughout"
    )
    highest = max(*judged.path("U>0"), *judged.path("U<0"))
    return (
        f"In the second run both blocks of each of the {units} units had the same setting. Compared"
        f" one with the other, as before and after, {off} pairs differ by more than"
        f" {100 * POINTS:.0f} points of attainment, the worst by {100 * most:.0f}. {found}."
        f" The judge's E never went above {highest:.1f} of the {1 / PLAN.alpha:.0f} it needs."
    )


def units() -> str:
    """How few units can do."""
    return f"at least {least_units(PLAN)} units, however large the effect"


def _excludes_zero(ds: list[float]) -> bool:
    low, high = t_interval(ds)
    return low > 0 or high < 0


def _row(name: str, metric: str, unit: Unit, shape: str) -> str:
    base, candidate = (unit.values[arm][metric] for arm in ("baseline", "candidate"))
    return f"| {name} | {shape.format(base)} | {shape.format(candidate)} |"


BLOCKS = {
    "plant": plant,
    "ladder": ladder,
    "utility": utility,
    "verdicts": verdicts,
    "naive": naive,
    "units": units,
}
