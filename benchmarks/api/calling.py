"""Makes calls from the document, sends each as every role, and holds each answer to it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from msgspec import Struct
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup

CHECKED: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
KNOWN_SHARE: Final = 0.8
MODES: Final = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)

AnyCase = Case[Any]
Send = Callable[[AnyCase, str], Any]
"""Sends a call under a role's key; an answer of ``requests`` or ``httpx``."""
Known = Mapping[str, Sequence[Any]]
"""By the name of a parameter or member: values that are there."""


class Tally(Struct, kw_only=True):
    """How it went. ``failures``: what broke the promise, with how to repeat it."""

    operations: int = 0
    calls: int = 0
    statuses: Counter[str] = Counter()
    failures: list[str] = []


def conform(
    document: dict[str, Any],
    send: Send,
    known: Known,
    *,
    roles: Sequence[str],
    seed_: int,
    examples: int,
    leave_out: Sequence[str] = (),
) -> Tally:
    """Send ``examples`` right and as many wrong calls of each operation as each role.

    ``leave_out``: operations' ids that are not called.
    """
    load_all_checks()
    checks: Any = CHECKS.get_by_names(CHECKED)
    tally, rng = Tally(), Random(seed_)
    for operation in operations(document):
        if operation.definition.raw.get("operationId") in leave_out:
            continue
        tally.operations += 1
        for made in cases(operation, seed_=seed_, examples=examples):
            case = placed(made, known, rng)
            for role in roles:
                answer = send(case, role)
                tally.calls += 1
                tally.statuses[f"{role} {answer.status_code}"] += 1
                try:
                    case.validate_response(answer, checks=checks)
                except FailureGroup as failed:
                    told = "; ".join(f"{each.title}: {each.message}" for each in failed.exceptions)
                    tally.failures.append(f"{role} {_told(case)} -> {answer.status_code} {told}")
    return tally


def operations(document: dict[str, Any]) -> Iterator[Any]:
    """Every operation of the document, which says nothing of keys: ``send`` presents them."""
    bare = copy.deepcopy(document)
    bare.get("components", {}).pop("securitySchemes", None)
    for path in bare["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
    found: Any
    for found in schemathesis.openapi.from_dict(bare).get_all_operations():
        yield found.ok()


def cases(operation: Any, *, seed_: int, examples: int) -> list[AnyCase]:
    """Right calls, then wrong ones, where there is anything to be wrong; the same for a seed."""
    found: list[AnyCase] = []
    for mode in MODES:

        @seed(seed_)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def take(case: AnyCase) -> None:
            found.append(case)

        try:
            take()
        except Unsatisfiable:
            if mode is GenerationMode.POSITIVE:
                raise
    return found


def placed(case: AnyCase, known: Known, rng: Random) -> AnyCase:
    """The call, with most of what names something naming what is there."""
    body = case.body if isinstance(case.body, dict) else {}
    for members in (case.path_parameters, case.query, body):
        for name in members or {}:
            if name in known and rng.random() < KNOWN_SHARE:
                members[name] = rng.choice(known[name])
    return case


def _told(case: AnyCase) -> str:
    body = case.body if isinstance(case.body, (dict, list, str, int, float, bool)) else ""
    where = case.formatted_path
    return f"{case.method.upper()} {where} {dict(case.query or {})} {str(body)[:300]}"
