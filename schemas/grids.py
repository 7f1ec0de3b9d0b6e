"""A grid: one experiment file that stands for many, a run for each combination of its settings.

``GRID.toml`` is an experiment with four more keys::

    primary_measure = "ndcg@10"           # what the runs are compared on; else the first measure
    [grid]
    "chunking.size" = [256, 512]          # a setting, and the values that it takes in turn
    [[variant]]                           # settings that change together, multiplied with [grid]
    name = "reranked"
    "retrieval.rerank.model" = "…"
    [[exclude]]                           # combinations with all of these values are dropped
    variant = "reranked"
    "chunking.size" = 512
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.counting import counted
from schemas.errors import ConfigurationError, UsageError
from schemas.experiment import Experiment, absolute_paths, digest_of
from schemas.grid_files import GridFile, read_grid_file, refuse_faults
from schemas.grid_names import labels_of, name_of, short_keys
from schemas.measures import Measure, MeasureError
from schemas.settings import put, value_of
from schemas.toml_files import list_faults

MOST_COMBINATIONS = 10_000
"""More are a slip of the keyboard; they would take long only to be listed."""
NAMED = 3  # combinations that a fault names


@dataclass(frozen=True, slots=True)
class Grid:
    """The experiments of a grid, in the order of its file, the last setting changing fastest."""

    name: str
    experiments: tuple[Experiment, ...]  # their names differ, their paths are absolute
    primary_measure: str
    notes: tuple[str, ...] = ()  # what deserves a look, and stops nothing


@dataclass(frozen=True, slots=True)
class _Combination:
    name: str
    variant: str | None
    values: dict[str, Any]  # of [grid]
    table: dict[str, Any]  # of the experiment


def read_grid(path: Path, settings: tuple[str, ...] = ()) -> Grid:
    """Read a grid file and validate every combination.

    Args:
        path: a grid, or an experiment, which is a grid of one.
        settings: ``KEY=VALUE``; a setting of ``[grid]`` then has this one value, any other has
            it in every combination.

    Raises:
        ConfigurationError: the file cannot be read, or something in it cannot be used; every
            fault is named with its key and the combinations that have it.
    """
    parts = read_grid_file(path, settings)
    n_combinations = math.prod(len(values) for values in parts.axes.values())
    n_combinations *= max(1, len(parts.variants))
    if n_combinations > MOST_COMBINATIONS:
        raise ConfigurationError(
            f"{path}: the grid has {n_combinations:,} combinations, more than the "
            f"{MOST_COMBINATIONS:,} that one grid may have; take values or settings out of [grid]"
        )
    kept, notes = _drop_excluded(list(_combine(parts)), parts.excludes)
    if not kept:
        every = (
            f"all {counted(n_combinations, 'combination')}" if n_combinations > 1 else "the one run"
        )
        raise ConfigurationError(f"{path}: [[exclude]] drops {every}; nothing is left to run")
    experiments = _validate(kept, path)
    refuse_faults(_equal_values(kept, experiments), path)
    try:
        primary = primary_measure_of(parts.primary, experiments)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return Grid(str(parts.base["name"]), experiments, primary, tuple(notes))


def choose(grid: Grid, *, only: Sequence[str] = (), limit: int | None = None) -> Grid:
    """The runs of a grid that are wanted.

    Args:
        grid: see ``read_grid``.
        only: names of runs, or globs of names; empty: all.
        limit: the most runs that there may be; None: any number.

    Raises:
        UsageError: a name or glob fits no run, or there are more runs than ``limit``.
    """
    names = [experiment.name for experiment in grid.experiments]
    for pattern in only:
        if pattern not in names and not any(fnmatchcase(name, pattern) for name in names):
            near = difflib.get_close_matches(pattern, names, n=1, cutoff=0.0)
            part = near[0].rpartition(":")[2].partition(",")[0]
            raise UsageError(
                f"--only {pattern!r} fits none of the {counted(len(names), 'run')} of the grid; "
                f"the nearest is {near[0]!r}, and a glob such as '*{part}*' fits several"
            )
    chosen = [
        experiment
        for experiment in grid.experiments
        if not only
        or experiment.name in only
        or any(fnmatchcase(experiment.name, pattern) for pattern in only)
    ]
    if limit is not None and len(chosen) > limit:
        raise UsageError(
            f"the grid has {counted(len(chosen), 'run')}, more than --limit {limit}; raise the "
            "limit, choose runs with --only, or take values out of [grid]"
        )
    return replace(grid, experiments=tuple(chosen))


def _combine(parts: GridFile) -> Iterator[_Combination]:
    short = short_keys(list(parts.axes))
    axes = [
        [(key, value, f"{short[key]}={label}") for value, label in zip(values, labels, strict=True)]
        for key, values in parts.axes.items()
        for labels in [labels_of(values)]
    ]
    variants: list[tuple[str | None, dict[str, Any], list[str]]] = [(None, {}, [])]
    if parts.variants:
        labels = labels_of(list(parts.variants))
        variants = [
            (name, settings, [label])
            for (name, settings), label in zip(parts.variants.items(), labels, strict=True)
        ]
    for variant, settings, shown in variants:
        for chosen in itertools.product(*axes):
            table = deepcopy(parts.base)
            varied = {key: value for key, value, _ in chosen}
            for key, value in (settings | varied | parts.overrides).items():
                put(table, key, deepcopy(value))
            table["name"] = name_of(str(table["name"]), [*shown, *(text for *_, text in chosen)])
            yield _Combination(table["name"], variant, varied, table)


def _drop_excluded(
    combinations: list[_Combination], excludes: list[dict[str, Any]]
) -> tuple[list[_Combination], list[str]]:
    notes = []
    dropped: set[str] = set()
    for exclude in excludes:
        matches = {each.name for each in combinations if _is_excluded(each, exclude)}
        dropped |= matches
        if not matches:
            shown = ", ".join(f"{key} = {value!r}" for key, value in exclude.items())
            notes.append(f"[[exclude]] {shown}: no combination has these values")
    return [each for each in combinations if each.name not in dropped], notes


def _is_excluded(combination: _Combination, exclude: dict[str, Any]) -> bool:
    def has(key: str, wanted: Any) -> bool:
        found = combination.variant if key == "variant" else value_of(combination.table, key)
        is_any_of = isinstance(wanted, list) and not isinstance(found, list)
        return found in wanted if is_any_of else bool(found == wanted)

    return bool(exclude) and all(has(key, wanted) for key, wanted in exclude.items())


def _validate(combinations: list[_Combination], path: Path) -> tuple[Experiment, ...]:
    """Every combination as an experiment; a fault that several have is told once."""
    experiments = []
    faults: dict[str, list[str]] = {}
    for combination in combinations:
        try:
            experiments.append(Experiment.model_validate(combination.table))
        except ValidationError as error:
            for fault in list_faults(error, Experiment):
                faults.setdefault(fault, []).append(combination.name)
    n_all = len(combinations)
    refuse_faults([f"{fault} ({_in(names, n_all)})" for fault, names in faults.items()], path)
    folder = path.absolute().parent
    return tuple(absolute_paths(experiment, folder) for experiment in experiments)


def _equal_values(
    combinations: list[_Combination], experiments: tuple[Experiment, ...]
) -> list[str]:
    """Values of one setting that are equal once they are read, as 1 and 1.0: runs would be too.

    Copies of one configuration under names of variants are meant.
    """
    first: dict[tuple[str | None, str], _Combination] = {}
    faults: dict[str, None] = {}
    for combination, experiment in zip(combinations, experiments, strict=True):
        settings = experiment.model_dump(exclude={"name"})
        before = first.setdefault((combination.variant, repr(settings)), combination)
        for key, value in combination.values.items():
            other = before.values[key]
            if digest_of(other) != digest_of(value):
                faults[
                    f'grid."{key}": {other!r} and {value!r} are the same value and would give '
                    "equal runs; keep one"
                ] = None
    return list(faults)


def _in(names: list[str], n_all: int) -> str:
    if n_all == 1:
        return f"in {names[0]}"
    if len(names) == n_all:
        return f"in all {n_all} combinations"
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"in {', '.join(names[:NAMED])}{more}"


def primary_measure_of(given: Any, experiments: Sequence[Experiment]) -> str:
    """What the runs of a grid are compared on, as it is written canonically.

    Args:
        given: a measure; None: the first one of the first experiment.
        experiments: of the grid; each has to measure it.

    Raises:
        ConfigurationError: it is no measure, or an experiment does not measure it.
    """
    if given is None:
        given = experiments[0].measures[0]
    try:
        primary = str(Measure.parse(given)) if isinstance(given, str) else None
    except MeasureError:
        primary = None
    lacking = [each.name for each in experiments if primary not in each.measures]
    if primary is None or lacking:
        known = ", ".join(experiments[0].measures)
        where = f" {_in(lacking, len(experiments))}" if primary is not None else ""
        raise ConfigurationError(
            f"primary_measure is {given!r}, which is not among the measures{where}: {known}"
        )
    return primary
