"""Random tests: no deadline, for machines are shared; a failure prints what reproduces it."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("shared_machine", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("shared_machine")
