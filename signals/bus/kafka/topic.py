"""The topic: made when it is missing, refused when it would not keep what is promised."""

from __future__ import annotations

from collections.abc import Mapping

import kafka.errors
from kafka.admin import ConfigResource, KafkaAdminClient, NewTopic
from msgspec import Struct

from signals.bus.kafka import configuring
from signals.bus.kafka.connecting import connect
from signals.bus.settings import BusSettings, KafkaSettings
from signals.errors import Rejected, Unavailable

ISR = "min.insync.replicas"
RECORD = "max.message.bytes"
KAFKAS_RECORD_BYTES = 1_048_588
"""What a broker allows that was not told otherwise."""
_OVERHEAD_BYTES = 512
"""What a batch of one record is longer than the record."""


class Topic(Struct, frozen=True, kw_only=True):
    """What the brokers say of it. ``copies``: ``min.insync.replicas``, None when not said."""

    partitions: int
    copies: int | None
    max_record_bytes: int


def prepared(bus: BusSettings) -> Topic:
    """The topic, made if need be, and found fit.

    Raises ``Rejected`` naming the setting that does not go with it, ``Unavailable`` when no broker
    answers or one refuses.
    """
    settings = bus.kafka
    try:
        admin = connect(KafkaAdminClient, configuring.client(settings))
        try:
            if not _exists(admin, settings.topic):
                _create(admin, bus)
            topic = _look(admin, settings.topic)
        finally:
            admin.close()
    except kafka.errors.KafkaError as error:
        raise Unavailable(f"Kafka: {error}") from error
    check(topic, settings)
    return topic


def check(topic: Topic, settings: KafkaSettings) -> None:
    """Raise ``Rejected`` for a topic that does not go with the settings."""
    name = settings.topic
    if topic.partitions != settings.partitions:
        raise Rejected(
            f"topic {name} has {topic.partitions} partitions, and targets are mapped to"
            f" {settings.partitions}: set bus.kafka.partitions to what it has",
            field="bus.kafka.partitions",
            value=settings.partitions,
            allowed=topic.partitions,
        )
    if not settings.allow_single_copy and (topic.copies is None or topic.copies < 2):
        said = "is not told by the brokers" if topic.copies is None else f"is {topic.copies}"
        raise Rejected(
            f"{ISR} of topic {name} {said}: what one broker acknowledged alone is lost with it."
            " Set it to 2 on the topic, or bus.kafka.allow_single_copy to accept that",
            field="bus.kafka.allow_single_copy",
            value=False,
            allowed=f"{ISR} >= 2, or allow_single_copy: true",
        )
    if settings.record_bytes + _OVERHEAD_BYTES > topic.max_record_bytes:
        raise Rejected(
            f"{RECORD} of topic {name} is {topic.max_record_bytes}",
            field="bus.kafka.record_bytes",
            value=settings.record_bytes,
            allowed=f"at most {topic.max_record_bytes - _OVERHEAD_BYTES}",
        )


def _exists(admin: KafkaAdminClient, name: str) -> bool:
    return name in admin.list_topics()


def _create(admin: KafkaAdminClient, bus: BusSettings) -> None:
    settings = bus.kafka
    configs = {"retention.ms": str(bus.retention_s * 1000)}
    if not settings.allow_single_copy:
        configs[ISR] = "2"
    wanted = NewTopic(
        settings.topic, settings.partitions, settings.replication, topic_configs=configs
    )
    try:
        admin.create_topics([wanted])
    except kafka.errors.TopicAlreadyExistsError:
        return  # Two processes start at once: the other one was first.
    admin.wait_for_topics([settings.topic], timeout_ms=settings.request_timeout_ms)


def _look(admin: KafkaAdminClient, name: str) -> Topic:
    found = admin.describe_topics([name])[0]
    resource = ConfigResource("TOPIC", name)
    told = admin.describe_configs([resource], config_filter="all")
    values = _values(told.get("topic", {}).get(name, {}))
    copies = values.get(ISR)
    return Topic(
        partitions=len(found["partitions"]),
        copies=None if copies is None else int(copies),
        max_record_bytes=int(values.get(RECORD, KAFKAS_RECORD_BYTES)),
    )


def _values(configs: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
    values = ((name, config.get("value")) for name, config in configs.items())
    return {name: value for name, value in values if value is not None}
