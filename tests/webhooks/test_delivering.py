"""What is recorded reaches whoever subscribed to it, over real HTTP, whatever the receivers do."""

from __future__ import annotations

import time

import httpx
import pytest
from msgspec.structs import replace

from controller.config.load import validate
from controller.keys import wall_us
from controller.webhooks import operating
from controller.webhooks.running import secret_file
from controller.webhooks.signing import new_secret, verify
from signals.errors import Conflict, NotFound, Rejected
from tests.cli.running import until
from tests.webhooks.hooked import ADA, Hooked
from tests.webhooks.receiving import Post, receiving


def test_an_act_is_told_signed_with_who_did_what_to_what(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops", "mode.*")
    with hooked.running():
        hooked.act(mode="auto", was="observe", content="00ff", where="http://10.0.0.7:8001")
        receiver.wait_for(1)
    post = receiver.posts[0]
    verify(post.headers, post.body, hooked.secrets("ops"), now_s=time.time())
    told = post.json
    assert told.pop("time").endswith("Z")
    assert told == {
        "id": "ops:0",
        "event": "mode.set",
        "entry": 0,
        "target": "chat",
        "subject": "active_cap",
        "actor": "key_ada",
        "details": {"mode": "auto", "was": "observe", "where": "(address)"},
    }
    assert post.headers["webhook-id"] == "ops:0"
    assert post.headers["content-type"] == "application/json"


def test_a_hook_is_told_only_of_what_it_subscribed_to(hooked: Hooked) -> None:
    some = hooked.receiver("some", "mode.set", "control.*", targets=["chat"])
    every = hooked.receiver("every", "*")
    with hooked.running():
        hooked.act("mode.set")
        hooked.act("mode.set", target="draw")
        hooked.act("control.held")
        hooked.act("engine.restarted")
        hooked.act("control.killed", target="")
        every.wait_for(5)
        some.wait_for(2)
    assert some.events == ["mode.set", "control.held"]
    assert len(every.events) == 5


def test_details_of_keys_and_commands_stay_here(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")
    with hooked.running():
        hooked.act("command.replay", reason="shop had it twice", event="cmd_1.0")
        receiver.wait_for(1)
    assert receiver.posts[0].json["details"] == {}
    assert b"shop" not in receiver.posts[0].body


def test_a_new_hook_is_told_of_what_comes_from_now_on(hooked: Hooked) -> None:
    hooked.act("control.held")
    receiver = hooked.receiver("ops")
    with hooked.running():
        hooked.act("control.released")
        receiver.wait_for(1)
    assert receiver.events == ["control.released"]


def test_an_act_that_is_rolled_back_is_told_to_nobody(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")
    with hooked.running():
        with pytest.raises(ZeroDivisionError), hooked.store.write() as tx:
            tx.append_audit(
                at_us=1, actor="a", action="control.held", subject="s", target="", details={}
            )
            1 / 0  # noqa: B018
        hooked.act("control.released")
        receiver.wait_for(1)
    assert receiver.events == ["control.released"]


def test_order_is_kept_while_nothing_fails(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")
    with hooked.running():
        for number in range(60):
            hooked.act(number=number)
        receiver.wait_for(60)
    assert [post.json["entry"] for post in receiver.posts] == list(range(60))


def test_an_outage_is_outlasted(hooked: Hooked) -> None:
    with receiving() as gone:
        hooked.declare("ops", gone.url)
    hooked.bound(attempts=100)
    with hooked.running():
        for _ in range(3):
            hooked.act()
        until(lambda: any(one.attempts for one in hooked.deliveries("ops")), "an attempt fails")
        assert hooked.state("ops").error == "no answer (ConnectError)"
        with receiving(gone.port) as back:
            hooked.settled("ops", "delivered", 3)
            assert sorted(back.ids) == ["ops:0", "ops:1", "ops:2"]
    assert hooked.state("ops").waiting == 0
    assert hooked.state("ops").error is None


def test_a_failing_receiver_is_tried_again_and_then_given_up_on_the_record(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")
    receiver.answer = lambda post, number: (500, {})
    watcher = hooked.receiver("watcher", "webhook.*")
    hooked.bound(attempts=3)
    with hooked.running():
        hooked.act()
        hooked.settled("ops", "given_up", 1)
        watcher.wait_for(1)
    assert receiver.ids == ["ops:0"] * 3
    assert hooked.state("ops").error == "answered 500"
    assert hooked.state("ops").given_up == 1
    told = watcher.posts[0].json
    assert (told["event"], told["subject"]) == ("webhook.given_up", "ops")
    assert told["details"]["entries"] == [0]
    assert told["details"]["attempts"] == 3


def test_two_dead_receivers_do_not_tell_each_other_for_ever(hooked: Hooked) -> None:
    for name in ("one", "two"):
        hooked.receiver(name).answer = lambda post, number: (410, {})
    with hooked.running():
        hooked.act()
        until(lambda: hooked.actions().count("webhook.given_up") == 2, "both give up")
        hooked.settled("one", "given_up", 2)
        hooked.settled("two", "given_up", 2)
        until(lambda: hooked.state("one").lag + hooked.state("two").lag == 0, "all is looked at")
    assert hooked.actions().count("webhook.given_up") == 2


def test_a_slow_receiver_delays_nobody_else(hooked: Hooked) -> None:
    slow, quick = hooked.receiver("slow"), hooked.receiver("quick")
    slow.go_on.clear()
    with hooked.running():
        for _ in range(20):
            hooked.act()
        quick.wait_for(20)
        assert len(slow.posts) == 1
        slow.go_on.set()
        slow.wait_for(20)


def test_an_answer_that_does_not_come_in_time_is_none(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")
    receiver.go_on.clear()
    hooked.bound(timeout_s=0.1, attempts=2)
    with hooked.running():
        hooked.act()
        hooked.settled("ops", "given_up", 1)
    assert hooked.state("ops").error == "no answer in time"


def test_redirects_are_not_followed(hooked: Hooked) -> None:
    other = hooked.receiver("other", "none.such")
    receiver = hooked.receiver("ops")
    receiver.answer = lambda post, number: (307, {"location": other.url})
    hooked.bound(attempts=1)
    with hooked.running():
        hooked.act()
        hooked.settled("ops", "given_up", 1)
    assert other.posts == []
    assert hooked.state("ops").error == "answered 307 (redirects are not followed)"


def test_a_receiver_may_ask_for_patience_within_the_bound(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")

    def busy(post: Post, number: int) -> tuple[int, dict[str, str]]:
        return (503, {"retry-after": "86400"}) if number == 0 else (200, {})

    receiver.answer = busy
    with hooked.running():
        hooked.act()
        hooked.settled("ops", "delivered", 1)
    assert receiver.ids == ["ops:0", "ops:0"]


def test_while_a_secret_is_rotated_both_sign_and_no_restart_is_needed(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")
    (old,) = hooked.secrets("ops")
    path = secret_file(hooked.settings, "ops")
    with hooked.running():
        hooked.act()
        receiver.wait_for(1)
        path.write_text(f"{new_secret(b'new'.ljust(32))}\n{path.read_text()}")
        new = hooked.secrets("ops")[0]
        hooked.act()
        receiver.wait_for(2)
        path.write_text(path.read_text().splitlines()[0])
        hooked.act()
        receiver.wait_for(3)
    first, both, last = receiver.posts
    now_s = time.time()
    for post, secret in ((first, old), (both, old), (both, new), (last, new)):
        verify(post.headers, post.body, [secret], now_s=now_s)
    for post, secret in ((first, new), (last, old)):
        with pytest.raises(Rejected, match="no signature fits"):
            verify(post.headers, post.body, [secret], now_s=now_s)


def test_without_its_secret_nothing_is_sent(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")
    path = secret_file(hooked.settings, "ops")
    kept = path.read_text()
    path.write_text("not a secret\n")
    with hooked.running():
        hooked.act()
        until(lambda: hooked.state("ops").error is not None, "it fails")
        assert hooked.state("ops").error == "not a webhook secret"
        path.write_text(kept)
        hooked.settled("ops", "delivered", 1)
    assert len(receiver.posts) == 1


def test_a_test_reaches_its_hook_alone_and_is_on_the_record(hooked: Hooked) -> None:
    narrow = hooked.receiver("narrow", "override.set")
    other = hooked.receiver("other", "*")
    with hooked.running():
        operating.test(hooked.store, hooked.settings.webhooks, "narrow", by=ADA, clock=wall_us)
        narrow.wait_for(1)
        until(lambda: hooked.state("other").lag == 0, "the other has looked")
    assert narrow.events == ["webhook.tested"]
    assert narrow.posts[0].json["actor"] == "key_ada"
    assert other.posts == []
    with pytest.raises(NotFound):
        operating.test(hooked.store, hooked.settings.webhooks, "nobody", by=ADA, clock=wall_us)


def test_what_was_given_up_can_be_sent_again_with_the_same_id(hooked: Hooked) -> None:
    assert _sent_again(hooked) == ["mode.set", "webhook.given_up"] + ["webhook.redelivered"] * 2


def test_what_was_given_up_can_be_sent_again_on_postgresql(on_postgres: Hooked) -> None:
    assert "webhook.redelivered" in _sent_again(on_postgres)
    with on_postgres.store.write() as tx:
        (waiting,) = tx.deliveries(hook="ops")
        assert tx.prune_deliveries(wall_us() + 1) == 0
        tx.save_delivery(replace(waiting, state="delivered"))
        assert tx.prune_deliveries(wall_us() + 1) == 1
        assert tx.prune_decisions(wall_us()) == 0
    assert on_postgres.deliveries("ops") == []


def _sent_again(hooked: Hooked) -> list[str]:
    """What is on the record when a delivery was given up and asked for again, twice."""
    receiver = hooked.receiver("ops", "mode.*")
    receiver.answer = lambda post, number: (500, {}) if number == 0 else (200, {})
    hooked.bound(attempts=1)

    def again() -> None:
        hooks = hooked.settings.webhooks
        operating.redeliver(hooked.store, hooks, "ops", "ops:0", by=ADA, clock=wall_us)

    with hooked.running():
        hooked.act()
        hooked.settled("ops", "given_up", 1)
        again()
        hooked.settled("ops", "delivered", 1)
        assert receiver.ids == ["ops:0", "ops:0"]
        receiver.go_on.clear()
        again()
        receiver.wait_for(3)
        with pytest.raises(Conflict):
            again()
    return hooked.actions()


def test_a_hook_that_owes_enough_leaves_the_rest_in_the_audit(hooked: Hooked) -> None:
    receiver = hooked.receiver("ops")
    receiver.go_on.clear()
    hooked.bound(max_waiting=5, batch=3)
    with hooked.running():
        for _ in range(12):
            hooked.act()
        until(lambda: hooked.state("ops").waiting == 5, "it owes five")
        assert hooked.state("ops").lag == 7
        receiver.go_on.set()
        receiver.wait_for(12)
    assert receiver.ids == [f"ops:{number}" for number in range(12)]


@pytest.mark.parametrize(
    ("url", "sound"),
    [
        ("https://hooks.example.org/T1", True),
        ("http://127.0.0.1:9000/hook", True),
        ("http://[::1]:9000/hook", True),
        ("http://hooks.example.org/T1", False),
        ("https://user:pass@hooks.example.org/", False),
        ("ftp://hooks.example.org/", False),
        ("https:///nowhere", False),
    ],
)
def test_a_url_that_shows_events_or_secrets_on_the_way_is_refused(url: str, sound: bool) -> None:
    tree = {"webhooks": {"hooks": {"ops": {"url": url}}}}
    if sound:
        assert validate(tree).webhooks.hooks["ops"].url == url
        return
    with pytest.raises(Rejected):
        validate(tree)


def test_plain_http_to_another_machine_can_be_allowed() -> None:
    hook = {"url": "http://hooks.example.org/T1", "allow_http": True}
    assert validate({"webhooks": {"hooks": {"ops": hook}}}).webhooks.hooks["ops"].allow_http


def test_a_secret_is_made_at_the_first_start_and_stays(hooked: Hooked) -> None:
    from controller.processes.first_start import prepare

    hooked.declare("ops", "https://hooks.example.org/")
    path = secret_file(hooked.settings, "ops")
    path.unlink()
    hooked.store.close()
    assert path in prepare(hooked.settings)
    made = path.read_text()
    assert len(hooked.secrets("ops")) == 1
    assert path.stat().st_mode & 0o077 == 0
    prepare(hooked.settings)
    assert path.read_text() == made


def test_the_environments_proxies_are_not_used(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    receiver = hooked.receiver("ops")
    with hooked.running():
        hooked.act()
        receiver.wait_for(1)
    with pytest.raises(httpx.ConnectError):
        httpx.post(receiver.url, timeout=2)
