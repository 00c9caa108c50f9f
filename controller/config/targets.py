"""What a person declares of one target: its engine, its intents, its knobs, its rules."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator

from controller.config.guardrails import KnobGuardrails, TargetGuardrails
from controller.rules.settings import RuleSettings
from policies.knobs import KnobSpec, Safer
from policies.policy import Mode
from policies.settings import OnKill, Setting, digest
from signals.configuring import Section, setting
from signals.settings import IntentSettings, Name

Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/]+(:\d+)?/?$")]


Margin = Annotated[float, Field(gt=0, le=1e12)]


class EngineChoice(Section):
    """Which engine serves a target, and where its control listener is."""

    kind: Literal["embedded"] = setting(
        "embedded", unit="", reason="this product's own engine; needs nothing but PyPI"
    )
    control_urls: tuple[Url, ...] = setting(
        (),
        unit="",
        reason="unset = the engine of this machine, started by `trimtab up`",
        max_length=64,
    )
    routing: Literal["random", "other"] = setting(
        "other",
        unit="",
        reason="`random`: each request goes to a replica by chance alone, so that halves can be"
        " compared side by side; any other router sends them unlike requests",
    )


class KnobSettings(Section):
    """What the loop may do with one knob: its mode, and the values it may choose from."""

    mode: Mode | None = setting(
        None, unit="", reason="unset = the target's `default`, and REST may change it"
    )
    ladder: tuple[int, ...] | None = setting(
        None,
        unit="knob's",
        reason="unset = doublings within the range",
        min_length=1,
        max_length=64,
    )
    range: tuple[int, int] | None = setting(
        None, unit="knob's", reason="lowest and highest; unset = the engine's own range"
    )
    safer: Safer | None = setting(
        None,
        unit="",
        reason="up or down: the direction that lowers risk, so that one person is enough for it,"
        " and the only one in which an emergency rule may move; unset = towards the baseline only",
    )
    guardrails: KnobGuardrails = Field(
        default_factory=KnobGuardrails, description="bounds of this knob alone"
    )

    @model_validator(mode="after")
    def _ordered(self) -> KnobSettings:
        ladder, span = self.ladder, self.range
        if ladder is not None and any(b <= a for a, b in pairwise(ladder)):
            raise ValueError(f"ladder {list(ladder)} must rise strictly")
        if span is not None and span[0] > span[1]:
            raise ValueError(f"range {list(span)} must be [lowest, highest]")
        if ladder is not None and span is not None:
            raise ValueError("give a ladder or a range, not both")
        return self

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Lowest and highest value that anybody may set, persons too; None: the engine's own."""
        return self.range

    def values(self, spec: KnobSpec) -> tuple[int, ...]:
        """The ladder on an engine with this spec, rising: declared values that it can take.

        >>> cap = KnobSpec(name="active_cap", unit="sequences", low=1, capacity=64, boot=64,
        ...                effect_delay_s=1.0)
        >>> KnobSettings(ladder=(2, 4, 128)).values(cap), KnobSettings(range=(3, 20)).values(cap)
        ((2, 4), (3, 6, 12, 20))
        """
        if self.ladder is not None:
            return tuple(v for v in self.ladder if spec.low <= v <= spec.capacity)
        low, high = self.range or (spec.low, spec.capacity)
        low, high = max(low, spec.low), min(high, spec.capacity)
        doubled = [low]
        while doubled[-1] * 2 < high and doubled[-1] > 0:
            doubled.append(doubled[-1] * 2)
        return tuple(dict.fromkeys((*doubled, high))) if low <= high else ()


class Knobs(Section):
    """Each declared knob by name, beside ``default``: the mode of every knob without its own."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, KnobSettings] = Field(init=False)

    default: Mode = setting(
        "observe", unit="", reason="nothing is changed until a person raises a knob's mode"
    )

    @property
    def declared(self) -> dict[str, KnobSettings]:
        """The knobs that the file names."""
        return dict(self.__pydantic_extra__ or {})

    def of(self, knob: str) -> KnobSettings:
        """The knob's declaration; an empty one when the file does not name it."""
        return self.declared.get(knob, KnobSettings())

    def mode(self, knob: str, over_rest: Mode | None = None) -> Mode:
        """The mode in force: the file's own, else what was set over REST, else the default."""
        return self.of(knob).mode or over_rest or self.default

    def managed(self, knob: str) -> bool:
        """Whether the file owns this knob's mode, so that the API may not change it."""
        return self.of(knob).mode is not None


class HoldbackSettings(Section):
    """Blocks on the baseline, drawn by chance, so that the loop's worth is measured."""

    share: float = setting(
        0.05,
        unit="share",
        reason="of all blocks, where `holdback` is declared (it is off unless it is): the price of"
        " knowing is so much of what the loop is worth",
        ge=0.01,
        le=0.5,
    )
    block_s: float = setting(
        300.0,
        unit="s",
        reason="long beside the washout, so that little of it is lost; longer blocks are fewer",
        ge=10,
        le=3600,
    )


class TargetSettings(Section):
    """A named engine and what its operators want of it."""

    engine: EngineChoice = Field(default_factory=EngineChoice, description="which engine, where")
    on_kill: OnKill = setting(
        "last_stable", unit="", reason="where `kill` leaves the engine: settings last proven good"
    )
    maximize: str = setting(
        ...,
        unit="",
        reason="the one thing to maximise, `<intent>.tokens_per_s`; the rest are constraints",
        pattern=r"^[a-z][a-z0-9_]*\.tokens_per_s$",
    )
    intents: dict[Name, IntentSettings] = setting(
        ..., unit="", reason="groups of similar prompts, by name", min_length=1, max_length=64
    )
    baseline: dict[Name, int] = setting(
        dict,
        unit="knob's",
        reason="declared settings, knob: value; unset = the engine's boot values",
    )
    knobs: Knobs = Field(default_factory=Knobs, description="what the loop may change, and how")
    guardrails: TargetGuardrails = Field(
        default_factory=TargetGuardrails, description="bounds of this target alone"
    )
    holdback: HoldbackSettings | None = Field(
        default=None,
        description="unset = none; set, a share of blocks is spent on the baseline, drawn by"
        " chance, and `trimtab report worth` tells what the loop is worth",
    )
    confirm_by: dict[Name, Margin] = setting(
        dict,
        unit="metric's",
        reason="metric: margin; what is kept stays provisional until users' feedback of those who"
        " were exposed, at the metric's full age, has not shown it worse by so much",
        max_length=8,
    )
    rules: tuple[RuleSettings, ...] = setting(
        (), unit="", reason="declared triggers; each only proposes", max_length=64
    )

    @field_validator("intents")
    @classmethod
    def _no_reserved_name(cls, intents: dict[str, IntentSettings]) -> dict[str, IntentSettings]:
        if "target" in intents:
            raise ValueError("`target` is reserved; name the intent otherwise")
        return intents

    @model_validator(mode="after")
    def _maximizes_an_intent(self) -> TargetSettings:
        if self.maximized not in self.intents:
            raise ValueError(
                f"maximize = {self.maximize!r} names no intent of this target;"
                f" it has {', '.join(sorted(self.intents))}"
            )
        return self

    @property
    def maximized(self) -> str:
        """The intent whose tokens per second are maximised."""
        return self.maximize.partition(".")[0]

    def baseline_settings(self) -> dict[str, Setting]:
        """The declared baseline, as settings."""
        return {knob: Setting(value=value) for knob, value in self.baseline.items()}

    @property
    def baseline_version(self) -> str:
        """Digest that names this baseline; it changes only when a person edits the file."""
        return digest(self.baseline_settings())
