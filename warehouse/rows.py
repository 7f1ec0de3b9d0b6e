"""Plain values into the frames of a part: one function a table, with the table's exact types."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from warehouse.row_values import plain_value

TIME = pl.Datetime("us", "UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """Everything that the numbers of a run rest on; None: not known, or the run failed before."""

    run_id: str
    experiment: str
    logical_date: date
    status: str  # completed, degraded or failed
    status_reason: str | None = None  # required unless completed
    suite: str | None = None
    grid_id: str | None = None
    started_at: datetime
    ended_at: datetime
    seconds: float
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    config: Mapping[str, Any]  # without secrets
    config_digest: str
    corpus_path: str
    corpus_digest: str | None = None
    n_documents: int | None = None
    benchmark_path: str
    benchmark_digest: str | None = None
    split: str | None = None
    n_queries: int | None = None
    chunks_digest: str | None = None
    n_chunks: int | None = None
    vectors_digest: str | None = None
    index_digest: str | None = None
    rankings_digest: str | None = None
    labels_digest: str | None = None
    label_method: str
    depth: int
    embedding_model: str | None = None
    embedding_revision: str | None = None
    embedding_weights_digest: str | None = None
    models: Sequence[Mapping[str, Any]] = ()  # role, name, revision, weights_digest
    rankhouse_version: str
    git_commit: str | None = None
    git_dirty: bool | None = None
    python_version: str
    libraries: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    flow_run_id: str | None = None
    primary_measure: str | None = None  # of its grid


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage of one run."""

    run_id: str
    position: int  # from 1
    stage: str
    status: str = "completed"  # or failed
    cached: bool
    stage_key: str | None = None
    code_digest: str | None = None
    inputs: Mapping[str, str] | None = None  # digests of what it read
    output_digest: str | None = None
    started_at: datetime | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    figures: Mapping[str, Any] | None = None
    message: str | None = None  # required when failed


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """What happened to a run: a crash, a warning, a note, a tag."""

    run_id: str | None
    kind: str  # one of schemas.run_tables.EVENT_KINDS
    message: str
    stage: str | None = None
    query_id: str | None = None
    author: str | None = None
    host: str | None = None
    details: Mapping[str, Any] | None = None
    occurred_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    event_id: str = field(default_factory=lambda: str(uuid.uuid4()))


_TYPES: dict[str, Any] = {
    "str": pl.String,
    "int": pl.Int64,
    "float": pl.Float64,
    "bool": pl.Boolean,
    "date": pl.Date,
    "datetime": TIME,
    "Mapping[str, Any]": pl.String,  # JSON, likewise below
    "Mapping[str, str]": pl.String,
    "Sequence[Mapping[str, Any]]": pl.String,
}


def _schema_of(row: type[RunRow] | type[StageRow] | type[EventRow]) -> pl.Schema:
    """The frame's types from the annotations, so that a column is written down once."""
    return pl.Schema(
        {
            item.name: _TYPES[str(item.type).removesuffix(" | None")]
            for item in dataclasses.fields(row)
        }
    )


RUNS = _schema_of(RunRow)
STAGES = _schema_of(StageRow)
EVENTS = _schema_of(EventRow)
MEASURES = pl.Schema(
    {
        "measure": pl.String,
        "contract_version": pl.Int64,
        "family": pl.String,
        "formula": pl.String,
        "lowest": pl.Float64,
        "highest": pl.Float64,
        "edge_policy": pl.String,
        "source": pl.String,
    }
)


def runs_frame(row: RunRow) -> pl.DataFrame:
    """The table runs: one row."""
    return _frame([row], RUNS)


def stages_frame(rows: Iterable[StageRow]) -> pl.DataFrame:
    """The table stages."""
    return _frame(rows, STAGES)


def events_frame(rows: Iterable[EventRow]) -> pl.DataFrame:
    """The table events."""
    return _frame(rows, EVENTS)


def measures_frame(names: Iterable[str]) -> pl.DataFrame:
    """The table measures: the contract, as of this code, of each measure named.

    Raises:
        MeasureError: a name that is no measure.
    """
    from schemas.measures import Measure

    rows = []
    for measure in sorted({Measure.parse(name) for name in names}):
        contract = measure.contract
        rows.append(
            {
                "measure": str(measure),
                "contract_version": contract.version,
                "family": measure.family,
                "formula": contract.formula,
                "lowest": contract.lowest,
                "highest": contract.highest,
                "edge_policy": contract.edge_policy,
                "source": contract.source,
            }
        )
    return pl.DataFrame(rows, schema=MEASURES)


def queries_frame(queries: pl.DataFrame, *, benchmark_digest: str) -> pl.DataFrame:
    """The table queries, from QUERIES or BENCHMARK of ``schemas.frames``, the whole of it.

    QUERIES have no filter.
    """
    if "filter" not in queries.columns:
        queries = queries.with_columns(filter=pl.lit(None, dtype=pl.String))
    return _keyed(queries, "benchmark_digest", benchmark_digest)


def rankings_frame(rankings: pl.DataFrame, *, rankings_digest: str) -> pl.DataFrame:
    """The table rankings, from a frame of ``schemas.frames.RANKINGS``."""
    return _keyed(rankings, "rankings_digest", rankings_digest)


def labels_frame(labels: pl.DataFrame, *, labels_digest: str) -> pl.DataFrame:
    """The table labels, from a frame of ``schemas.frames.LABELS``."""
    return _keyed(labels, "labels_digest", labels_digest)


def query_metrics_frame(values: pl.DataFrame, *, run_id: str) -> pl.DataFrame:
    """The table query_metrics, from a frame of ``schemas.frames.QUERY_METRICS``.

    Sorted by measure and query: equal neighbours are what a column store compresses.
    """
    return _keyed(values, "run_id", run_id).sort("measure", "query_id")


def run_metrics_frame(
    means: pl.DataFrame, *, run_id: str, comparability_keys: Mapping[str, str]
) -> pl.DataFrame:
    """The table run_metrics, from a frame of ``schemas.frames.RUN_METRICS``.

    Args:
        means: one row a measure.
        run_id: the run.
        comparability_keys: measure to key; every measure of ``means`` must be there.
    """
    key = pl.col("measure").replace_strict(dict(comparability_keys), return_dtype=pl.String)
    return _keyed(means, "run_id", run_id).with_columns(key.alias("comparability_key"))


def summary_frame(rows: pl.DataFrame, *, run_id: str) -> pl.DataFrame:
    """The table summary_scores or summary_questions, from the frame of the same name."""
    return _keyed(rows, "run_id", run_id)


def _keyed(frame: pl.DataFrame, name: str, value: str) -> pl.DataFrame:
    return frame.select(pl.lit(value, dtype=pl.String).alias(name), pl.all())


def _frame(rows: Iterable[RunRow | StageRow | EventRow], schema: pl.Schema) -> pl.DataFrame:
    values = [
        {item.name: plain_value(getattr(row, item.name)) for item in dataclasses.fields(row)}
        for row in rows
    ]
    return pl.DataFrame(values, schema=schema)
