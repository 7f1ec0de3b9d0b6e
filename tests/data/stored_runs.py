"""A warehouse in memory with runs whose every value a test has chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import polars as pl

from schemas.frames import QUERY_METRICS
from schemas.measures import Measure
from tests.data.sample_runs import digest, means_of, sample_run
from warehouse.migrate import apply_pending
from warehouse.rows import query_metrics_frame, run_metrics_frame

Values = Mapping[str, Sequence[float | str | None]]  # measure to values; a text is a null_reason


def run_id(number: int) -> str:
    return f"01980000-0000-7000-8000-{number:012d}"


def frames_of(
    number: int,
    values: Values,
    *,
    key: str = "key",
    tags: Sequence[Sequence[str]] | None = None,
    rankings: str | None = None,
    **changes: Any,
) -> dict[str, pl.DataFrame]:
    """The frames of a run that scored these values, in order of its queries.

    ``key`` enters the comparability keys; ``rankings`` names what was retrieved: by default each
    run something of its own.
    """
    n_queries = len(next(iter(values.values())))
    rankings = str(number) if rankings is None else rankings
    digests = {"rankings_digest": digest(f"rankings {rankings}"), "labels_digest": digest("labels")}
    frames = sample_run(
        run_id(number),
        n_queries=n_queries,
        measures=[name for name in values if name not in ("summary_score", "qa", "conciseness")],
        **{**digests, **changes},
    )
    for name, column in (("rankings", "rankings_digest"), ("labels", "labels_digest")):
        stored = pl.lit(frames["runs"][column][0]).alias(column)
        frames[name] = frames[name].with_columns(stored)
    rows = [
        (
            f"q{i:05d}",
            name,
            Measure.parse(name).contract.version,
            None if isinstance(value, str) else value,
            value if isinstance(value, str) else None,
        )
        for name, column in values.items()
        for i, value in enumerate(column)
    ]
    scored = pl.DataFrame(rows, schema=QUERY_METRICS, orient="row")
    keys = {name: digest(f"{key} {name}") for name in values}
    frames["query_metrics"] = query_metrics_frame(scored, run_id=run_id(number))
    frames["run_metrics"] = run_metrics_frame(
        means_of(scored), run_id=run_id(number), comparability_keys=keys
    )
    if tags is not None:
        frames["queries"] = frames["queries"].with_columns(
            tags=pl.Series([list(names) for names in tags], dtype=pl.List(pl.String))
        )
    return frames


def store(*runs: Mapping[str, pl.DataFrame]) -> duckdb.DuckDBPyConnection:
    """A new warehouse in memory that holds these runs."""
    connection = duckdb.connect()
    apply_pending(connection)
    for frames in runs:
        for name, frame in frames.items():
            more = ", 1 AS attempt, now() AS loaded_at" if name == "runs" else ""
            connection.register("incoming", frame.to_arrow())
            connection.execute(f"INSERT INTO {name} BY NAME SELECT DISTINCT *{more} FROM incoming")
            connection.unregister("incoming")
    return connection


def add(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Rows by column name."""
    for row in rows:
        names, places = ", ".join(row), ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", list(row.values()))
