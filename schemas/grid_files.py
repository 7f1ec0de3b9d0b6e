"""A grid's file, taken apart: the experiment, the settings that vary, what is left out.

``schemas.grids`` says what stands in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import Path
from typing import Any

from schemas.counting import counted
from schemas.errors import ConfigurationError
from schemas.experiment import MISSING, digest_of
from schemas.settings import flatten, why_unknown
from schemas.toml_files import parse_setting, read_toml


@dataclass(slots=True)
class GridFile:
    """A grid file, taken apart; ``faults`` collects what is wrong with it."""

    base: dict[str, Any]  # the experiment's table
    axes: dict[str, list[Any]] = field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)  # name: settings
    excludes: list[dict[str, Any]] = field(default_factory=list)
    overrides: dict[str, Any] = field(default_factory=dict)  # of --set
    primary: Any = None
    faults: list[str] = field(default_factory=list)


def read_grid_file(path: Path, settings: tuple[str, ...] = ()) -> GridFile:
    """Read a grid's file and apply ``--set KEY=VALUE``.

    Raises:
        ConfigurationError: it cannot be read, or something in it cannot be used.
    """
    parts = _take_apart(read_toml(path, missing=MISSING), stem=path.stem)
    _override(parts, settings)
    refuse_faults(parts.faults, path)
    return parts


def refuse_faults(faults: list[str], path: Path) -> None:
    """Refuse a grid that has faults, each on a line of its own."""
    if faults:
        lines = "\n".join(f"  {fault}" for fault in faults)
        raise ConfigurationError(
            f"{path}: {counted(len(faults), 'setting')} of the grid cannot be used:\n{lines}"
        )


def _take_apart(table: dict[str, Any], *, stem: str) -> GridFile:
    grid, variants = table.pop("grid", {}), table.pop("variant", [])
    excludes, primary = table.pop("exclude", []), table.pop("primary_measure", None)
    table.setdefault("name", stem)
    parts = GridFile(table, primary=primary)
    if not isinstance(table["name"], str):
        parts.faults.append(f"name: expected a text, but got {table['name']!r}")
    if not isinstance(grid, Mapping):
        parts.faults.append("grid: expected a table, [grid], of settings with lists of values")
    else:
        _take_axes(grid, parts)
    _take_variants(variants, parts)
    if not _is_list_of_tables(excludes):
        parts.faults.append("exclude: expected tables, [[exclude]], of settings with a value")
    else:
        parts.excludes = [flatten(exclude) for exclude in excludes]
        for key in {key for exclude in parts.excludes for key in exclude} - {"variant"}:
            _check_key("exclude", key, parts)
    return parts


def _take_axes(grid: Mapping[str, Any], parts: GridFile) -> None:
    for key, values in flatten(grid).items():
        if _check_key("grid", key, parts):
            reason = _why_no_axis(key, values)
            if reason is None:
                parts.axes[key] = values
            else:
                parts.faults.append(f'grid."{key}": {reason}')
    for key in parts.axes:
        for other in parts.axes:
            if key.startswith(f"{other}."):
                parts.faults.append(f'grid."{key}": {other}, which holds it, is varied too')


def _why_no_axis(key: str, values: Any) -> str | None:
    """Why these cannot be the values that a setting takes in turn; None: they can."""
    if key == "name":
        return "names are made from the settings; leave it out"
    if not isinstance(values, list):
        return f"expected a list of values, but got {values!r}"
    if not values:
        return "the list is empty; give it a value, or leave it out"
    dated = [value for value in values if isinstance(value, date | time)]
    if dated:
        return f"{dated[0]} is a date or time; no setting takes one"
    twice = _twice(values)
    return f"{', '.join(twice)} stands there twice" if twice else None


def _take_variants(variants: Any, parts: GridFile) -> None:
    if not _is_list_of_tables(variants):
        parts.faults.append("variant: expected tables, [[variant]], with a name and settings")
        return
    for position, variant in enumerate(variants, start=1):
        settings = flatten(variant)
        name = settings.pop("name", None)
        if not isinstance(name, str) or not name.strip():
            parts.faults.append(f"variant {position}: expected a name, such as name = 'reranked'")
            continue
        if name in parts.variants:
            parts.faults.append(f"variant {name!r} stands there twice; give each its own name")
        for key in settings:
            if _check_key(f"variant {name!r}", key, parts) and _touches(key, parts.axes):
                parts.faults.append(
                    f"variant {name!r}: {key} is varied by [grid]; set it in one of the two"
                )
        parts.variants[name] = settings


def _check_key(where: str, key: str, parts: GridFile) -> bool:
    reason = why_unknown(key)
    if reason is not None:
        quoted = f'{where}."{key}"' if where in ("grid", "exclude") else f"{where}: {key}"
        parts.faults.append(f"{quoted}: {reason}")
    return reason is None


def _override(parts: GridFile, settings: tuple[str, ...]) -> None:
    """Apply ``--set``: one value for an axis, else a value for all combinations."""
    for setting in settings:
        key, value = parse_setting(setting)
        if key == "primary_measure":
            parts.primary = value
        elif key in parts.axes:
            parts.axes[key] = [value]
        elif _touches(key, parts.axes):
            (axis, *_) = [axis for axis in parts.axes if _touches(key, {axis: None})]
            parts.faults.append(f'--set {setting!r}: [grid] varies "{axis}"; set that instead')
        else:
            parts.overrides[key] = value


def _touches(key: str, axes: Mapping[str, Any]) -> bool:
    """Whether setting ``key`` sets an axis, or something above or below one."""
    return any(
        key == axis or key.startswith(f"{axis}.") or axis.startswith(f"{key}.") for axis in axes
    )


def _twice(values: list[Any]) -> list[str]:
    shown = [digest_of(value) for value in values]
    return [
        repr(value)
        for place, value in enumerate(values)
        if shown.index(shown[place]) < place and shown.count(shown[place]) > 1
    ]


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)
