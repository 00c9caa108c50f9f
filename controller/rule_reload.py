"""Follows the rules of the configuration file while ``serve`` runs.

::

    file's bytes differ ──► read, validate, compile ──► audit rules.loaded ──► loops swap at a tick
             │                       └─ refused ──► audit rules.refused; the old rules stay
             └─ still being written: looked at again

Only ``rules`` are followed, and checked against the intents, metrics and knobs that are in force;
what else differs is told to need a restart. All targets' rules are taken, or none.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from controller.config.load import DEFAULT_FILE, load, told
from controller.config.recorded import compare, values
from controller.rule_loading import load_rules
from controller.rules.firing import Rules
from controller.rules.swapping import difference
from controller.settings import Settings
from controller.state import Declared
from controller.store.port import Store
from signals.errors import Conflict, Rejected, Unavailable

log = logging.getLogger(__name__)

ACTOR: Final = "serve"
MOST: Final = 50
"""Settings that need a restart which one entry lists."""
JOIN_S: Final = 5.0
SETTLED_S: Final = 0.1
"""A file whose bytes are the same after this is whole. The half of one may well be rules that seem
right, and an emergency in force whose rule is gone is taken back."""


class RuleFile:
    """Watches one file. ``declared`` is written in place; ``swap`` tells a target's loop.

    ``problem``: why the file as it is now is not in force; None: it is. ``restart``: settings in
    it, beside rules, that differ from those in force.
    """

    def __init__(
        self,
        path: Path | None,
        settings: Settings,
        declared: MutableMapping[str, Declared],
        store: Store,
        *,
        env: Mapping[str, str],
        swap: Callable[[str, Rules], None],
        clock: Callable[[], int],
    ) -> None:
        self.problem: str | None = None
        self.restart: tuple[str, ...] = ()
        self._path = path or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
        self._settings = settings
        self._declared = declared
        self._store = store
        self._env = env
        self._swap = swap
        self._clock = clock
        self._seen = b""

    def look(self) -> None:
        """Take over the file's rules if its bytes differ from those looked at last.

        A file that is still being written is left for the next look. Raises ``Unavailable`` or
        ``Conflict`` of the store; the same bytes are then looked at anew.
        """
        if self._path is None:
            return
        before = self._seen, self.problem
        try:
            self._differs(self._path)
        except (Unavailable, Conflict):
            self._seen, self.problem = before
            raise

    @contextmanager
    def followed(self, stop: threading.Event) -> Iterator[None]:
        """Look as often as ``serve.rules_poll_ms`` says, on a thread of its own, meanwhile."""
        done = threading.Event()
        thread = threading.Thread(target=self._follow, args=(stop, done), name="rules")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(JOIN_S)

    def _follow(self, stop: threading.Event, done: threading.Event) -> None:
        while not (stop.is_set() or done.wait(self._settings.serve.rules_poll_ms / 1000)):
            try:
                self.look()
            except (Unavailable, Conflict) as error:
                log.warning("rules are looked at again: %s", error.detail)

    def _differs(self, path: Path) -> None:
        try:
            found = _digest(path)
            if found != self._seen and self._settled(path, found):
                self._seen = found
                self._take()
        except OSError as error:
            self._seen = b""
            why = f"{path} cannot be read: {error.strerror}"
            if why != self.problem:
                self._refuse(why)
        except Rejected as error:
            self._refuse(told(error))

    def _settled(self, path: Path, found: bytes) -> bool:
        """Whether nobody is writing it."""
        time.sleep(SETTLED_S)
        return _digest(path) == found

    def _take(self) -> None:
        found = load(self._path, self._env)
        self.restart = _beside_rules(self._settings, found)
        now = {name: self._loaded(name, found) for name in self._declared}
        differing = {name: difference(self._declared[name].rules, now[name]) for name in now}
        differing = {name: one for name, one in differing.items() if one}
        if self.restart:
            log.warning("these settings need a restart: %s", ", ".join(self.restart[:MOST]))
        if differing:
            with self._store.write() as tx:
                for name, one in differing.items():
                    tx.append_audit(
                        at_us=self._clock(),
                        actor=ACTOR,
                        action="rules.loaded",
                        subject="rules",
                        target=name,
                        details={
                            **msgspec.to_builtins(one),
                            "file": self._seen.hex()[:12],
                            "need_restart": list(self.restart[:MOST]),
                        },
                    )
        for name in differing:
            self._declared[name] = msgspec.structs.replace(self._declared[name], rules=now[name])
            self._swap(name, now[name])
            log.info("%s: rules loaded: %s", name, differing[name])
        self.problem = None

    def _loaded(self, name: str, found: Settings) -> Rules:
        """A target's rules from the file. One that it names no more keeps its own."""
        target, said = self._settings.targets[name], found.targets.get(name)
        if said is None:
            return self._declared[name].rules
        try:
            return load_rules(target, self._settings.metrics, declared=said.rules)
        except Rejected as error:
            path = f"targets.{name}.{error.field}"
            raise Rejected(f"{path}: {error.detail}", field=path) from error

    def _refuse(self, why: str) -> None:
        self.problem = why
        log.error("the rules in %s are refused, the old ones stay: %s", self._path, why)
        with self._store.write() as tx:
            tx.append_audit(
                at_us=self._clock(),
                actor=ACTOR,
                action="rules.refused",
                subject="rules",
                target="",
                details={"why": why[:2000], "file": self._seen.hex()[:12]},
            )


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _beside_rules(before: Settings, now: Settings) -> tuple[str, ...]:
    """Paths of settings that differ, but for rules, which are followed."""
    differing = compare(values(_without_rules(before)), values(_without_rules(now)))
    return tuple(one.path for one in differing)


def _without_rules(settings: Settings) -> Settings:
    bare = {
        name: target.model_copy(update={"rules": ()}) for name, target in settings.targets.items()
    }
    return settings.model_copy(update={"targets": bare})
