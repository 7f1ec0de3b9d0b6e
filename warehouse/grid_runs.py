"""The runs of a grid with what they scored and what they cost, read from the warehouse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FIGURES = """
WITH of_stage AS (
    SELECT stage.run_id, stage.position, stage.cached,
        stage.stage IN ('build_index', 'index_terms') AS is_build,
        (stage.figures ->> '$.n_bytes')::BIGINT AS n_bytes,
        (stage.figures ->> '$.seconds_when_made')::DOUBLE AS made,
        coalesce(stage.figures ->> '$.build_seconds',
            stage.figures ->> '$.seconds_when_made')::DOUBLE AS built,
        (stage.figures ->> '$.latency_p50_ms')::DOUBLE AS p50,
        (stage.figures ->> '$.latency_p95_ms')::DOUBLE AS p95,
        (stage.figures ->> '$.n_encoded')::BIGINT AS n_encoded,
        coalesce((stage.figures ->> '$.tokens')::BIGINT, 0)
            + coalesce((stage.figures ->> '$.spent_tokens')::DOUBLE::BIGINT, 0) AS tokens,
        (stage.figures ->> '$.tokens')::BIGINT AS embedded,
        (stage.figures ->> '$.cost')::DOUBLE AS embedding_cost,
        (stage.figures ->> '$.spent_money')::DOUBLE AS llm_cost,
        stage.figures ->> '$.currency' AS currency
    FROM stages AS stage
)
SELECT run.run_id, run.experiment, run.status, run.status_reason, run.config,
    sum(n_bytes) FILTER (WHERE is_build) AS index_bytes,
    sum(built) FILTER (WHERE is_build) AS build_seconds,
    arg_max(p50, position) FILTER (WHERE p50 IS NOT NULL) AS latency_p50_ms,
    arg_max(p95, position) FILTER (WHERE p95 IS NOT NULL) AS latency_p95_ms,
    coalesce(sum(n_encoded) FILTER (WHERE NOT cached), 0) AS texts_embedded,
    coalesce(sum(tokens) FILTER (WHERE NOT cached), 0) AS tokens,
    sum(coalesce(embedding_cost, 0) + coalesce(llm_cost, 0)) FILTER (WHERE NOT cached) AS cost,
    sum(made) AS seconds_to_make,
    sum(coalesce(embedding_cost, 0) + coalesce(llm_cost, 0)) AS cost_to_make,
    coalesce(any_value(paid.currency), any_value(of_stage.currency)) AS currency,
    coalesce(any_value(paid.n_unpriced), 0)
        + count(*) FILTER (WHERE embedded > 0 AND embedding_cost IS NULL) AS n_unpriced
FROM runs AS run
LEFT JOIN of_stage ON of_stage.run_id = run.run_id
LEFT JOIN (
    SELECT run_id, any_value(currency) AS currency, sum(n_unpriced) AS n_unpriced
    FROM cost_by_run GROUP BY run_id
) AS paid ON paid.run_id = run.run_id
WHERE run.grid_id = ?
GROUP BY run.run_id, run.experiment, run.status, run.status_reason, run.config
ORDER BY run.experiment, run.run_id
"""


@dataclass(frozen=True, slots=True)
class MeanRow:
    """One measure of one run."""

    mean: float | None
    comparability_key: str
    n_scored: int
    n_failed: int

    @property
    def coverage(self) -> float | None:
        """Share of the queries with truth that were scored; None: there is none."""
        n = self.n_scored + self.n_failed
        return self.n_scored / n if n else None


@dataclass(frozen=True, slots=True)
class GridRunRow:
    """One run of a grid.

    ``figures``: index_bytes, build_seconds (as spent when it was built), latency_p50_ms,
    latency_p95_ms (of the whole path to the ranking), texts_embedded, tokens and cost (spent by
    this run; nothing by a stage that was reused), seconds_to_make and cost_to_make (of all its
    stages, whoever made them), currency. NULL where it is not known.
    """

    run_id: str
    experiment: str
    status: str
    status_reason: str | None
    config: dict[str, Any]
    figures: dict[str, Any]
    means: dict[str, MeanRow]  # by measure, as configured


def read_grid_runs(connection: DuckDBPyConnection, grid_id: str) -> list[GridRunRow]:
    """The runs of a grid, by name."""
    relation = connection.execute(FIGURES, [grid_id])
    names = [column[0] for column in relation.description or ()]
    rows = [dict(zip(names, values, strict=True)) for values in relation.fetchall()]
    means = _read_means(connection, grid_id)
    return [_run(row, means.get(row["run_id"], {})) for row in rows]


def measures_of(runs: Sequence[GridRunRow]) -> list[str]:
    """The measures of several runs, those of the first one first."""
    return list(dict.fromkeys(name for run in runs for name in run.means))


def _run(row: dict[str, Any], means: dict[str, MeanRow]) -> GridRunRow:
    known = {name: row.pop(name) for name in ("run_id", "experiment", "status", "status_reason")}
    config = json.loads(row.pop("config"))
    if row.pop("n_unpriced"):
        row |= {"cost": None, "cost_to_make": None}
    for name in ("cost", "cost_to_make"):
        row[name] = row[name] if row["currency"] else None
    return GridRunRow(**known, config=config, figures=row, means=means)


def _read_means(connection: DuckDBPyConnection, grid_id: str) -> dict[str, dict[str, MeanRow]]:
    rows = connection.execute(
        "SELECT metric.run_id, metric.measure, metric.mean, metric.comparability_key, "
        "metric.n_scored, metric.n_failed FROM newest_run_metrics AS metric "
        "JOIN runs AS run ON run.run_id = metric.run_id WHERE run.grid_id = ? "
        "ORDER BY metric.run_id, list_position("
        """from_json(run.config -> '$.measures', '["VARCHAR"]'), metric.measure)"""
        " NULLS LAST, metric.measure",
        [grid_id],
    ).fetchall()
    means: dict[str, dict[str, MeanRow]] = {}
    for run_id, measure, *rest in rows:
        means.setdefault(run_id, {})[measure] = MeanRow(*rest)
    return means
