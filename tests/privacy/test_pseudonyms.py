"""Pseudonyms: the same id is always called the same, at every door, and never by its name."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from controller.bootstrap import pseudonyms_of
from controller.config.load import validate
from controller.processes.engine_start import engine_run
from engine.http.marks import read_marks
from engine.run_settings import read_keys
from engine.settings import EngineSettings
from signals.basic_events import check_basic
from signals.codec import encode
from signals.definitions import StaticDefinitions
from signals.errors import Rejected
from signals.events import Named, NamedRequest, Record
from signals.ingest.keys import Producer
from signals.ingest.sorting import sort_out
from signals.pseudonyms import Pseudonyms
from signals.rules import Rules
from signals.settings import IngestSettings
from signals.wire import Posted
from tests.engine_process import CONTROL_KEY
from tests.signals.making import METRICS, T0_US, arrived, basic, finished, request_id, stamp

NAMES = Pseudonyms(b"k" * 32)
PLAIN = "mary.smith@example.org"


def rules(pseudonyms: Pseudonyms | None) -> Rules:
    return Rules(
        producer=Producer(name="shop", kinds=frozenset({"business", "basic"})),
        definitions=StaticDefinitions(METRICS).current(),
        targets={"chat"},
        settings=IngestSettings(),
        now_us=T0_US,
        pseudonyms=pseudonyms,
    )


def test_an_id_has_one_pseudonym_and_a_pseudonym_is_its_own() -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    visible = string.ascii_letters + string.digits + string.punctuation
    ids = {"".join(rng.choices(visible, k=rng.randint(1, 200))) for _ in range(300)}
    ids |= {"s~" + "A" * 32, "s~" + "!" * 32, "s~!" + "A" * 31, "x~" + "_" * 32, "s~"}
    for one in ids:
        session, external = NAMES.session(one), NAMES.external(one)
        assert one not in (session, external), f"seed {seed}"
        assert len(session) == len(external) == 34
        assert NAMES.session(session) == session, f"seed {seed}"
        assert NAMES.external(external) == external, f"seed {seed}"
        assert session[2:] != external[2:]
    assert len({NAMES.session(one) for one in ids}) == len(ids), f"seed {seed}"


def test_another_key_gives_other_pseudonyms_and_does_not_take_these_for_its_own() -> None:
    other = Pseudonyms(b"o" * 32)
    assert other.session(PLAIN) != NAMES.session(PLAIN)
    assert other.session(NAMES.session(PLAIN)) != NAMES.session(PLAIN)
    with pytest.raises(ValueError, match="32 bytes"):
        Pseudonyms(b"short")


def test_the_engines_door_and_ingests_give_the_same_pseudonym() -> None:
    headers = {"x-trimtab-session": PLAIN, "x-trimtab-external-id": "order-7"}
    marks = read_marks(headers, {}, NAMES)
    assert marks.session_id == NAMES.session(PLAIN)
    body = b'{"id":"1","kind":"business","name":"copied","value":true,"session_id":"%s"}'
    posted = (body % PLAIN.encode()).replace(b"}", b',"time":"2026-09-21T13:33:20Z"}')
    outcome = sort_out(posted, content_type="application/json", encoding="", rules=rules(NAMES))
    assert outcome.refused == []
    assert f'"session_id":"{marks.session_id}"'.encode() in outcome.messages[0].body
    assert PLAIN.encode() not in outcome.messages[0].body


@pytest.mark.parametrize(
    "record",
    [
        arrived(1, 1, T0_US, external_id="order-7", session_id=PLAIN),
        finished(1, 1, T0_US, T0_US, external_id="order-7", session_id=PLAIN),
        Named(
            seq=1,
            stamp=stamp(),
            at_us=T0_US,
            requests=(
                NamedRequest(
                    request_id=request_id(1),
                    intent="live",
                    class_="interactive",
                    arrival_us=T0_US,
                    external_id="order-7",
                    session_id=PLAIN,
                ),
            ),
        ),
    ],
)
def test_records_of_an_engine_that_hashes_nothing_are_hashed_at_ingest(record: Record) -> None:
    signal = basic(record)
    posted = Posted(id=signal.id, kind="basic", name=signal.name, data=record)
    hidden = check_basic(posted, rules(NAMES))
    body = encode(hidden)
    assert NAMES.session(PLAIN).encode() in body
    assert NAMES.external("order-7").encode() in body
    assert PLAIN.encode() not in body
    assert b"order-7" not in body
    again = Posted(id=signal.id, kind="basic", name=signal.name, data=hidden.data)
    assert encode(check_basic(again, rules(NAMES))) == body
    assert PLAIN.encode() in encode(check_basic(posted, rules(None)))


def test_a_refused_id_is_not_repeated() -> None:
    with pytest.raises(Rejected) as refused:
        read_marks({"x-trimtab-session": "mary smith"}, {}, NAMES)
    assert "mary" not in str(refused.value.problem())


def test_an_engine_of_this_machine_is_given_the_key_where_ids_are_hashed(tmp_path: Path) -> None:
    target = {"maximize": "batch.tokens_per_s", "intents": {"batch": {"class": "batch"}}}
    tree = {"state_dir": str(tmp_path), "targets": {"chat": target}}
    assert engine_run(validate(tree)).engine.privacy_key_file is None
    run = engine_run(validate({**tree, "privacy": {"hash_ids": True}}))
    assert run.engine.privacy_key_file == tmp_path / "keys" / "privacy.key"


def test_a_key_that_is_short_or_missing_stops_the_engine_and_ingest(tmp_path: Path) -> None:
    for name, key in (("control", CONTROL_KEY), ("privacy", "short")):
        (tmp_path / name).write_text(key)
    settings = EngineSettings(
        control_key_file=tmp_path / "control", privacy_key_file=tmp_path / "privacy"
    )
    with pytest.raises(Rejected) as refused:
        read_keys(settings)
    assert refused.value.field == "engine.privacy_key_file"
    hashing = validate({"state_dir": str(tmp_path), "privacy": {"hash_ids": True}})
    with pytest.raises(Rejected, match="holds no key"):
        pseudonyms_of(hashing)
    (tmp_path / "privacy").write_text("k" * 32)
    assert read_keys(settings).pseudonyms is not None
