"""Settings of the signals room: ingest, feature stage, intents, metrics; the bus has its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from signals.configuring import Section, setting

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class Slo(Section):
    """Service levels of an intent. A request is good only if it meets every one that is set."""

    ttft_ms: int | None = setting(
        None, unit="ms", reason="time to first token; unset = not judged", gt=0, le=3_600_000
    )
    tpot_ms: int | None = setting(
        None, unit="ms", reason="mean time per output token after the first", gt=0, le=60_000
    )
    e2e_ms: int | None = setting(
        None, unit="ms", reason="arrival to last token; unset = not judged", gt=0, le=86_400_000
    )
    attainment: float = setting(
        0.95, unit="share", reason="good / sent that the intent needs, failures counted", gt=0, le=1
    )

    def deadline_us(self, max_tokens: int) -> int | None:
        """Microseconds after arrival at which an unfinished request has failed; None = never."""
        if self.e2e_ms is not None:
            return self.e2e_ms * 1000
        if self.ttft_ms is None:
            return None
        return (self.ttft_ms + (self.tpot_ms or 0) * max(0, max_tokens - 1)) * 1000

    def met(self, *, ttft_us: int | None, tpot_us: int | None, e2e_us: int) -> bool:
        """Whether a request that completed with these times was good."""
        if self.ttft_ms is not None and (ttft_us is None or ttft_us > self.ttft_ms * 1000):
            return False
        if self.tpot_ms is not None and tpot_us is not None and tpot_us > self.tpot_ms * 1000:
            return False
        return self.e2e_ms is None or e2e_us <= self.e2e_ms * 1000


class IntentSettings(Section):
    """A named group of similar prompts."""

    class_: Literal["interactive", "batch"] = Field(
        default="interactive",
        alias="class",
        description="scheduling class; interactive is admitted before batch",
        json_schema_extra={"unit": ""},
    )
    slo: Slo = Field(default_factory=Slo, description="what its requests must meet")


class MetricSettings(Section):
    """A declared business or semantic metric; an undeclared name is refused at ingest."""

    layer: Literal["business", "semantic"] = setting(
        "business", unit="", reason="users' acts are business, scores are semantic"
    )
    type: Literal["boolean", "float", "count", "duration"] = setting(
        "boolean", unit="", reason="how values are read; booleans become 0 and 1"
    )
    unit: str = setting("", unit="", reason="shown beside every figure of this metric")
    direction: Literal["up", "down"] = setting(
        "up", unit="", reason="which way is better; guards need to know"
    )
    low: float = setting(0.0, unit="metric's", reason="a value below is refused", ge=-1e12, le=1e12)
    high: float = setting(
        1.0,
        unit="metric's",
        reason="a value above is refused, and what adds up for one request counts up to it",
        ge=-1e12,
        le=1e12,
    )
    attribution_s: int = setting(
        604_800,
        unit="s",
        reason="feedback this long after its request's arrival still counts; rates wait so long",
        ge=1,
        le=604_800,
    )
    absent: Literal["zero", "missing"] | None = setting(
        None,
        unit="",
        reason="a request without a value when the attribution window has closed counts as 0, or"
        " not at all; unset = zero for boolean and count, missing for float and duration",
    )
    owner: str = setting(
        "", unit="", reason="the team that may change it; empty = admins only", max_length=63
    )


class IngestSettings(Section):
    """The signals API."""

    host: str = setting("127.0.0.1", unit="", reason="loopback until somebody says otherwise")
    port: int = setting(8081, unit="port", reason="beside the control plane's 8080", ge=1, le=65535)
    max_connections: int = setting(
        200, unit="connections", reason="open at once; beyond it 503", ge=1, le=10_000
    )
    max_body_bytes: int = setting(
        4_194_304,
        unit="bytes",
        reason="about 10,000 events; bounds memory per request",
        ge=1024,
        le=67_108_864,
    )
    max_inflight_bytes: int = setting(
        16_777_216,
        unit="bytes",
        reason="bodies being read, judged and committed at once; beyond it 503",
        ge=1_048_576,
        le=4_294_967_296,
    )
    body_timeout_s: float = setting(
        20.0, unit="s", reason="a body that takes longer is given up: 408", gt=0, le=3600
    )
    max_events: int = setting(
        10_000,
        unit="events",
        reason="per request; larger posts are split by the caller",
        ge=1,
        le=100_000,
    )
    horizon_s: int = setting(
        691_200,
        unit="s",
        reason="8 days: a week of attribution and a day of delay",
        ge=60,
        le=691_200,
    )
    skew_s: int = setting(
        300, unit="s", reason="clocks run ahead; 5 min is generous", ge=0, le=3600
    )
    recent_ids: int = setting(
        20_000,
        unit="ids",
        reason="remembered to count duplicates in answers; about 3 MB",
        ge=0,
        le=1_000_000,
    )


class FeatureSettings(Section):
    """The feature stage: dedupe, join, windows."""

    poll_ms: int = setting(
        20, unit="ms", reason="how often the bus is read when quiet", ge=1, le=1000
    )
    batch_events: int = setting(
        1000,
        unit="events",
        reason="one transaction; about 60 ms of work, its lock held for about 15",
        ge=1,
        le=100_000,
    )
    batch_bytes: int = setting(
        2_097_152,
        unit="bytes",
        reason="bodies of one transaction: far more than batch_events of the usual size need; of"
        " records that name a thousand requests each, ten",
        ge=65_536,
        le=67_108_864,
    )
    publish_ms: int = setting(
        100, unit="ms", reason="open windows are published at least this often", ge=10, le=250
    )
    lateness_s: int = setting(
        30, unit="s", reason="a window closes this long after its end in event time", ge=0, le=600
    )
    orphan_s: int = setting(
        604_800, unit="s", reason="feedback waits 7 days for its request", ge=60, le=691_200
    )
    correlate_s: int = setting(
        30,
        unit="s",
        reason="feedback about a session waits this long for a watermark that stands still, then"
        " is bound to what is known",
        ge=0,
        le=3600,
    )
    rate_span_s: int = setting(
        3600,
        unit="s",
        reason="business rates are of the requests of this long a stretch whose attribution window"
        " has closed",
        ge=60,
        le=86_400,
    )
    five_minute_retention_s: int = setting(
        172_800, unit="s", reason="5 min windows for 2 days", ge=3600, le=2_592_000
    )
    hour_retention_s: int = setting(
        777_600,
        unit="s",
        reason="1 h windows for 9 days: the longest attribution, and two to look at",
        ge=3600,
        le=7_776_000,
    )
    deaths: int = setting(
        3,
        unit="deaths",
        reason="of the process at one offset before entries are taken one by one, and of one entry"
        " alone before it is set aside",
        ge=1,
        le=100,
    )
    death_pause_s: float = setting(
        0.5,
        unit="s",
        reason="after a start, for each death that came while an entry was tried alone, before it"
        " is tried again: who is killed again and again from outside is not in a try then",
        ge=0,
        le=60,
    )
    request_retention_s: int = setting(
        691_200,
        unit="s",
        reason="request rows outlive their attribution windows",
        ge=3600,
        le=2_592_000,
    )
    atom_retention_s: int = setting(7200, unit="s", reason="5 s windows for 2 h", ge=600, le=86_400)
    minute_retention_s: int = setting(
        172_800, unit="s", reason="1 min windows for 2 days", ge=3600, le=2_592_000
    )
    prune_rows: int = setting(
        2000,
        unit="rows",
        reason="one step of retention, of each table: twice what a batch of 1,000 events adds, so"
        " that retention keeps up with any load; its lock is held for about 15 ms",
        ge=1,
        le=100_000,
    )
    prune_every_s: float = setting(
        5.0, unit="s", reason="between two steps of retention", gt=0, le=3600
    )
    dead_letters: int = setting(
        10_000,
        unit="events",
        reason="kept; beyond it the oldest go, counted as dropped",
        ge=1,
        le=1_000_000,
    )
    quarantined_letters: int = setting(
        200_000,
        unit="events",
        reason="kept of producers in quarantine, apart from other dead letters, so that neither"
        " pushes the other out",
        ge=1,
        le=10_000_000,
    )
    letter_bytes: int = setting(
        268_435_456,
        unit="bytes",
        reason="bodies of dead letters, and as much again of quarantined ones; beyond it the"
        " oldest go, counted as dropped",
        ge=1_048_576,
    )
    letter_retention_s: int = setting(
        1_209_600,
        unit="s",
        reason="dead letters for two weeks: five days after their ids are forgotten, when no replay"
        " takes them any more",
        ge=3600,
        le=7_776_000,
    )
    erased_rows: int = setting(
        2000,
        unit="rows",
        reason="requests, orphans and letters, of each, that one erasure lets go of in one"
        " transaction; the rest is for the next",
        ge=1,
        le=100_000,
    )
    command_letters: int = setting(
        1000,
        unit="events",
        reason="replayed or discarded by one command, in one transaction; the rest is for the next",
        ge=1,
        le=10_000,
    )
    commands: int = setting(
        1000, unit="commands", reason="whose outcome is kept to be shown", ge=1, le=100_000
    )
    clock_ahead_ms: int = setting(
        2000, unit="ms", reason="events further in the future flag their clock", ge=0, le=300_000
    )
    clock_behind_s: int = setting(
        300,
        unit="s",
        reason="a clock is flagged when nothing of late was younger on arrival",
        ge=1,
        le=691_200,
    )
    sequence_ranges: int = setting(
        1000,
        unit="ranges",
        reason="gaps remembered per engine incarnation before the oldest is given up",
        ge=2,
        le=100_000,
    )
    backoff_max_s: float = setting(
        5.0, unit="s", reason="the longest pause after a failing disk or a missing bus", gt=0, le=60
    )
