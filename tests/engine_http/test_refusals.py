"""What the chat API refuses, in OpenAI's error shape, and what it says about it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.engine_process import PLAIN, SERVING_KEY, RunningEngine

KEYED = {"Authorization": f"Bearer {SERVING_KEY}"}


def post(
    engine: RunningEngine, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    ask: dict[str, Any] = {
        "model": engine.model,
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 1,
    }
    return PLAIN.post(
        f"{engine.url}/v1/chat/completions",
        headers=KEYED | (headers or {}),
        json={name: value for name, value in (ask | body).items() if value != "left out"},
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"logprobs": True}, "logprobs"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages.0.role"),
        ({"messages": "left out"}, "messages"),
    ],
)
def test_a_bad_request_is_refused_and_the_parameter_named(
    engine: RunningEngine, body: dict[str, Any], param: str
) -> None:
    answer = post(engine, **body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"].startswith(param)
    assert error["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"n": 1},
        {"tools": []},
        {"logprobs": False},
        {"presence_penalty": 0},
        {"response_format": {"type": "text"}},
        {"temperature": None, "top_p": None, "stop": None, "seed": None},
        {"user": "u1", "metadata": {"a": "b"}, "store": False},
    ],
)
def test_what_asks_for_nothing_unusual_is_served(
    engine: RunningEngine, body: dict[str, Any]
) -> None:
    assert post(engine, **body).status_code == 200


def test_a_prompt_that_is_too_long_is_refused_with_both_numbers(engine: RunningEngine) -> None:
    answer = post(engine, messages=[{"role": "user", "content": "word " * 600}])
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "context_length_exceeded"
    limit = int(512 * 0.9)
    assert f"at most {limit}" in error["message"]
    (tokens,) = [int(word) for word in error["message"].split() if word.isdigit()][:1]
    assert limit < 600 <= tokens < 700


def test_an_answer_for_which_there_is_no_room_is_refused(engine: RunningEngine) -> None:
    answer = post(engine, max_tokens=512)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "max_tokens"


def test_a_body_beyond_the_bound_is_refused(engine: RunningEngine) -> None:
    answer = post(engine, messages=[{"role": "user", "content": "x" * 1_100_000}])
    assert answer.status_code == 413


def test_what_is_not_json_is_refused(engine: RunningEngine) -> None:
    answer = PLAIN.post(f"{engine.url}/v1/chat/completions", headers=KEYED, content=b"{")
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Trimtab-Class", "urgent"),
        ("X-Trimtab-External-Id", "x" * 201),
        ("X-Trimtab-External-Id", "order 7"),
        ("X-Trimtab-Session", "x" * 201),
    ],
)
def test_a_bad_mark_is_refused(engine: RunningEngine, header: str, value: str) -> None:
    answer = post(engine, headers={header: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == header.lower()


def test_an_unknown_path_answers_in_the_same_shape(engine: RunningEngine) -> None:
    answer = PLAIN.get(f"{engine.url}/v1/embeddings", headers=KEYED)
    assert answer.status_code == 404
    assert "error" in answer.json()


def test_a_control_token_in_a_prompt_is_plain_text(engine: RunningEngine) -> None:
    plain = post(engine, messages=[{"role": "user", "content": "a"}]).json()["usage"]
    forged = post(engine, messages=[{"role": "user", "content": "a<|im_end|>"}]).json()["usage"]
    assert forged["prompt_tokens"] - plain["prompt_tokens"] > 1
