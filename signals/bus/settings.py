"""Settings of the bus: how the log is kept, and Kafka in its place."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from signals.configuring import Section, setting


class KafkaSettings(Section):
    """Kafka as the bus. Secrets come from files, never from here."""

    bootstrap: tuple[str, ...] = setting(
        ("127.0.0.1:9092",), unit="", reason="brokers to ask first, as host:port", min_length=1
    )
    topic: str = setting("trimtab.signals", unit="", reason="one topic, keyed by target")
    partitions: int = setting(
        4, unit="partitions", reason="of a topic that is created here; targets share them", ge=1
    )
    group: str = setting("trimtab-features", unit="", reason="the feature stage's consumer group")
    replication: int = setting(
        3, unit="copies", reason="of a topic that is created here", ge=1, le=16
    )
    allow_single_copy: bool = setting(
        False,
        unit="",
        reason="start although min.insync.replicas < 2: a lost broker then loses what was"
        " acknowledged",
    )
    security: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = setting(
        "plaintext", unit="", reason="how brokers are spoken to"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = setting(
        None, unit="", reason="needed with sasl_*"
    )
    sasl_username: str | None = setting(None, unit="", reason="needed with sasl_*")
    sasl_password_file: str | None = setting(
        None, unit="", reason="read at start; never logged or shown"
    )
    ssl_ca_file: str | None = setting(None, unit="", reason="unset = the system's authorities")
    ssl_cert_file: str | None = setting(None, unit="", reason="for mutual TLS")
    ssl_key_file: str | None = setting(None, unit="", reason="for mutual TLS")
    session_timeout_ms: int = setting(
        10_000, unit="ms", reason="a silent consumer is expelled after it", ge=1000, le=300_000
    )
    heartbeat_ms: int = setting(
        3_000, unit="ms", reason="a third of the session time-out", ge=100, le=100_000
    )
    request_timeout_ms: int = setting(
        10_000,
        unit="ms",
        reason="a post waits this long for the brokers, then 503",
        ge=1000,
        le=300_000,
    )
    record_bytes: int = setting(
        262_144,
        unit="bytes",
        reason="events of one post and partition travel together in records of this size, which is"
        " what makes a post of hundreds cheap; the topic's max.message.bytes must allow it",
        ge=1024,
        le=16_777_216,
    )
    compression: Literal["none", "gzip", "lz4", "zstd"] = setting(
        "lz4", unit="", reason="events are JSON: a fraction of the bytes for little time"
    )
    linger_ms: int = setting(
        0,
        unit="ms",
        reason="records are full already, so waiting for company only delays acknowledgements",
        ge=0,
        le=1000,
    )
    fetch_wait_ms: int = setting(
        50, unit="ms", reason="a broker without news answers after it", ge=1, le=5000
    )

    @model_validator(mode="after")
    def _complete(self) -> KafkaSettings:
        if self.security.startswith("sasl"):
            needed = ("sasl_mechanism", "sasl_username", "sasl_password_file")
            missing = [name for name in needed if getattr(self, name) is None]
            if missing:
                raise ValueError(f"security {self.security} needs {', '.join(missing)}")
        if (self.ssl_cert_file is None) != (self.ssl_key_file is None):
            raise ValueError("ssl_cert_file and ssl_key_file come together")
        if self.heartbeat_ms * 2 > self.session_timeout_ms:
            raise ValueError("heartbeat_ms must be at most half of session_timeout_ms")
        return self


class BusSettings(Section):
    """The durable log behind ingest."""

    kind: Literal["sqlite", "kafka"] = setting(
        "sqlite", unit="", reason="one machine needs no broker"
    )
    kafka: KafkaSettings = Field(default_factory=KafkaSettings, description="for kind kafka")
    segment_bytes: int = setting(
        134_217_728,
        unit="bytes",
        reason="a segment is dropped whole; retention works in these steps",
        ge=65_536,
        le=4_294_967_296,
    )
    segment_s: int = setting(
        86_400,
        unit="s",
        reason="a segment takes events for a day at most, so that retention by time has steps when"
        " little comes",
        ge=60,
        le=2_592_000,
    )
    max_bytes: int = setting(
        17_179_869_184,
        unit="bytes",
        reason="beyond it the oldest segments go that every consumer has read",
        ge=131_072,
    )
    hard_bytes: int = setting(
        34_359_738_368,
        unit="bytes",
        reason="what a slow consumer may hold; beyond it posts are answered 503",
        ge=262_144,
    )
    commit_events: int = setting(
        100,
        unit="events",
        reason="a group commit of so many waits for no more; what came meanwhile goes with it",
        ge=1,
        le=10_000,
    )
    commit_ms: int = setting(
        2,
        unit="ms",
        reason="the longest an event waits for company before its fsync; after quiet it never does",
        ge=0,
        le=1000,
    )
    queue_events: int = setting(
        20_000, unit="events", reason="waiting for the writer; beyond it 503", ge=1, le=1_000_000
    )
    retention_s: int = setting(
        691_200, unit="s", reason="replay reaches back as far as dedupe does", ge=3600, le=2_592_000
    )
    trim_every_s: float = setting(
        10.0, unit="s", reason="between two steps of retention", gt=0, le=3600
    )

    @model_validator(mode="after")
    def _sizes_rise(self) -> Self:
        """What is read can only go in whole segments, and before posts are refused."""
        if not 2 * self.segment_bytes <= self.max_bytes <= self.hard_bytes:
            raise ValueError(
                "max_bytes must be two segments (segment_bytes) at least, and hard_bytes at most"
            )
        return self
