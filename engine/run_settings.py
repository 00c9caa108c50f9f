"""What one engine process is told at its start: one JSON file, written by whoever starts it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from pydantic import Field, ValidationError

from engine.generation import Class
from engine.settings import EngineSettings
from signals.configuring import Section, setting
from signals.errors import Rejected
from signals.pseudonyms import Pseudonyms
from signals.settings import IntentSettings, Name

DEFAULT_INTENT = "default"


class EngineRun(Section):
    """``python -m engine --settings FILE``: FILE is this model as JSON (``by_alias=True``)."""

    target: Name = setting("chat", unit="", reason="the name under which it is steered")
    replica: Name = setting("r0", unit="", reason="tells replicas of one target apart")
    intents: dict[Name, IntentSettings] = Field(
        default_factory=dict,
        description="declared intents; a request that names no declared one is `default`",
        max_length=64,
    )
    engine: EngineSettings = Field(default_factory=EngineSettings, description="the engine itself")

    def class_of(self, intent: str) -> Class:
        """The scheduling class of an intent; interactive when undeclared."""
        declared = self.intents.get(intent)
        return "interactive" if declared is None else declared.class_


def load_run(path: Path) -> EngineRun:
    """Read and check the file. Raises ``Rejected`` naming the first thing that is wrong."""
    try:
        return EngineRun.model_validate_json(path.read_bytes())
    except OSError as unreadable:
        raise Rejected(f"cannot read {path}: {unreadable.strerror}", field="settings") from None
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise Rejected(
            f"{path.name}: {first['msg']}",
            field=".".join(map(str, first["loc"])),
            value=first["input"],
        ) from None


class Keys(Struct, frozen=True, kw_only=True):
    """The process's secrets. ``serving`` None: the chat API is open. ``pseudonyms`` None: ids stay
    as clients say them."""

    control: str
    serving: str | None
    producer: str | None
    pseudonyms: Pseudonyms | None = None


def read_keys(settings: EngineSettings) -> Keys:
    """Raises ``Rejected`` naming the setting whose file is missing, unreadable or empty."""
    control = _read_key(settings.control_key_file, "engine.control_key_file")
    if control is None:
        raise Rejected("the control listener needs a key", field="engine.control_key_file")
    return Keys(
        control=control,
        serving=_read_key(settings.serving_key_file, "engine.serving_key_file"),
        producer=_read_key(settings.producer_key_file, "engine.producer_key_file"),
        pseudonyms=_pseudonyms(settings),
    )


def _pseudonyms(settings: EngineSettings) -> Pseudonyms | None:
    key = _read_key(settings.privacy_key_file, "engine.privacy_key_file")
    try:
        return None if key is None else Pseudonyms(key.encode())
    except ValueError as error:
        raise Rejected(str(error), field="engine.privacy_key_file") from error


def _read_key(path: Path | None, field: str) -> str | None:
    """The secret in a file, without its line end; an empty one would open the door."""
    if path is None:
        return None
    try:
        key = path.read_text(encoding="utf-8").strip()
    except OSError as unreadable:
        raise Rejected(f"cannot read {path}: {unreadable.strerror}", field=field) from None
    if not key:
        raise Rejected(f"{path} is empty", field=field)
    return key
