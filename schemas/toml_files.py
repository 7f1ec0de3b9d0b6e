"""Configuration files as tables, single settings put into them, and faults in the file's words."""

from __future__ import annotations

import difflib
import re
import tomllib
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from schemas.errors import ConfigurationError

PLAINER = {
    "tuple_type": "expected a list",
    "too_short": "expected a list that is not empty",
    "model_type": "expected a table",
    "string_too_short": "expected a text that is not empty",
}
"""Our words for faults that pydantic describes in Python's."""


def read_toml(path: Path, *, missing: str = "") -> dict[str, Any]:
    """The table that a file holds.

    Args:
        path: the file.
        missing: what to do where there is none, as a sentence.

    Raises:
        ConfigurationError: it is not there, cannot be read, is no UTF-8 or no TOML.
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such file. {missing}".rstrip()) from None
    except IsADirectoryError:
        raise ConfigurationError(
            f"{path}: this is a folder; name the TOML file, such as {path}/experiment.toml"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: this is not valid TOML: {error}") from None


def apply_setting(table: dict[str, Any], setting: str) -> None:
    """Put ``KEY=VALUE`` into a table: VALUE is read as TOML, else as text.

    Raises:
        ConfigurationError: it is not of this form, or KEY leads through a value.
    """
    key, value = parse_setting(setting)
    set_value(table, key, value, where=f"--set {setting!r}")


def parse_setting(setting: str) -> tuple[str, Any]:
    """The dotted key and the value of ``KEY=VALUE``.

    Raises:
        ConfigurationError: it is not of this form.
    """
    key, separator, text = setting.partition("=")
    if not separator or not _is_key(key):
        raise ConfigurationError(
            f"--set {setting!r}: expected KEY=VALUE, such as chunking.size=512"
        )
    try:
        return key.strip(), tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), text


def set_value(table: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    """Put a value under a dotted key, through tables that are made where they are missing.

    Raises:
        ConfigurationError: the key cannot be one, or leads through a value.
    """
    parts = key.strip().split(".")
    if not _is_key(key):
        raise ConfigurationError(
            f"{where}: {key!r} is not the key of a setting, such as chunking.size"
        )
    for depth, part in enumerate(parts[:-1], start=1):
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ConfigurationError(f"{where}: {'.'.join(parts[:depth])} is a value, not a table")
    table[parts[-1]] = value


def _is_key(key: str) -> bool:
    return all(re.fullmatch(r"[A-Za-z_][\w-]*", part) for part in key.strip().split("."))


def explain_faults(error: ValidationError, model: type[BaseModel], *, where: str) -> str:
    """Every fault of a file with its key, and an unknown key with the nearest valid one.

    Args:
        error: what pydantic found.
        model: of the whole file.
        where: the file.
    """
    faults = "\n".join(f"  {fault}" for fault in list_faults(error, model))
    settings = "settings" if error.error_count() > 1 else "setting"
    return f"{where}: {error.error_count()} {settings} cannot be used:\n{faults}"


def list_faults(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """A line for each fault, with its key."""
    return [_explain(fault, model) for fault in error.errors()]


def _explain(fault: Any, root: type[BaseModel]) -> str:
    # The tags of ``schemas.experiment._form_of`` are no keys of the file.
    location = [
        str(part)
        for part, before in zip(fault["loc"], (None, *fault["loc"]), strict=False)
        if not (before in ("generator", "judge") and part in ("name", "endpoint"))
    ]
    key = ".".join(location)
    if fault["type"] == "extra_forbidden":
        known = list(_section_model(location[:-1], root).model_fields)
        near = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        return f"{key}: unknown key; {hint}"
    if fault["type"] == "missing":
        return f"{key}: this setting is required{_choices(location, root)}"
    message = PLAINER.get(fault["type"], fault["msg"].removeprefix("Value error, "))
    if fault["type"] == "value_error":
        return f"{key}: {message}" if key else message
    if key == "name":
        message = "expected 1 to 100 characters, none of them a slash or a control character"
    return f"{key}: {message[0].lower()}{message[1:]}, but got {fault['input']!r}"


def _section_model(location: list[str], root: type[BaseModel]) -> type[BaseModel]:
    """The model of the table that a location leads to, as far as it does."""
    model = root
    for part in location:
        if part.isdecimal():  # of a list of tables
            continue
        field = model.model_fields.get(part)
        if field is None:
            break
        for candidate in _classes(field.annotation):
            if issubclass(candidate, BaseModel):
                model = candidate
    return model


def _classes(annotation: Any) -> list[type]:
    """The classes that an annotation names, in its unions, lists and constraints too."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return [annotation]
    return [kind for part in typing.get_args(annotation) for kind in _classes(part)]


def _choices(location: list[str], root: type[BaseModel]) -> str:
    field = _section_model(location[:-1], root).model_fields.get(location[-1])
    values = getattr(getattr(field, "annotation", None), "__args__", ())
    return f" (one of: {', '.join(values)})" if values and isinstance(values[0], str) else ""
