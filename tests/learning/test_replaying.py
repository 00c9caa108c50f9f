"""Draws made again by a process of its own, from the store alone."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec import structs
from typer.testing import CliRunner

from controller.cli.main import app
from controller.learner.linear_thompson import LinearThompson
from controller.learner.registry import saved
from controller.replaying import replay_one
from controller.store.port import Drawn
from tests.learning.lessons import decisions, learning
from tests.loop.world import World

CONFIG = """
state_dir: {state}
targets:
  chat:
    maximize: batch.tokens_per_s
    intents: {{batch: {{class: batch}}}}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One that has drawn at least once."""
    folder = tmp_path_factory.mktemp("replay")
    world = learning(folder, mode="approve")
    world.run(120, until=lambda: bool(decisions(world)))
    (folder / "trimtab.yaml").write_text(CONFIG.format(state=folder))
    yield world
    world.store.close()


def trimtab(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "controller.cli", *words]
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}
    environment["TRIMTAB_CONFIG"] = str(world.folder / "trimtab.yaml")
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment, check=False
    )


def drawn(world: World) -> Drawn:
    with world.store.read() as tx:
        return next(one for one in tx.drawn(target="chat") if one.choice is not None)


def test_a_fresh_process_with_another_hash_seed_draws_the_same(world: World) -> None:
    done = trimtab(world, "replay", "--target", "chat", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["counts"]["same"] == len(decisions(world))
    assert found["counts"]["differs"] == found["counts"]["forgotten"] == 0


def test_a_learner_that_knew_something_else_is_told_and_the_exit_code_says_so(
    world: World,
) -> None:
    one = drawn(world)
    assert one.choice is not None
    with world.store.read() as tx:
        kept = tx.learner("chat", one.choice.state)
    assert kept is not None
    other = base64.b64encode(saved(LinearThompson(draws=16))).decode()
    try:
        with world.store.write() as tx:
            tx.keep_learner("chat", one.choice.state, other, at_us=world.clock_us())
        words = ["--config", str(world.folder / "trimtab.yaml"), "replay"]
        done = CliRunner().invoke(app, [*words, one.id])
        assert done.exit_code == 1
        assert f"{one.id}: it was made from state {one.choice.state}" in done.stdout
        nobody = CliRunner().invoke(app, [*words, "dec_nobody"])
        assert nobody.exit_code == 2 and "no decision 'dec_nobody'" in nobody.stderr
    finally:
        with world.store.write() as tx:
            tx.keep_learner("chat", one.choice.state, kept, at_us=world.clock_us())


def test_what_cant_be_drawn_again_is_counted_apart(world: World) -> None:
    one = drawn(world)
    assert one.choice is not None
    newer = structs.replace(one, choice=structs.replace(one.choice, model="linear_thompson:9"))
    assert replay_one(one, lambda target, digest: None).outcome == "forgotten"
    assert replay_one(newer, lambda target, digest: None).outcome == "other_version"
    rule = structs.replace(one, choice=None)
    assert replay_one(rule, lambda target, digest: None).outcome == "no_draw"
    assert replay_one(one, lambda target, digest: "nonsense").outcome == "differs"


def test_a_state_is_forgotten_with_the_last_decision_that_names_it(world: World) -> None:
    one = drawn(world)
    assert one.choice is not None
    with world.store.write() as tx:
        assert tx.prune_learners(one.at_us) == 0
        tx.keep_learner("chat", "old", "x", at_us=one.at_us - 1)
        assert tx.prune_learners(one.at_us) == 1
        assert tx.learner("chat", "old") is None
        assert tx.learner("chat", one.choice.state) is not None
