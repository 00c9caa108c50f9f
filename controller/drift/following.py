"""A target followed for drift: a watch for each figure and settings digest, and the alarm.

::

    block ──► the digest's watches ──► one of them drifts ──► alarm ──► no trial starts
                                       none for ``stands_s`` ──────────► over
              a declared change ──────► all of them begin anew, and the alarm is over: explained

Settings that change make latencies change, and that is no drift: each settings digest has watches
of its own. A kept policy so begins a new reference by itself, and an emergency that comes and goes
finds the old one again. The digests that were in force last are remembered, a bounded number.

The context of a block is that of its own time and the tokens offered in the block before: a queue
carries over.
"""

from __future__ import annotations

from typing import Self

import msgspec
from msgspec import Struct

from controller.drift.blocks import DriftBlock
from controller.drift.settings import DriftSettings
from controller.drift.watch import Watch, start_blocked
from signals.events import MICROS


class Alarm(Struct, frozen=True, kw_only=True):
    """Why no trial starts. ``last_us``: the last block that showed drift.

    ``figures``: of each figure that drifts, by how many deviations its last blocks are off.
    """

    since_us: int
    last_us: int
    words: str
    digest: str
    figures: dict[str, float]


class Reference(Struct, frozen=True, kw_only=True):
    """What is usual under one settings digest. ``before``: by intent, offered in the last block."""

    used_us: int
    watches: dict[str, Watch] = {}
    before: dict[str, float] = {}


class DriftState(Struct, frozen=True, kw_only=True):
    """Everything that is remembered of one target. Blocks up to ``to_us`` were taken in."""

    to_us: int = 0
    references: dict[str, Reference] = {}
    alarm: Alarm | None = None

    def forgotten(self, *, to_us: int) -> Self:
        """With nothing learned and no alarm: what came before says nothing of what comes."""
        return msgspec.structs.replace(
            self, to_us=max(to_us, self.to_us), references={}, alarm=None
        )

    def anew(self) -> Self:
        """With nothing learned, and the alarm that stands: it ends where no sign of it comes again.

        Once an engine is known to have changed, what was usual under other settings is of the old
        one, too; each would raise the same alarm when its settings are back in force.
        """
        return msgspec.structs.replace(self, references={})

    def taking(self, block: DriftBlock, limits: DriftSettings) -> Self:
        """After one more block. Blocks come in order; one that was taken already changes nothing.

        ``alarm`` begins, goes on, or ends with it.
        """
        if block.to_us <= self.to_us:
            return self
        if not block.digest:
            return msgspec.structs.replace(self, to_us=block.to_us)._settled(limits)
        known = self.references.get(block.digest, Reference(used_us=block.to_us))
        mine = _after(known, block)
        references = {**self.references, block.digest: mine}
        while len(references) > limits.references:
            del references[min(references, key=lambda one: (references[one].used_us, one))]
        taken = msgspec.structs.replace(self, to_us=block.to_us, references=references)
        words = start_blocked(mine.watches.values())
        return taken._alarmed(words, block, mine) if words else taken._settled(limits)

    def _alarmed(self, words: str, block: DriftBlock, known: Reference) -> Self:
        figures = {
            name: watch.off for name, watch in sorted(known.watches.items()) if watch.why_not()
        }
        since_us = block.to_us if self.alarm is None else self.alarm.since_us
        alarm = Alarm(
            since_us=since_us,
            last_us=block.to_us,
            words=words if self.alarm is None else self.alarm.words,
            digest=block.digest,
            figures=figures,
        )
        return msgspec.structs.replace(self, alarm=alarm)

    def _settled(self, limits: DriftSettings) -> Self:
        alarm = self.alarm
        if alarm is None or self.to_us - alarm.last_us < limits.stands_s * MICROS:
            return self
        return msgspec.structs.replace(self, alarm=None)


def _after(known: Reference, block: DriftBlock) -> Reference:
    watches = dict(known.watches)
    for name, figure in block.figures.items():
        intent = name.partition(":")[2]
        now = block.context[intent]
        context = (*now, known.before.get(intent, now[-1]))
        watches[name] = watches.get(name, Watch(figure=name)).update(context, figure)
    before = {intent: context[-1] for intent, context in block.context.items()}
    return Reference(used_us=block.to_us, watches=watches, before=before)
