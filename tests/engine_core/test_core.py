"""Real weights: the same ids whatever runs beside; nothing lost to preemption; nothing leaks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest

from engine.embedded.model import Model
from engine.generation import Limits
from signals.errors import Broken
from tests.engine_core.conftest import Loaded
from tests.engine_core.driving import WIDE, Driven, request

Chat = Callable[[str], tuple[int, ...]]

SUBJECTS = ("the sea", "a bicycle", "rain", "the number 7", "cheese", "winter", "a map", "glass")
ASKS = ("Tell me about {}.", "Write a poem on {}.", "Is {} useful? Explain.", "List facts on {}.")
PROMPTS = [ask.format(subject) for subject in SUBJECTS for ask in ASKS]
SEED = 7_341


def changing_limits(rng: random.Random) -> Iterator[Limits]:
    """The cap and the budget, moved at random every few steps, drained or preempted."""
    while True:
        limits = Limits(
            active_cap=rng.choice([1, 3, 8, 16, 40, 64]),
            step_token_budget=rng.choice([16, 64, 100, 333, 512]),
            shrink=rng.choice(["drain", "preempt"]),
        )
        yield from itertools.repeat(limits, rng.randint(2, 12))


def test_32_prompts_of_64_tokens_give_the_same_ids_alone_and_in_any_company(
    loaded: Loaded, model: Model, chat: Chat
) -> None:
    asked = [
        request(f"p{at}", chat(prompt), max_tokens=64, seed=at) for at, prompt in enumerate(PROMPTS)
    ]
    alone: dict[str, list[int]] = {}
    for one in asked:
        driven = Driven(model, loaded.tokenizer)
        driven.add(one)
        driven.run()
        alone[one.id] = driven.heard.tokens(one.id)

    rng = random.Random(SEED)
    company = Driven(model, loaded.tokenizer, changing_limits(rng), blocks=300)
    mixed = asked + [
        request(
            f"n{at}",
            tuple(rng.randrange(100, 40_000) for _ in range(rng.randint(1, 150))),
            max_tokens=rng.randint(1, 40),
            seed=rng.getrandbits(64),
            top_p=rng.choice([0.5, 1.0]),
            class_=rng.choice(["interactive", "batch"]),
        )
        for at in range(12)
    ]
    rng.shuffle(mixed)
    for at in range(0, len(mixed), 8):
        company.add(*mixed[at : at + 8])
        for _ in range(5):
            company.core.step()
    company.run()

    preempted = sum(record.preempted for record in company.records)
    assert preempted > 0, f"seed {SEED}: nothing was preempted, so nothing was shown"
    assert sum(map(len, alone.values())) > 1000
    for name, tokens in alone.items():
        assert company.heard.tokens(name) == tokens, f"seed {SEED}, {name}"


def test_preempted_for_want_of_blocks_a_request_loses_and_repeats_nothing(
    loaded: Loaded, model: Model, chat: Chat
) -> None:
    asked = [
        request(f"p{at}", chat(PROMPTS[at]), max_tokens=70, temperature=0.8, seed=at)
        for at in range(5)
    ]
    roomy = Driven(model, loaded.tokenizer)
    roomy.add(*asked)
    roomy.run()
    tight = Driven(model, loaded.tokenizer, blocks=21)
    tight.add(*asked)
    tight.run()
    assert sum(record.preempted for record in tight.records) > 0
    assert sum(record.preempted for record in roomy.records) == 0
    for one in asked:
        assert tight.heard.tokens(one.id) == roomy.heard.tokens(one.id)
        assert tight.heard.text(one.id) == roomy.heard.text(one.id)
        counted = [output.progress.output_tokens for output in tight.heard.outputs[one.id]]
        assert counted == list(range(1, len(counted) + 1))


def test_greedy_text_is_sensible(loaded: Loaded, model: Model, chat: Chat) -> None:
    driven = Driven(model, loaded.tokenizer)
    driven.add(request("a", chat("What is the capital of France?"), max_tokens=20, temperature=0.0))
    driven.run()
    assert driven.heard.text("a") == "The capital of France is Paris."
    assert driven.heard.finish("a") == "stop"
    assert driven.heard.tokens("a")[-1] in loaded.shape.eos


def test_a_stop_string_ends_the_answer_before_itself(
    loaded: Loaded, model: Model, chat: Chat
) -> None:
    driven = Driven(model, loaded.tokenizer)
    prompt = chat("What is the capital of France?")
    driven.add(
        request("a", prompt, max_tokens=20, temperature=0.0, stop=("ance is P", "nowhere")),
        request("b", prompt, max_tokens=3, temperature=0.0, stop=("capital of Mars",)),
    )
    driven.run()
    assert driven.heard.text("a") == "The capital of Fr"
    assert driven.heard.finish("a") == "stop"
    assert driven.heard.text("b") == "The capital of", "held back, then given out at the end"
    assert driven.heard.finish("b") == "length"


def test_a_cancelled_request_frees_its_blocks_at_once(
    loaded: Loaded, model: Model, chat: Chat
) -> None:
    driven = Driven(model, loaded.tokenizer)
    driven.add(*(request(name, chat("Tell me a story."), max_tokens=50) for name in "ab"))
    for _ in range(5):
        driven.core.step()
    used = driven.pool.used
    driven.core.cancel("a")
    driven.core.cancel("nobody")
    assert driven.pool.used == used // 2
    assert driven.heard.finish("a") == "cancelled"
    driven.run()
    assert len(driven.heard.tokens("a")) == 5
    assert driven.heard.finish("b") in ("stop", "length")
    assert driven.pool.free == driven.pool.total


def test_a_waiting_request_can_be_cancelled(loaded: Loaded, model: Model, chat: Chat) -> None:
    one = Limits(active_cap=1, step_token_budget=64)
    driven = Driven(model, loaded.tokenizer, [one])
    driven.add(*(request(name, chat("Hi."), max_tokens=4) for name in "ab"))
    driven.core.step()
    driven.core.cancel("b")
    driven.run()
    assert driven.heard.tokens("b") == []
    assert driven.heard.finish("b") == "cancelled"


def test_the_context_ends_an_answer_that_would_outgrow_it(loaded: Loaded, model: Model) -> None:
    driven = Driven(model, loaded.tokenizer)
    driven.add(request("a", tuple(range(100, 605)), max_tokens=100, temperature=1.0))
    driven.run()
    assert driven.heard.finish("a") in ("length", "stop")
    assert len(driven.heard.tokens("a")) <= model.context - 505


def test_records_and_load_say_what_each_step_did(loaded: Loaded, model: Model, chat: Chat) -> None:
    driven = Driven(model, loaded.tokenizer, [Limits(active_cap=2, step_token_budget=64), WIDE])
    prompt = chat("Hi.")
    driven.add(
        request("a", prompt, max_tokens=3, class_="interactive"),
        *(request(name, prompt, max_tokens=3) for name in "bc"),
    )
    driven.core.step()
    first = driven.records[0]
    assert (first.decode, first.prefill_tokens) == (0, 64)
    assert first.output_tokens == {"interactive": 1, "batch": 1} or len(prompt) > 32
    assert first.limits.active_cap == 2
    assert first.took_s > 0
    assert driven.loads[0].waiting == {"interactive": 1, "batch": 2}
    driven.core.step()
    assert driven.loads[1].running == {"interactive": 1, "batch": 1}
    assert driven.loads[1].kv_blocks_used > 0
    driven.run()
    assert sum(record.output_tokens.get("batch", 0) for record in driven.records) <= 6


def test_a_leak_stops_the_engine_when_it_becomes_idle(
    loaded: Loaded, model: Model, chat: Chat
) -> None:
    driven = Driven(model, loaded.tokenizer)
    driven.add(request("a", chat("Hi."), max_tokens=2))
    driven.core.step()
    lease = driven.scheduler.running[0].lease
    assert lease is not None
    lease.blocks.pop()
    with pytest.raises(Broken, match="leaked"):
        for _ in range(4):
            driven.core.step()
