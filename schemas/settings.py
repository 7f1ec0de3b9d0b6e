"""Dotted settings: which there are, and what they are in nested tables."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from schemas.experiment import Experiment

KEY_PATTERN = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")


def flatten(table: Mapping[str, Any], *, prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted settings; an empty table stays, as it can switch a section on."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, prefix=f"{key}.")
        else:
            flat[key] = value
    return flat


def put(table: dict[str, Any], key: str, value: Any) -> None:
    """Set one dotted setting; a value that stands where a table is needed gives way to one.

    An empty table leaves what is in its section already.
    """
    *above, last = key.split(".")
    for part in above:
        if not isinstance(table.get(part), dict):
            table[part] = {}
        table = table[part]
    if value != {} or not isinstance(table.get(last), dict):
        table[last] = value


def value_of(table: Mapping[str, Any], key: str) -> Any:
    """What a setting is in an experiment's table: its default where the table does not say."""
    model: type[BaseModel] | None = Experiment
    found: Any = table
    for part in key.split("."):
        field = None if model is None else model.model_fields.get(part)
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, Mapping) and field is not None:
            found = _plain(field.get_default(call_default_factory=True))
        else:
            return None
        model = None if field is None else next(iter(_tables_in(field.annotation)), None)
    return found


def why_unknown(key: str) -> str | None:
    """Why there is no such setting, with the nearest that there is; None: there is."""
    if KEY_PATTERN.fullmatch(key) and _is_known(key):
        return None
    near = difflib.get_close_matches(key, known_settings(), n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is no such setting{hint}"


@cache
def known_settings() -> tuple[str, ...]:
    """Every dotted setting of an experiment, sections included."""
    return tuple(_settings_of(Experiment, ""))


def _settings_of(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}"
        for table in _tables_in(field.annotation):
            yield from _settings_of(table, f"{prefix}{name}.")


def _is_known(key: str) -> bool:
    models: list[type[BaseModel]] = [Experiment]
    for part in key.split("."):
        fields = [model.model_fields[part] for model in models if part in model.model_fields]
        if not fields:
            return False
        if any(_is_open(field.annotation) for field in fields):
            return True  # a table with keys of the user's own
        models = [table for field in fields for table in _tables_in(field.annotation)]
    return True


def _tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections that an annotation allows; a list of tables is no section."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated):
        for part in typing.get_args(annotation):
            yield from _tables_in(part)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation


def _is_open(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        return any(_is_open(part) for part in typing.get_args(annotation))
    return annotation is dict or origin in (dict, Mapping)


def _plain(default: Any) -> Any:
    if default is PydanticUndefined:
        return None
    if isinstance(default, BaseModel):
        return default.model_dump(mode="json")
    return list(default) if isinstance(default, tuple) else default
