"""The tree that section models form: find a setting by its path, say what it allows, list all.

A path is what pydantic reports, e.g. ``("targets", "chat", "intents", "live", "slo", "ttft_ms")``:
field names as written in a file, names of a mapping, indices of a list.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any

from annotated_types import Ge, Gt, Le, Len, Lt, MaxLen, MinLen
from msgspec import Struct
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Path = Sequence[int | str]
NAME = "<name>"
INDEX = "<n>"


class Leaf(Struct, frozen=True, kw_only=True):
    """A setting as the documentation shows it. ``default`` None: it must be given."""

    path: str
    type: str
    unit: str
    default: str | None
    allowed: str
    reason: str


def dotted(path: Path) -> str:
    """``targets.chat.rules[0].when``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def names(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """A model's fields by the name that a file uses."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def model_at(root: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """The section that a path ends in; None when it ends in a value or nowhere."""
    here: Any = root
    for part in path:
        here = _below(here, part)
    found = inner(here)
    return found if _is_model(found) else None


def field_at(root: type[BaseModel], path: Path) -> FieldInfo | None:
    """The declared field that a path ends in; None when there is none."""
    for cut in range(len(path), 0, -1):
        parent = model_at(root, path[: cut - 1])
        if parent is not None:
            return names(parent).get(str(path[cut - 1]))
    return None


def inner(annotation: Any) -> Any:
    """The type itself: without ``None`` and ``Annotated``."""
    if typing.get_origin(annotation) is typing.Annotated:
        return inner(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kept = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return inner(kept[0]) if len(kept) == 1 else annotation
    return annotation


def allowed(field: FieldInfo) -> str:
    """What the field takes, in words: a range, a choice, a pattern, a length."""
    found = inner(field.annotation)
    if typing.get_origin(found) is typing.Literal:
        return ", ".join(str(choice) for choice in typing.get_args(found))
    if found is bool:
        return "true, false"
    words = [_range(field), *_lengths(field), *_patterns(field)]
    return ", ".join(word for word in words if word)


def unit(field: FieldInfo) -> str:
    """The unit declared with the field, "" where it has none."""
    extra = field.json_schema_extra
    return str(extra.get("unit", "")) if isinstance(extra, dict) else ""


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[Leaf]:
    """Every setting of a section and the sections below it, in the order of declaration."""
    for name, field in names(model).items():
        path, found = f"{prefix}{name}", inner(field.annotation)
        step, value = _entries(found)
        if _is_model(value):
            yield from leaves(value, f"{path}{step}.")
        else:
            yield _leaf(path, field)
    extra = _extra_model(model)
    if extra is not None:
        yield from leaves(extra, f"{prefix}{NAME}.")


def _below(annotation: Any, part: int | str) -> Any:
    found = inner(annotation)
    if _is_model(found):
        field = names(found).get(str(part))
        return field.annotation if field is not None else _extra_model(found)
    return _entries(found)[1] if _entries(found)[0] else None


def _entries(found: Any) -> tuple[str, Any]:
    """How a mapping or list is stepped into, and the type of what it holds."""
    arguments = typing.get_args(found)
    if typing.get_origin(found) is dict:
        return f".{NAME}", inner(arguments[1])
    if typing.get_origin(found) in (tuple, list):
        return f"[{INDEX}]", inner(arguments[0])
    return "", found


def _is_model(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, BaseModel)


def _extra_model(model: type[BaseModel]) -> type[BaseModel] | None:
    """The section of names that a model takes beside its fields, if it takes any."""
    hint = typing.get_type_hints(model).get("__pydantic_extra__")
    found = inner(typing.get_args(hint)[1]) if typing.get_origin(hint) is dict else None
    return found if _is_model(found) else None


def _leaf(path: str, field: FieldInfo) -> Leaf:
    return Leaf(
        path=path,
        type=_type_words(inner(field.annotation)),
        unit=unit(field),
        default=None if field.is_required() else _default_words(field),
        allowed=allowed(field),
        reason=field.description or "",
    )


def _default_words(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "" if field.default_factory in (dict, list, tuple) else "computed"
    if field.default is None or field.default == ():
        return "unset"
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


def _type_words(found: Any) -> str:
    origin = typing.get_origin(found)
    if origin is typing.Literal:
        return " or ".join(str(choice) for choice in typing.get_args(found))
    if origin in (tuple, list):
        return f"list of {_type_words(inner(typing.get_args(found)[0]))}"
    if origin is dict:
        return f"name: {_type_words(inner(typing.get_args(found)[1]))}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_words(inner(one)) for one in typing.get_args(found))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_words(inner(arg)) for arg in typing.get_args(found))
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return plain.get(found, getattr(found, "__name__", str(found)).lower())


def _range(field: FieldInfo) -> str:
    low = next((f"{m.ge}" for m in field.metadata if isinstance(m, Ge)), "")
    low = next((f"above {m.gt}" for m in field.metadata if isinstance(m, Gt)), low)
    high = next((f"{m.le}" for m in field.metadata if isinstance(m, Le)), "")
    high = next((f"below {m.lt}" for m in field.metadata if isinstance(m, Lt)), high)
    if not low and not high:
        return ""
    return f"{low}..{high} {unit(field)}".rstrip()


def _lengths(field: FieldInfo) -> Iterator[str]:
    for found in field.metadata:
        if isinstance(found, (MinLen, Len)) and found.min_length:
            yield f"at least {found.min_length}"
        if isinstance(found, (MaxLen, Len)) and found.max_length is not None:
            yield f"at most {found.max_length}"


def _patterns(field: FieldInfo) -> Iterator[str]:
    for found in field.metadata:
        pattern = getattr(found, "pattern", None)
        if pattern:
            yield f"matching {pattern}"
