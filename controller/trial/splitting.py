"""Whether replicas may be compared with each other, and their two halves. Pure.

Only random routing makes a crossover fair. A router that looks at queues, or keeps a session where
it was, gives the slower half fewer or other requests than the faster one: what is then measured is
the router's choice, and the arms are not independent of each other. So it has to be declared, and a
switchback, which moves all replicas together, is what is done otherwise. So it is for a setting of
one intent: it shares its engine with the others' settings, which move as one.

Unless that setting counts for a request when it arrives, and for nothing else. Then sessions are
split: one session with the candidate takes nothing from another without it but what any request
takes, and both arms meet the same engine at the same time.

What can be seen is checked too: replicas take part whose knob is the same and whose clocks agree,
for one block must mean the same stretch of time in both halves.
"""

from __future__ import annotations

from collections import Counter

from controller.state import Declared, PlantInput, Seen
from controller.trials import Split, split_of
from policies.knobs import TARGET_SCOPE, KnobSpec
from policies.policy import Policy
from policies.runtime_config import RuntimeConfig

SESSIONS_NAMED = 0.9
"""Of an intent's recent requests name their session. Of others each is tossed for by itself, and a
user would meet both arms in one conversation."""
CLOCKS_AGREE_S = 2.0
"""Beyond the age of a look; within it nothing is said of a clock, as reading takes time too."""


def split_now(
    policy: Policy, declared: Declared, spec: KnobSpec, seen: Seen, *, seed: int
) -> Split | None:
    """The halves for a crossover, to be frozen; None: a switchback it is."""
    if declared.target.engine.routing != "random" or policy.scope != TARGET_SCOPE:
        return None
    return split_of(seed, _comparable(declared, spec, seen))


def by_session(policy: Policy, spec: KnobSpec, plant: PlantInput) -> bool:
    """Whether this one intent's setting can be tried by splitting its sessions."""
    if policy.scope == TARGET_SCOPE or not spec.per_request:
        return False
    return plant.with_session.get(policy.scope, 0.0) >= SESSIONS_NAMED


def left_out(split: Split, seen: Seen) -> list[str]:
    """Those that answer and are in neither half: an odd one, or one that can't be compared."""
    answering = [one.replica for one in (seen.observed, *seen.others) if one is not None]
    return [name for name in answering if name not in split[0] and name not in split[1]]


def _comparable(declared: Declared, spec: KnobSpec, seen: Seen) -> list[str]:
    first = seen.observed
    if first is None:
        return []
    apart_s = CLOCKS_AGREE_S + declared.serve.reconcile_ms / 1000
    answering = (first, *seen.others)
    named = Counter(one.replica for one in answering)
    return [
        one.replica
        for one in answering
        if named[one.replica] == 1
        and _has(one, spec)
        and abs(one.engine_time - first.engine_time) <= apart_s
    ]


def _has(seen: RuntimeConfig, spec: KnobSpec) -> bool:
    """Whether it offers this very knob: the same range, boot value and reach."""
    return spec in seen.knobs
