"""The feature process: follows the partitions it owns, a batch a transaction, until told to stop.

::

    assignment ─► partition 0 ─► Follower ─► features.db
               ─► partition 2 ─► Follower ─► features-2.db      in turns, a bounded batch each
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from signals.bus.port import Assignment
from signals.definitions import Definitions
from signals.errors import Fenced, Unavailable
from signals.features.change import FeatureRules
from signals.features.follower import Follower
from signals.features.patience import Patience
from signals.settings import FeatureSettings, IntentSettings

log = logging.getLogger(__name__)


def run(
    *,
    assignment: Assignment,
    path_of: Callable[[int], Path],
    intents: Mapping[str, Mapping[str, IntentSettings]],
    definitions: Definitions,
    settings: FeatureSettings,
    stop: threading.Event,
) -> None:
    """Fold each owned partition of the bus into its features file until ``stop``.

    ``path_of``: partition -> features file. ``intents``: target -> intent -> settings. A missing
    bus or a failing disk is waited for, longer and longer up to ``backoff_max_s``, and holds up no
    other partition. Raises ``Broken`` when an invariant does not hold (another bus, another
    schema). The assignment is closed by whoever made it.
    """
    rules = FeatureRules(intents=intents, definitions=definitions, settings=settings)
    rounds = _Rounds(assignment, path_of, rules)
    try:
        while not stop.is_set():
            stop.wait(rounds.next())
        rounds.end()
    finally:
        rounds.close()


class _Turn(Struct, frozen=True):
    follower: Follower
    patience: Patience


class _Rounds:
    """Ask what is owned, then give each owned partition its turn."""

    def __init__(
        self, assignment: Assignment, path_of: Callable[[int], Path], rules: FeatureRules
    ) -> None:
        self._assignment = assignment
        self._path_of = path_of
        self._rules = rules
        self._turns: dict[int, _Turn] = {}
        self._asking = Patience("the feature stage", max_s=rules.settings.backoff_max_s)

    def next(self) -> float:
        """One round; seconds until the next, so short that the membership stays alive."""
        if self._asking.is_due():
            self._ask()
        for number, turn in self._turns.items():
            if turn.patience.is_due():
                self._take(number, turn)
        return self._pause_s()

    def end(self) -> None:
        """End orderly: what is not ended so counts as a death of what it was at."""
        for number in list(self._turns):
            self._drop(number)

    def close(self) -> None:
        """Let go of every file."""
        for turn in self._turns.values():
            turn.follower.close()

    def _pause_s(self) -> float:
        now_s = time.monotonic()
        waits_s = [turn.patience.due_s - now_s for turn in self._turns.values()]
        return max(0.0, min([self._rules.settings.poll_ms / 1000, *waits_s]))

    def _ask(self) -> None:
        try:
            owned = self._assignment.partitions()
        except Unavailable as away:
            self._asking.failed(away)
            return
        self._asking.succeeded(pause_s=0.0)
        for number in self._turns.keys() - owned.keys():
            self._drop(number)
        for number in sorted(owned.keys() - self._turns.keys()):
            self._turns[number] = _Turn(
                Follower(owned[number], self._path_of(number), self._rules),
                Patience(f"partition {number}", max_s=self._rules.settings.backoff_max_s),
            )

    def _take(self, number: int, turn: _Turn) -> None:
        try:
            turn.patience.succeeded(pause_s=turn.follower.step())
        except Unavailable as away:
            turn.patience.failed(away)
        except Fenced as fenced:
            # Whoever took it over is right; the membership will know soon. If it still says that
            # it is ours by then, it is taken back.
            log.warning("partition %d is given up: %s", number, fenced)
            turn.patience.wait_long()

    def _drop(self, number: int) -> None:
        try:
            self._turns.pop(number).follower.end()
        except (Unavailable, Fenced) as error:
            log.warning("partition %d did not end orderly: %s", number, error)
