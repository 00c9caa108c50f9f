"""The receiver's lines in docs/webhooks.md, run as they stand there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from controller.webhooks.signing import new_secret, parse_secret, sign
from tests.house.tree import ROOT


@pytest.fixture(scope="module")
def verify() -> Callable[..., None]:
    page = (ROOT / "docs/webhooks.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/webhooks.md", "exec"), names)
    found: Callable[..., None] = names["verify"]
    return found


def test_the_pages_lines_take_what_is_signed_and_nothing_else(
    verify: Callable[..., None],
) -> None:
    secret, other = new_secret(b"s" * 32), new_secret(b"o" * 32)
    now_s, body = int(time.time()), b'{"event":"policy.pending"}'
    headers = sign("ops:7", now_s, body, [parse_secret(secret)])
    both = sign("ops:7", now_s, body, [parse_secret(other), parse_secret(secret)])
    verify(headers, body, secret)
    verify(both, body, secret)
    verify(both, body, other)
    old = sign("ops:7", now_s - 1000, body, [parse_secret(secret)])
    for bad in (
        (headers, body + b" ", secret),
        (headers, body, other),
        ({**headers, "webhook-id": "ops:8"}, body, secret),
        (old, body, secret),
    ):
        with pytest.raises(ValueError, match=r"no signature fits|too old"):
            verify(*bad)
