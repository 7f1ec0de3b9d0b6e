"""The values of a run beside those of its baseline, query by query, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warehouse.queries import among

if TYPE_CHECKING:
    import polars as pl
    from duckdb import DuckDBPyConnection

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RunValues:
    """What each query scored in several runs."""

    run_ids: tuple[str, ...]
    measures: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: Floats  # (n_runs, n_measures, n_queries); NaN where there is none
    is_failed: Flags  # likewise: whether that is because it failed

    def side(self, rows: Flags, columns: Flags, fill: Floats | None = None) -> Floats:
        """The mean over some runs of each query's values.

        A query must have a value in each of these runs: NaN where it has not.

        Args:
            rows: (n_runs, n_measures) which runs count for which measure.
            columns: (n_measures, n_queries) which queries count.
            fill: (n_measures,) what stands for scores that failed; None: they are no values.

        Returns:
            (n_measures, n_queries).
        """
        values = self.values
        if fill is not None:
            values = np.where(self.is_failed, fill[None, :, None], values)
        counted = np.where(rows[:, :, None], values, 0.0)
        n_runs = rows.sum(axis=0)[:, None]
        total = counted.sum(axis=0)
        mean = np.divide(total, n_runs, out=np.full_like(total, np.nan), where=n_runs > 0)
        return np.where(columns, mean, np.nan)


def read_values(
    connection: DuckDBPyConnection, run_ids: Sequence[str], measures: Sequence[str]
) -> RunValues:
    """Read the values of some measures, under the newest contract of each run."""
    frame = _read(connection, run_ids, measures)
    query_ids = frame["query_id"].unique().sort()
    shape = (len(run_ids), len(measures), len(query_ids))
    values = np.full(shape, np.nan)
    is_failed = np.zeros(shape, dtype=np.bool_)
    place = tuple(
        frame[column].replace_strict(known, range(len(known)), return_dtype=_index()).to_numpy()
        for column, known in (
            ("run_id", list(run_ids)),
            ("measure", list(measures)),
            ("query_id", query_ids),
        )
        if len(known)
    )
    if frame.height:
        values[place] = frame["value"].to_numpy()
        is_failed[place] = frame["is_failed"].to_numpy()
    return RunValues(tuple(run_ids), tuple(measures), tuple(query_ids.to_list()), values, is_failed)


def _index() -> type[pl.DataType]:
    import polars as pl

    return pl.Int64


def _read(
    connection: DuckDBPyConnection, run_ids: Sequence[str], measures: Sequence[str]
) -> pl.DataFrame:
    frame: pl.DataFrame = (
        connection.cursor()
        .sql(
            "SELECT run_id, measure, query_id, value, "  # noqa: S608 - literals are quoted
            "coalesce(null_reason = 'failed', false) AS is_failed FROM newest_query_metrics "
            f"WHERE {among('run_id', run_ids)} AND {among('measure', measures)}"
        )
        .pl()
    )
    return frame


def has_equal_banks(
    connection: DuckDBPyConnection, run_ids: Sequence[str], query_ids: Sequence[str]
) -> Flags:
    """(n_queries,) whether all runs were asked the same questions, in the same order.

    A run without questions for a query, as where its judge failed before it had any, is no reason
    against.
    """
    rows = connection.execute(
        "SELECT query_id FROM ("  # noqa: S608 - literals are quoted
        "SELECT run_id, query_id, list(question ORDER BY question_index) AS bank "
        f"FROM summary_questions WHERE {among('run_id', run_ids)} GROUP BY ALL"
        ") GROUP BY query_id HAVING count(DISTINCT bank) > 1"
    ).fetchall()
    different = {query_id for (query_id,) in rows}
    return np.array([query_id not in different for query_id in query_ids], dtype=np.bool_)
