"""The topic is made as wanted, and one that would not keep what is promised is refused."""

from __future__ import annotations

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from benchmarks.broker import Broker
from signals.bus.kafka.membership import KafkaAssignment
from signals.bus.kafka.producing import KafkaBus
from signals.bus.kafka.topic import Topic, check, prepared
from signals.bus.settings import BusSettings, KafkaSettings
from signals.errors import Rejected
from tests.kafka.buses import PARTITIONS, settings_for

FIT = Topic(partitions=4, copies=2, max_record_bytes=1_048_588)


def make_topic(broker: Broker, settings: BusSettings, configs: dict[str, str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port}")
    admin.create_topics([NewTopic(settings.kafka.topic, PARTITIONS, 1, topic_configs=configs)])
    admin.close()


def test_a_missing_topic_is_made_with_the_partitions_that_are_set(settings: BusSettings) -> None:
    assert prepared(settings).partitions == PARTITIONS
    assert prepared(settings).partitions == PARTITIONS, "a second start finds it"


def test_a_topic_that_is_made_for_two_copies_asks_for_them(broker: Broker) -> None:
    settings = settings_for(broker.port, allow_single_copy=False)
    assert prepared(settings).copies == 2


def test_a_topic_of_which_one_copy_is_enough_is_refused_by_both_ends(broker: Broker) -> None:
    settings = settings_for(broker.port, allow_single_copy=False)
    make_topic(broker, settings, {"min.insync.replicas": "1"})
    with pytest.raises(Rejected, match="allow_single_copy") as refused:
        KafkaBus(settings)
    assert refused.value.field == "bus.kafka.allow_single_copy"
    with pytest.raises(Rejected, match=r"min\.insync\.replicas of topic .* is 1"):
        KafkaAssignment(settings).partitions()


def test_a_topic_of_which_the_brokers_do_not_say_is_refused_too(broker: Broker) -> None:
    settings = settings_for(broker.port, allow_single_copy=False)
    make_topic(broker, settings, {})
    with pytest.raises(Rejected, match="is not told by the brokers"):
        KafkaBus(settings)


def test_another_number_of_partitions_is_refused_for_targets_are_mapped_by_it(
    broker: Broker, settings: BusSettings
) -> None:
    make_topic(broker, settings, {})
    kafka = settings.kafka.model_copy(update={"partitions": PARTITIONS + 1})
    with pytest.raises(Rejected, match="has 3 partitions") as refused:
        KafkaBus(settings.model_copy(update={"kafka": kafka}))
    assert refused.value.field == "bus.kafka.partitions"
    assert refused.value.allowed == PARTITIONS


def test_a_topic_that_takes_only_smaller_records_is_refused() -> None:
    check(FIT, KafkaSettings())
    small = Topic(partitions=4, copies=2, max_record_bytes=100_000)
    with pytest.raises(Rejected, match=r"max\.message\.bytes") as refused:
        check(small, KafkaSettings())
    assert refused.value.field == "bus.kafka.record_bytes"


@pytest.mark.parametrize(("copies", "allowed"), [(2, True), (3, True), (1, False), (None, False)])
def test_two_copies_are_enough(copies: int | None, allowed: bool) -> None:
    topic = Topic(partitions=4, copies=copies, max_record_bytes=1_048_588)
    check(topic, KafkaSettings(allow_single_copy=True))
    if allowed:
        check(topic, KafkaSettings())
    else:
        with pytest.raises(Rejected):
            check(topic, KafkaSettings())
