"""Deaths of the process are counted, so that an entry that kills it does not do so for ever.

An entry that raises is found within one run. One that takes the process with it (out of memory, a
fault in native code) is found by what was noted on the disk before::

    starts at one offset after a run that did not end orderly:  1, 2, … ``deaths``
        ─► what is read next is taken one by one, each entry noted alone before it is tried
    ended while that entry was tried:                           1, 2, … ``deaths``
        ─► it becomes a dead letter ``deadly``, and the others go on

Any progress begins the first count anew. The second counts only ends inside a try, and after each
the next try waits a little longer after the start (``death_pause_s``). So a process that is killed
from outside, however often, does not incriminate its entry: killed sooner than that it is not in a
try, killed later it would have to be hit within the same few milliseconds each time. Pure.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace


class RunState(Struct, frozen=True, kw_only=True):
    """What is noted of runs. ``running`` since the run of ``epoch`` began, until its orderly end.

    ``deaths`` so far at bus offset ``offset``; entries up to ``careful_until`` are taken one by
    one; ``alone`` is the one tried last (``trying``: now), in ``alone_deaths`` runs that ended so.
    """

    epoch: int = 0
    running: bool = False
    offset: int = 0
    deaths: int = 0
    careful_until: int = 0
    alone: int = 0
    trying: bool = False
    alone_deaths: int = 0

    def begun(self, *, epoch: int, at: int) -> RunState:
        """A run begins, with everything up to offset ``at`` behind it."""
        if not self.running:
            return replace(self, epoch=epoch, running=True, trying=False)
        tried = self.trying and self.alone > at
        return replace(
            self,
            epoch=epoch,
            offset=at,
            deaths=self.deaths + 1 if self.offset == at else 1,
            trying=False,
            alone_deaths=self.alone_deaths + tried,
        )

    def resumed(self, *, epoch: int) -> RunState:
        """The same run has opened its file again: what it tried did not kill it."""
        return replace(self, epoch=epoch, running=True, trying=False)

    def ended(self) -> RunState:
        """The run ends orderly."""
        return replace(self, running=False, trying=False)

    def careful(self, *, at: int) -> bool:
        """Whether the next entry is taken alone."""
        return at < self.careful_until

    def suspicious(self, *, at: int, deaths: int) -> bool:
        """Whether so many runs ended here that what is read next may be why."""
        return self.offset == at and self.deaths >= deaths

    def watching(self, *, until: int) -> RunState:
        """Entries up to this offset are taken one by one."""
        return replace(self, careful_until=until)

    def trying_alone(self, offset: int) -> RunState:
        """An entry is about to be tried."""
        before = self.alone_deaths if self.alone == offset else 0
        return replace(self, alone=offset, trying=True, alone_deaths=before)

    def pause_s(self, offset: int, *, each_s: float) -> float:
        """How long a run waits before it tries this entry again."""
        return self.alone_deaths * each_s if self.alone == offset else 0.0

    def deadly(self, offset: int, *, deaths: int) -> bool:
        """Whether so many runs ended while this entry was tried."""
        return self.alone == offset and self.alone_deaths >= deaths
