"""Segments against what an engine really had: right or unknown at any time, never wrong."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec import Struct

from controller.past import FORGOTTEN, RESTARTED, ReplicaPast, record
from engine.generation import CLASSES
from engine.metering import ArrivalMeter
from engine.settings_book import SettingsBook
from engine.settings_in_force import EngineIdentity, Instant
from policies.in_force import InForce, Segment
from policies.laws import Law
from policies.runtime_config import Fallback, Patch, RuntimeConfig, SettingChange, TrialStamp
from signals.events import MICROS
from tests.engine_settings.plant import KNOBS, chat_law

START_S = 1_800_000_000.0
LAW = chat_law()
Truth = dict[str, tuple[int | None, Law | None, str | None]]


class Reader:
    """Takes in read-backs as the loop does, and keeps what it was told."""

    def __init__(self) -> None:
        self.past: ReplicaPast | None = None
        self.segments: list[Segment] = []

    def read(self, seen: RuntimeConfig) -> list[Segment]:
        stored = self.past
        if stored is not None:
            stored = msgspec.json.decode(msgspec.json.encode(stored), type=ReplicaPast)
        self.past, new = record(stored, seen)
        self.segments += new
        return new

    def at(self, at_us: int) -> Segment | None:
        found = [one for one in self.segments if one.from_us <= at_us]
        return found[-1] if found else None


class Engine:
    """The real settings book, its lives, and a diary of what it had: (from µs, truth, trial)."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.lives = 0
        self.changes = 0
        self.diary: list[tuple[int, Truth, bool]] = []
        self.died_us = 0
        self.boot()

    def boot(self) -> None:
        self.lives += 1
        self.meter = ArrivalMeter(CLASSES)
        identity = EngineIdentity(target="chat", replica="r0", incarnation=f"life{self.lives}")
        self.book = SettingsBook(
            identity, KNOBS, self.meter, CLASSES, remembered=4, now=self.instant()
        )
        self.write_down()

    def instant(self) -> Instant:
        return Instant(mono_s=self.now_s, wall_s=START_S + self.now_s)

    @property
    def now_us(self) -> int:
        return round((START_S + self.now_s) * MICROS)

    def write_down(self) -> None:
        truth: Truth = {}
        for knob in self.book.specs:
            one = self.book.setting(knob)
            truth[knob] = (None if one.law else one.observed, one.law, one.policy_id)
        held = self.book.view(self.instant()).hold
        self.diary.append((self.now_us, truth, held))

    def wait(self, seconds: float) -> None:
        """Half a second at a time, as an engine's steps would notice what expires."""
        for _ in range(round(seconds * 2)):
            self.now_s += 0.5
            self.book.pass_time(self.instant())
            self.write_down()

    def patch(
        self, *settings: SettingChange, trial: TrialStamp | None = None, hold: bool | None = None
    ) -> RuntimeConfig:
        self.changes += 1
        view = self.book.view(self.instant())
        patch = Patch(
            change_id=f"change-{self.changes}",
            epoch=0,
            expected=view.expected,
            settings=settings,
            trial=trial,
            hold=hold,
        )
        answer = self.book.apply(patch, self.instant())
        self.write_down()
        return answer

    def view(self, *, ring: int = 1024) -> RuntimeConfig:
        """With a log of so many lines."""
        view = self.book.view(self.instant())
        kept = view.changes[-ring:]
        return msgspec.structs.replace(view, changes=kept, log_from=kept[0].seq)

    def truth(self, at_us: int) -> tuple[Truth, bool]:
        found = [(truth, held) for from_us, truth, held in self.diary if from_us <= at_us]
        return found[-1]


def told(segment: Segment) -> Truth:
    return {
        at: (None if one.law else one.value, one.law, one.policy_id)
        for at, one in segment.settings.items()
    }


class Act(Struct, frozen=True):
    kind: str
    value: int = 8
    expires_s: float | None = None
    fallback: Fallback | None = None
    seconds: float = 1.0


FALLBACKS = st.sampled_from(
    [None, Fallback(value=4, policy_id="pol_below"), Fallback(law=LAW, policy_id="pol_law")]
)
ACTS = st.one_of(
    st.builds(
        Act,
        kind=st.sampled_from(["active_cap", "step_token_budget", "law"]),
        value=st.integers(1, 64),
        expires_s=st.sampled_from([None, None, 1.0, 3.0]),
        fallback=FALLBACKS,
    ),
    st.builds(Act, kind=st.sampled_from(["trial", "arrive", "hold", "release", "die", "read"])),
    st.builds(Act, kind=st.just("read")),
    st.builds(Act, kind=st.just("wait"), seconds=st.sampled_from([0.5, 2.0, 5.0])),
)


def act(engine: Engine, one: Act) -> None:
    if one.kind in ("active_cap", "step_token_budget", "law"):
        knob = "active_cap" if one.kind == "law" else one.kind
        value = None if one.kind == "law" else one.value + (32 if "budget" in knob else 0)
        fits = one.fallback if one.expires_s and knob == "active_cap" else None
        engine.patch(
            SettingChange(
                knob=knob,
                value=value,
                law=LAW if one.kind == "law" else None,
                policy_id=f"pol_{one.value}",
                expires_in_s=one.expires_s,
                fallback=fits,
            )
        )
    elif one.kind == "trial":
        engine.patch(trial=TrialStamp(id="t", block=one.value, arm="candidate"))
    elif one.kind in ("hold", "release"):
        engine.patch(hold=one.kind == "hold")
    elif one.kind == "arrive":
        engine.meter.note("interactive", tokens=10, now_s=engine.now_s)
    elif one.kind == "die":
        engine.wait(0.5)
        engine.boot()
    elif one.kind == "wait":
        engine.wait(one.seconds)


@hypothesis_settings(max_examples=300, deadline=None)
@given(acts=st.lists(ACTS, max_size=40), ring=st.sampled_from([3, 6, 12, 1024]))
def test_at_any_time_the_settings_are_right_or_unknown(acts: list[Act], ring: int) -> None:
    engine, reader = Engine(), Reader()
    for one in acts:
        act(engine, one)
        if one.kind == "read":
            reader.read(engine.view(ring=ring))
    reader.read(engine.view(ring=ring))
    begins = [one.from_us for one in reader.segments]
    assert begins == sorted(begins)
    for at_us in sorted({at_us for at_us, _, _ in engine.diary}):
        segment, (truth, held) = reader.at(at_us), engine.truth(at_us)
        if segment is not None and segment.known:
            assert (told(segment), segment.hold) == (truth, held)
    last = reader.at(engine.now_us)
    assert last is not None
    assert last.known


@hypothesis_settings(max_examples=60, deadline=None)
@given(acts=st.lists(ACTS.filter(lambda one: one.kind != "die"), max_size=40))
def test_with_a_whole_log_and_one_life_nothing_is_unknown(acts: list[Act]) -> None:
    engine, reader = Engine(), Reader()
    for one in acts:
        act(engine, one)
        if one.kind == "read":
            reader.read(engine.view())
    reader.read(engine.view())
    assert all(one.known for one in reader.segments)
    assert reader.segments[0].from_us == engine.diary[0][0]
    versions = [one.version for one in reader.segments]
    assert versions == list(range(engine.book.stamp.version + 1))


def test_a_restart_leaves_a_hole_from_the_last_read_back_to_the_new_boot() -> None:
    engine, reader = Engine(), Reader()
    reader.read(engine.view())
    engine.wait(5)
    reader.read(engine.view())
    seen_us = engine.now_us
    engine.wait(3)
    engine.boot()
    booted_us = engine.now_us
    engine.wait(3)
    hole, after = reader.read(engine.view())
    assert (hole.known, hole.from_us, hole.cause) == (False, seen_us, RESTARTED)
    assert (after.from_us, after.incarnation, after.cause) == (booted_us, "life2", "boot")


def test_a_log_that_forgot_lines_leaves_a_hole_until_all_places_are_told_again() -> None:
    engine, reader = Engine(), Reader()
    reader.read(engine.view())
    seen_us = engine.now_us
    engine.wait(1)
    engine.patch(SettingChange(knob="active_cap", value=5, policy_id="pol_5"))
    engine.wait(1)
    engine.patch(SettingChange(knob="active_cap", value=6, policy_id="pol_6"))
    told_us = engine.now_us
    engine.wait(1)
    engine.patch(SettingChange(knob="active_cap", value=7, policy_id="pol_7"))
    hole, six, seven = reader.read(engine.view(ring=2))
    assert (hole.known, hole.from_us, hole.cause) == (False, seen_us, FORGOTTEN)
    assert six.from_us == told_us
    assert six.settings["active_cap"] == InForce(value=6, policy_id="pol_6")
    assert seven.settings["active_cap"].policy_id == "pol_7"


def test_a_law_that_moves_makes_no_segment() -> None:
    engine, reader = Engine(), Reader()
    engine.patch(SettingChange(knob="active_cap", law=LAW, policy_id="pol_law"))
    reader.read(engine.view())
    engine.meter.note("interactive", tokens=10, now_s=engine.now_s)
    engine.wait(5)
    assert [line.cause for line in engine.view().changes[-2:]] == ["law", "law"]
    assert reader.read(engine.view()) == []


def test_lines_that_were_not_fetched_yet_are_waited_for() -> None:
    engine, reader = Engine(), Reader()
    reader.read(engine.view())
    first = engine.patch(SettingChange(knob="active_cap", value=5))
    second = engine.patch(SettingChange(knob="active_cap", value=6))
    gapped = msgspec.structs.replace(second, changes=second.changes, log_from=0)
    assert first.changes[0].seq < gapped.changes[0].seq
    joined = msgspec.structs.replace(second, changes=(*engine.view().changes[:2], *second.changes))
    assert reader.read(joined) == []
    assert [one.settings["active_cap"].value for one in reader.read(engine.view())] == [5, 6]


def test_an_engine_that_does_not_show_what_its_log_says_is_not_believed() -> None:
    engine, reader = Engine(), Reader()
    reader.read(engine.view())
    engine.wait(2)
    view = engine.view()
    other = tuple(msgspec.structs.replace(one, policy_id="pol_x") for one in view.settings)
    unknown, now = reader.read(msgspec.structs.replace(view, settings=other))
    assert (unknown.known, now.known) == (False, True)
    assert now.settings["active_cap"].policy_id == "pol_x"
