"""``Features`` over the files of all partitions: a target's are all in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from signals.bus.port import partition_of
from signals.errors import Rejected
from signals.features.model import (
    ATOM_S,
    EngineSeen,
    Outcome,
    RequestRow,
    SecondRow,
    WindowRevision,
)
from signals.features.reader import SqliteFeatures


class PartitionedFeatures:
    """See ``Features``. ``path_of``: partition -> features file; opened when first asked.

    What names a target asks one file. A file that its stage has not made yet is ``Unavailable``.
    """

    def __init__(self, path_of: Callable[[int], Path], partitions: int) -> None:
        self._files = [
            SqliteFeatures(path_of(number), partition=number) for number in range(partitions)
        ]

    def close(self) -> None:
        """Let go of the files; a later call opens them again."""
        for file in self._files:
            file.close()

    def bus_offsets(self) -> dict[int, int]:
        """Partition -> the offset that its stage has behind it."""
        return {number: file.bus_offset() for number, file in enumerate(self._files)}

    def watermark_us(self, target: str) -> int:
        """See ``Features.watermark_us``."""
        return self._of(target).watermark_us(target)

    def revisions(self, *, after: int, limit: int = 1000) -> Sequence[WindowRevision]:
        """See ``Features.revisions``. Cursors are a file's own: ``Rejected`` where there are more
        files than one."""
        if len(self._files) > 1:
            raise Rejected(
                f"window cursors are each partition's own, and there are {len(self._files)}",
                field="after",
                allowed="windows() of a target",
            )
        return self._files[0].revisions(after=after, limit=limit)

    def windows(
        self, target: str, *, from_us: int, to_us: int, width_s: int = ATOM_S
    ) -> Sequence[WindowRevision]:
        """See ``Features.windows``."""
        return self._of(target).windows(target, from_us=from_us, to_us=to_us, width_s=width_s)

    def arrived(self, target: str, *, from_us: int, width_s: int) -> Mapping[str, int]:
        """See ``Features.arrived``."""
        return self._of(target).arrived(target, from_us=from_us, width_s=width_s)

    def trial_requests(self, trial: str, *, block: int | None = None) -> Sequence[RequestRow]:
        """See ``Features.trial_requests``."""
        found = [row for file in self._files for row in file.trial_requests(trial, block=block)]
        return sorted(found, key=lambda row: (row.arrival_us, row.request_id))

    def trial_outcomes(self, trial: str, *, block: int) -> Sequence[Outcome]:
        """See ``Features.trial_outcomes``."""
        found = [one for file in self._files for one in file.trial_outcomes(trial, block=block)]
        return sorted(found, key=lambda one: one.time_us)

    def trial_seconds(self, trial: str, *, block: int | None = None) -> Sequence[SecondRow]:
        """See ``Features.trial_seconds``."""
        found = [row for file in self._files for row in file.trial_seconds(trial, block=block)]
        return sorted(found, key=lambda row: row.to_us)

    def seconds(self, target: str, *, from_us: int, to_us: int) -> Sequence[SecondRow]:
        """See ``Features.seconds``."""
        return self._of(target).seconds(target, from_us=from_us, to_us=to_us)

    def request(self, request_id: str) -> RequestRow | None:
        """See ``Features.request``. The id names its target."""
        return self._of_request(request_id).request(request_id)

    def find_requests(
        self, target: str, *, good: bool | None = None, intent: str | None = None, limit: int = 20
    ) -> Sequence[RequestRow]:
        """See ``Features.find_requests``."""
        return self._of(target).find_requests(target, good=good, intent=intent, limit=limit)

    def outcomes(self, request_id: str) -> Sequence[Outcome]:
        """See ``Features.outcomes``."""
        return self._of_request(request_id).outcomes(request_id)

    def engines(self, target: str) -> Sequence[EngineSeen]:
        """See ``Features.engines``."""
        return self._of(target).engines(target)

    def _of(self, target: str) -> SqliteFeatures:
        return self._files[partition_of(target, len(self._files))]

    def _of_request(self, request_id: str) -> SqliteFeatures:
        target, _, _ = request_id.partition(".")
        return self._of(target)
