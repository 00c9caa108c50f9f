"""Where this machine's processes can be called."""

from __future__ import annotations

from controller.settings import Settings, TargetSettings

ANYWHERE = ("0.0.0.0", "::", "")


def url(host: str, port: int) -> str:
    """How to call what listens there: a listener on every address is called on loopback.

    >>> url("0.0.0.0", 8080)
    'http://127.0.0.1:8080'
    """
    return f"http://{'127.0.0.1' if host in ANYWHERE else host}:{port}"


def control_urls(settings: Settings, target: TargetSettings) -> tuple[str, ...]:
    """Where the control listeners of a target's engines are."""
    engine = settings.engine
    return target.engine.control_urls or (url(engine.control_host, engine.control_port),)
