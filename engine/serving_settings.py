"""Settings of what surrounds the model: its two listeners, its control, its telemetry."""

from __future__ import annotations

from pathlib import Path

from signals.configuring import Section, setting

HTTP_URL = r"^https?://[^/\s]+"


class ServingSettings(Section):
    """The chat API and the control listener."""

    host: str = setting("127.0.0.1", unit="", reason="loopback until somebody says otherwise")
    port: int = setting(
        8000, unit="port", reason="where OpenAI-compatible servers listen; 0 = any", ge=0, le=65535
    )
    control_host: str = setting(
        "127.0.0.1", unit="", reason="who may reach the chat API need not reach control"
    )
    control_port: int = setting(
        8001, unit="port", reason="its own listener beside the chat API; 0 = any", ge=0, le=65535
    )
    control_key_file: Path | None = setting(
        None, unit="", reason="bearer key of the control listener; needed to start"
    )
    serving_key_file: Path | None = setting(
        None, unit="", reason="bearer key of the chat API; unset = open, as on a private network"
    )
    default_max_tokens: int = setting(
        256, unit="tokens", reason="an answer's bound when the client sets none", ge=1, le=8192
    )
    prompt_share: float = setting(
        0.9,
        unit="share",
        reason="of the context; a longer prompt leaves no room to answer",
        gt=0,
        lt=1,
    )
    max_connections: int = setting(
        4096,
        unit="connections",
        reason="each listener's; several times the queue; beyond it 503",
        ge=16,
        le=65_536,
    )
    max_request_bytes: int = setting(
        1_048_576, unit="bytes", reason="many times a full context of text", ge=1024, le=67_108_864
    )
    retry_after_s: int = setting(
        1, unit="s", reason="told to a client that found the queue full", ge=1, le=600
    )
    max_pending_patches: int = setting(
        64,
        unit="patches",
        reason="waiting for the next step boundary; beyond it 503",
        ge=1,
        le=4096,
    )
    remembered_changes: int = setting(
        256,
        unit="changes",
        reason="answers kept for callers that repeat a change id",
        ge=1,
        le=65_536,
    )
    apply_timeout_s: float = setting(
        2.0,
        unit="s",
        reason="several steps of 300 ms; beyond it the engine is stuck: 503",
        gt=0,
        le=60,
    )
    stop_grace_s: float = setting(
        3.0, unit="s", reason="running answers may finish this long after a stop", ge=0, le=600
    )


class TelemetrySettings(Section):
    """Basic signals to ingest, and traces."""

    ingest_url: str | None = setting(
        None,
        unit="",
        reason="where signals are posted; unset = none are sent",
        pattern=HTTP_URL,
    )
    producer_key_file: Path | None = setting(
        None, unit="", reason="bearer key of this engine as a producer of basic signals"
    )
    privacy_key_file: Path | None = setting(
        None,
        unit="",
        reason="session and external ids become pseudonyms under it; unset = they stay as they are",
    )
    telemetry_ring: int = setting(
        20_000,
        unit="records",
        reason="minutes of a busy engine while ingest is away; then the oldest go",
        ge=16,
        le=1_000_000,
    )
    count_at_edge: bool = setting(
        False,
        unit="",
        reason="post windows of counts and request ids instead of every request: for thousands of"
        " requests a second; no trial can judge such an engine",
    )
    post_events: int = setting(500, unit="events", reason="one post; about 300 kB", ge=1, le=10_000)
    post_linger_ms: int = setting(
        50, unit="ms", reason="how long a record waits for company", ge=1, le=1000
    )
    post_timeout_s: float = setting(
        5.0, unit="s", reason="one fsync takes milliseconds", gt=0, le=60
    )
    post_backoff_max_s: float = setting(
        2.0, unit="s", reason="ingest is found again this soon after it is back", gt=0, le=60
    )
    second_ms: int = setting(
        1000, unit="ms", reason="length of one `second` record", ge=50, le=5000
    )
    flush_s: float = setting(
        2.0, unit="s", reason="how long a stop waits for the last signals to be posted", ge=0, le=60
    )
    trace_log: Path | None = setting(
        None, unit="", reason="JSON lines, one a span; unset = no trace log"
    )
    trace_log_bytes: int = setting(
        16_777_216, unit="bytes", reason="one file, then the next", ge=4096, le=1_073_741_824
    )
    trace_log_files: int = setting(
        4, unit="files", reason="kept beside the one in use; bounds the disk", ge=1, le=100
    )
    trace_queue: int = setting(
        4096,
        unit="requests",
        reason="finished requests not yet traced; beyond it not traced",
        ge=16,
        le=1_000_000,
    )
    otlp_endpoint: str | None = setting(
        None,
        unit="",
        reason="OTLP over HTTP, e.g. http://collector:4318/v1/traces; unset = none",
        pattern=HTTP_URL,
    )
