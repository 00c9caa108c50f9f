"""From our settings to kafka-python's."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from signals.bus.settings import KafkaSettings
from signals.errors import Rejected

MAX_RECORD_BYTES = 67_108_864
"""The client's own limit is above any that a topic has: ``Topic.max_record_bytes`` rules."""


def client(settings: KafkaSettings) -> dict[str, Any]:
    """What every client needs. Holds the password: never log or show it.

    Raises ``Rejected`` when the password's file cannot be read.
    """
    request_ms = settings.request_timeout_ms
    found: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap),
        "security_protocol": settings.security.upper(),
        "request_timeout_ms": request_ms,
        "bootstrap_timeout_ms": request_ms,
        # A broker that is back must be found before the post that waits for it is given up.
        "reconnect_backoff_max_ms": min(1000, request_ms),
    }
    _quieten()
    if settings.security.startswith("sasl"):
        found["sasl_mechanism"] = settings.sasl_mechanism
        found["sasl_plain_username"] = settings.sasl_username
        found["sasl_plain_password"] = _password(settings.sasl_password_file)
    if settings.security.endswith("ssl"):
        files = {
            "ssl_cafile": settings.ssl_ca_file,
            "ssl_certfile": settings.ssl_cert_file,
            "ssl_keyfile": settings.ssl_key_file,
        }
        found |= {name: path for name, path in files.items() if path is not None}
    return found


def producer(settings: KafkaSettings) -> dict[str, Any]:
    """Idempotent, acknowledged by all in-sync replicas, given up after ``request_timeout_ms``.

    A single request gets half of that time, so that one whose answer was lost can be sent again.
    """
    request_ms = settings.request_timeout_ms // 2
    compression = settings.compression
    return client(settings) | {
        "acks": "all",
        "enable_idempotence": True,
        "request_timeout_ms": request_ms,
        "delivery_timeout_ms": settings.request_timeout_ms + settings.linger_ms,
        "linger_ms": settings.linger_ms,
        "batch_size": settings.record_bytes,
        "compression_type": None if compression == "none" else compression,
        "max_block_ms": request_ms,
        "max_request_size": MAX_RECORD_BYTES,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


def consumer(settings: KafkaSettings) -> dict[str, Any]:
    """A consumer that starts where it is told to and commits nothing.

    ``earliest`` is what a partition whose position the log no longer has is put to: the reader sees
    by the offset that this happened.
    """
    return client(settings) | {
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": min(settings.fetch_wait_ms, settings.request_timeout_ms // 2),
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


def member(settings: KafkaSettings) -> dict[str, Any]:
    """A consumer that shares the topic's partitions with others of its group."""
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    return consumer(settings) | {
        "group_id": settings.group,
        "partition_assignment_strategy": [CooperativeStickyAssignor],
        "session_timeout_ms": settings.session_timeout_ms,
        "heartbeat_interval_ms": settings.heartbeat_ms,
    }


def _quieten() -> None:
    """At DEBUG kafka-python logs its configuration, the password with it, and whole events."""
    logger = logging.getLogger("kafka")
    logger.setLevel(max(logger.level, logging.WARNING))


def _password(path: str | None) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip() if path is not None else ""
    except OSError as error:
        raise Rejected(
            f"the password of the brokers cannot be read: {error.strerror}",
            field="bus.kafka.sasl_password_file",
            value=path,
            allowed="a file that this process may read",
        ) from error
