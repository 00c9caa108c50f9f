"""How engines are watched for drift, and what an alarm of it does."""

from __future__ import annotations

from signals.configuring import Section, setting


class DriftSettings(Section):
    """The watch on each intent's latency, given its load. An alarm only keeps trials waiting."""

    block_s: int = setting(
        30,
        unit="s",
        reason="a block's figure: shorter ones hold too few requests, longer ones tell later",
        ge=10,
        le=600,
    )
    min_requests: int = setting(
        8,
        unit="requests",
        reason="a block with fewer of an intent says nothing of it",
        ge=1,
        le=10_000,
    )
    stands_s: int = setting(
        600,
        unit="s",
        reason="an alarm ends this long after the last sign of drift: what settles is looked at"
        " for a while first",
        ge=0,
        le=86_400,
    )
    references: int = setting(
        4,
        unit="settings",
        reason="settings whose usual latencies are remembered, so that an emergency that comes and"
        " goes does not make the watch begin anew",
        ge=1,
        le=32,
    )
    max_intents: int = setting(
        16, unit="intents", reason="watched of one target, in the order declared", ge=1, le=64
    )
    noted_s: int = setting(
        300,
        unit="s",
        reason="what was learned is noted this often, so that a restart loses no more of it",
        ge=10,
        le=86_400,
    )
    catch_up: int = setting(
        20,
        unit="blocks",
        reason="looked at again after a time away, at most; older ones are left out",
        ge=1,
        le=1000,
    )
