"""The default destination of traces: JSON lines in a file that rotates, so the disk is bounded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


def span_line(span: ReadableSpan) -> str:
    """One span as one line of JSON; times in Unix nanoseconds."""
    context = span.get_span_context()
    if context is None:
        raise ValueError("a span without a context was exported")
    fields = {
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
        "parent_span_id": None if span.parent is None else f"{span.parent.span_id:016x}",
        "name": span.name,
        "start_ns": span.start_time,
        "end_ns": span.end_time,
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes or {}),
    }
    return json.dumps(fields, separators=(",", ":"))


class JsonLinesExporter(SpanExporter):
    """Appends spans to ``path``; at ``max_bytes`` it becomes ``path.1``, and so on to ``keep``."""

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the spans; ``FAILURE`` when the disk refuses."""
        lines = "".join(span_line(span) + "\n" for span in spans)
        try:
            if self._file.tell() + len(lines) > self._max_bytes:
                self._rotate()
            self._file.write(lines)
            self._file.flush()
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the file."""
        self._file.close()

    def _open(self) -> None:
        self._file = self._path.open("a", encoding="utf-8")

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
