"""Settings become kafka-python's; the password stays where it is. No SASL or TLS broker is run."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from pydantic import ValidationError

from signals.bus.kafka import configuring
from signals.bus.settings import KafkaSettings
from signals.errors import Rejected

SECRET = "brokers-secret-7d1"


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(SECRET + "\n", encoding="utf-8")
    return file


def sasl(password: Path) -> KafkaSettings:
    return KafkaSettings(
        bootstrap=("b1:9093", "b2:9093"),
        security="sasl_ssl",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="trimtab",
        sasl_password_file=str(password),
        ssl_ca_file="ca.pem",
        ssl_cert_file="me.pem",
        ssl_key_file="me.key",
    )


def test_sasl_and_tls_are_given_to_every_client(password: Path) -> None:
    wanted = {
        "bootstrap_servers": ["b1:9093", "b2:9093"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "trimtab",
        "sasl_plain_password": SECRET,
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "me.pem",
        "ssl_keyfile": "me.key",
    }
    for options in (configuring.producer, configuring.consumer, configuring.member):
        assert wanted.items() <= options(sasl(password)).items()


def test_plaintext_gives_no_security_options() -> None:
    options = configuring.client(KafkaSettings())
    assert options["security_protocol"] == "PLAINTEXT"
    assert not [name for name in options if name.startswith(("sasl", "ssl"))]


def test_every_option_is_one_that_kafka_python_knows(password: Path) -> None:
    settings = sasl(password)
    assert configuring.client(settings).keys() <= KafkaAdminClient.DEFAULT_CONFIG.keys()
    assert configuring.producer(settings).keys() <= KafkaProducer.DEFAULT_CONFIG.keys()
    assert configuring.member(settings).keys() <= KafkaConsumer.DEFAULT_CONFIG.keys()


def test_the_producer_is_idempotent_and_waits_for_all_in_sync_replicas() -> None:
    options = configuring.producer(KafkaSettings(request_timeout_ms=8000))
    assert options["acks"] == "all"
    assert options["enable_idempotence"] is True
    assert options["delivery_timeout_ms"] == 8000
    assert options["request_timeout_ms"] == 4000, "a lost answer is asked for again in time"


def test_the_consumer_commits_nothing() -> None:
    assert configuring.member(KafkaSettings())["enable_auto_commit"] is False


def test_the_password_is_in_no_setting_and_in_no_log(
    password: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = sasl(password)
    assert SECRET not in repr(settings) + settings.model_dump_json()
    options = configuring.client(settings) | {
        "bootstrap_servers": ["127.0.0.1:9"],
        "security_protocol": "PLAINTEXT",
        "bootstrap_timeout_ms": 200,
    }
    with caplog.at_level(logging.DEBUG), pytest.raises(Exception, match="bootstrap") as failed:
        KafkaAdminClient(**options)
    assert SECRET not in caplog.text + repr(failed.value)


def test_a_password_file_that_cannot_be_read_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="password") as refused:
        configuring.client(sasl(tmp_path / "nowhere"))
    assert refused.value.field == "bus.kafka.sasl_password_file"


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"security": "sasl_ssl"}, "needs sasl_mechanism, sasl_username, sasl_password_file"),
        ({"security": "ssl", "ssl_cert_file": "me.pem"}, "come together"),
        ({"session_timeout_ms": 1000, "heartbeat_ms": 600}, "half of session_timeout_ms"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(chosen: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        KafkaSettings.model_validate(chosen)
