"""The chat API through the ``openai`` SDK: what its users rely on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from tests.engine_process import SERVING_KEY, RunningEngine

QUESTION: ChatCompletionUserMessageParam = {
    "role": "user",
    "content": "What is the capital of France?",
}


@pytest.fixture(scope="module")
def sdk(engine: RunningEngine) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{engine.url}/v1", api_key=SERVING_KEY, max_retries=0, timeout=60
    ) as client:
        yield client


def test_the_models_are_listed(sdk: openai.OpenAI, engine: RunningEngine) -> None:
    assert [model.id for model in sdk.models.list()] == [engine.model]


def test_a_whole_answer_has_text_usage_and_a_request_id(
    sdk: openai.OpenAI, engine: RunningEngine
) -> None:
    answer = sdk.chat.completions.create(
        model=engine.model,
        messages=[QUESTION],
        max_tokens=24,
        temperature=0,
    )
    choice = answer.choices[0]
    assert "Paris" in (choice.message.content or "")
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert re.fullmatch(r"chat\.[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f-]{17}", answer.id)


def test_a_stream_says_the_same_as_the_whole_answer(
    sdk: openai.OpenAI, engine: RunningEngine
) -> None:
    whole = sdk.chat.completions.create(
        model=engine.model,
        messages=[QUESTION],
        max_completion_tokens=12,
        seed=5,
    )
    chunks = list(
        sdk.chat.completions.create(
            model=engine.model,
            messages=[QUESTION],
            max_completion_tokens=12,
            seed=5,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[0].choices[0].delta.role == "assistant"
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_stream_without_the_option_has_no_usage(
    sdk: openai.OpenAI, engine: RunningEngine
) -> None:
    chunks = sdk.chat.completions.create(
        model=engine.model,
        messages=[QUESTION],
        max_tokens=2,
        stream=True,
    )
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_a_seed_decides_the_answer_whoever_runs_beside_it(
    sdk: openai.OpenAI, engine: RunningEngine
) -> None:
    def ask(seed: int) -> str:
        answer = sdk.chat.completions.create(
            model=engine.model,
            messages=[QUESTION],
            max_tokens=24,
            seed=seed,
            temperature=1.2,
        )
        return answer.choices[0].message.content or ""

    alone = [ask(seed) for seed in range(4)]
    with ThreadPoolExecutor(8) as beside:
        crowded = list(beside.map(ask, [*range(4), *range(50, 54)]))[:4]
    assert crowded == alone
    assert len(set(alone)) > 1


def test_an_answer_ends_before_a_stop_sequence(sdk: openai.OpenAI, engine: RunningEngine) -> None:
    answer = sdk.chat.completions.create(
        model=engine.model,
        messages=[QUESTION],
        max_tokens=24,
        temperature=0,
        stop=[" Paris", "\n\n"],
    )
    assert answer.choices[0].message.content == "The capital of France is"
    assert answer.choices[0].finish_reason == "stop"


def test_an_answer_that_reaches_its_bound_says_length(
    sdk: openai.OpenAI, engine: RunningEngine
) -> None:
    answer = sdk.chat.completions.create(
        model=engine.model,
        messages=[QUESTION],
        max_tokens=3,
        temperature=0,
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


def test_content_may_come_in_parts(sdk: openai.OpenAI, engine: RunningEngine) -> None:
    def ask(content: object) -> str | None:
        answer = sdk.chat.completions.create(
            model=engine.model,
            messages=[{"role": "user", "content": content}],  # type: ignore[list-item,misc]
            max_tokens=8,
            temperature=0,
        )
        return answer.choices[0].message.content

    halves = [
        {"type": "text", "text": "What is the "},
        {"type": "text", "text": "capital of Peru?"},
    ]
    assert ask(halves) == ask("What is the capital of Peru?")


@pytest.mark.parametrize("stream", [False, True])
def test_every_answer_carries_its_stamp(
    sdk: openai.OpenAI, engine: RunningEngine, stream: bool
) -> None:
    answer = sdk.chat.completions.with_raw_response.create(
        model=engine.model,
        messages=[QUESTION],
        max_tokens=2,
        stream=stream,
    )
    stamp = json.loads(answer.headers["X-Trimtab-Stamp"])
    with engine.actuator() as control:
        seen = control.read()
    assert stamp["target"] == "chat"
    assert stamp["replica"] == "r0"
    assert (stamp["incarnation"], stamp["version"], stamp["digest"]) == (
        seen.incarnation,
        seen.version,
        seen.digest,
    )


def test_another_model_is_not_found(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        sdk.chat.completions.create(model="gpt-4", messages=[QUESTION])
    assert refused.value.param == "model"


def test_a_wrong_key_is_refused(engine: RunningEngine) -> None:
    with (
        openai.OpenAI(base_url=f"{engine.url}/v1", api_key="guess", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()
