"""What differs between a run and its baseline, of all that their numbers rest on."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Json = Mapping[str, Any]
CHECKS = ("embed_canaries", "judge_anchor", "judge_again")
"""Stages that are asked anew each night: other outputs of equal inputs are what they look for."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that has another value; None: that side does not have it."""

    name: str
    value: Any
    baseline_value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StageChange:
    """One stage that did not do the same work, or made something else."""

    stage: str
    only_in: str | None = None  # "run" or "baseline": the other has no such stage
    inputs: tuple[str, ...] = ()  # what it read, by name, that differs
    has_other_code: bool = False
    has_other_key: bool = False  # settings, libraries or a model beside inputs and code
    has_other_output: bool = False

    @property
    def is_unexplained(self) -> bool:
        """Whether equal work gave another output."""
        return self.has_other_output and not (
            self.only_in or self.inputs or self.has_other_code or self.has_other_key
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChanges:
    """What differs between two runs; where nothing does, everything is empty."""

    stages: tuple[StageChange, ...] = ()
    settings: tuple[Change, ...] = ()  # dotted, such as chunking.size
    models: tuple[Change, ...] = ()  # by role, with whatever tells them apart
    code: tuple[Change, ...] = ()  # version of Rankhouse, commit, changes that are not committed
    libraries: tuple[Change, ...] = ()  # and Python
    benchmark: Change | None = None  # digests


def find_changes(connection: DuckDBPyConnection, run_id: str, baseline_id: str) -> RunChanges:
    """Compare what two runs rest on, as the warehouse has it.

    Raises:
        UsageError: a run that is not there.
    """
    ours, theirs = (_read_run(connection, name) for name in (run_id, baseline_id))
    benchmarks = (ours["benchmark_digest"], theirs["benchmark_digest"])
    versions = [
        {**json.loads(run["libraries"] or "{}"), "python": run["python_version"]}
        for run in (ours, theirs)
    ]
    code = [
        {name: run[name] for name in ("rankhouse_version", "git_commit", "git_dirty")}
        for run in (ours, theirs)
    ]
    return RunChanges(
        stages=tuple(_stage_changes(connection, run_id, baseline_id)),
        settings=changes_of(*(_settings(run) for run in (ours, theirs))),
        models=changes_of(*(_models(run) for run in (ours, theirs))),
        code=changes_of(*code),
        libraries=changes_of(*versions),
        benchmark=None if benchmarks[0] == benchmarks[1] else Change("benchmark", *benchmarks),
    )


def changes_of(ours: Json, theirs: Json) -> tuple[Change, ...]:
    """What has another value, in the order of our names, then theirs."""
    return tuple(
        Change(name, ours.get(name), theirs.get(name))
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name) != theirs.get(name)
    )


def count_touched(
    connection: DuckDBPyConnection,
    run_ids: Sequence[str],
    query_ids: Collection[str],
    doc_ids: Collection[str],
) -> int:
    """How many of these queries have one of these documents in their truth or their rankings.

    Args:
        connection: the warehouse, or its copy.
        run_ids: whose labels and rankings are looked at.
        query_ids: such as those that lost.
        doc_ids: such as those that changed.
    """
    row = connection.execute(
        _TOUCHED, [list(run_ids), list(query_ids), list(query_ids), list(doc_ids)]
    ).fetchone()
    return 0 if row is None else int(row[0])


_TOUCHED = """
WITH compared AS (SELECT * FROM runs WHERE list_contains(?, run_id)),
near AS (
    SELECT label.query_id, coalesce(label.doc_id, label.item_id) AS doc_id
    FROM labels AS label
    WHERE label.labels_digest IN (SELECT labels_digest FROM compared) AND label.gain > 0
        AND label.query_id IN (SELECT unnest(?::VARCHAR[]))
    UNION
    SELECT ranking.query_id, regexp_replace(ranking.chunk_id, '#[0-9]+-[0-9]+$', '')
    FROM rankings AS ranking
    WHERE ranking.rankings_digest IN (SELECT rankings_digest FROM compared)
        AND ranking.query_id IN (SELECT unnest(?::VARCHAR[]))
)
SELECT count(DISTINCT query_id) FROM near WHERE doc_id IN (SELECT unnest(?::VARCHAR[]))
"""

_COLUMNS = (
    *("config", "models", "benchmark_digest", "rankhouse_version", "git_commit", "git_dirty"),
    *("python_version", "libraries"),
)


def _read_run(connection: DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    row = connection.execute(
        f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE run_id = ?",  # noqa: S608 - names of ours
        [run_id],
    ).fetchone()
    if row is None:
        raise UsageError(
            f"run {run_id} is not in the warehouse; `rankhouse runs` lists those that are"
        )
    return dict(zip(_COLUMNS, row, strict=True))


def _settings(run: Json) -> dict[str, Any]:
    """Dotted, but for the name, which decides nothing."""
    flat = _flatten(json.loads(run["config"]))
    flat.pop("name", None)
    return flat


def _flatten(table: Json, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif value is not None:
            flat[prefix + name] = value
    return flat


def _models(run: Json) -> dict[str, Any]:
    """By role; what stays None tells nothing apart."""
    return {
        str(model.get("role")): {
            name: value for name, value in model.items() if name != "role" and value is not None
        }
        for model in json.loads(run["models"] or "[]")
    }


def _stage_changes(
    connection: DuckDBPyConnection, run_id: str, baseline_id: str
) -> Sequence[StageChange]:
    ours, theirs = (_read_stages(connection, name) for name in (run_id, baseline_id))
    found = [
        _stage_change(stage, ours.get(stage), theirs.get(stage))
        for stage in dict.fromkeys([*ours, *theirs])
    ]
    return [change for change in found if change is not None]


def _read_stages(connection: DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    rows = connection.execute(
        "SELECT stage, stage_key, code_digest, inputs, output_digest FROM stages "
        "WHERE run_id = ? AND status = 'completed' AND NOT list_contains(?, stage) "
        "ORDER BY position",
        [run_id, list(CHECKS)],
    ).fetchall()
    return {
        stage: {"key": key, "code": code, "inputs": json.loads(inputs or "{}"), "output": output}
        for stage, key, code, inputs, output in rows
    }


def _stage_change(stage: str, ours: Json | None, theirs: Json | None) -> StageChange | None:
    if ours is None or theirs is None:
        return StageChange(stage=stage, only_in="run" if theirs is None else "baseline")
    inputs = tuple(change.name for change in changes_of(ours["inputs"], theirs["inputs"]))
    has_other_code = ours["code"] != theirs["code"]
    change = StageChange(
        stage=stage,
        inputs=inputs,
        has_other_code=has_other_code,
        # other inputs or code change the key by themselves
        has_other_key=ours["key"] != theirs["key"] and not inputs and not has_other_code,
        has_other_output=ours["output"] != theirs["output"],
    )
    return None if change == StageChange(stage=stage) else change
