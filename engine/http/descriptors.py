"""How many connections a process can really hold, so that one listener can't starve the other."""

from __future__ import annotations

import logging
import resource

KEPT = 64
"""Descriptors for everything else: logs, weights, signals, the control listener's own few."""

log = logging.getLogger(__name__)


def affordable_connections(wanted: int) -> int:
    """At most ``wanted`` and half of what the system allows, once the soft limit is raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            log.info("the limit of open files stays at %d: %s", soft, error)
    if soft == resource.RLIM_INFINITY:
        return wanted
    fits = max(1, min(wanted, (soft - KEPT) // 2))
    if fits < wanted:
        log.warning("%d connections a listener instead of %d: open files", fits, wanted)
    return fits
