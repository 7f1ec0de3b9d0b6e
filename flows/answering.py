"""What a grid says: its runs with their measures and costs, from the warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flows.printing import print_rows, say
from schemas.home import Home

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FIGURES = """
SELECT run.run_id, run.experiment, run.status,
    max((stage.figures ->> '$.n_bytes')::BIGINT)
        FILTER (WHERE stage.stage IN ('build_index', 'index_terms')) AS index_bytes,
    max(coalesce(stage.figures ->> '$.build_seconds',
            stage.figures ->> '$.seconds_when_made')::DOUBLE)
        FILTER (WHERE stage.stage IN ('build_index', 'index_terms')) AS build_seconds,
    arg_max(stage.figures ->> '$.latency_p50_ms', stage.position)
        FILTER (WHERE stage.figures ->> '$.latency_p50_ms' IS NOT NULL)::DOUBLE AS latency_p50_ms,
    arg_max(stage.figures ->> '$.latency_p95_ms', stage.position)
        FILTER (WHERE stage.figures ->> '$.latency_p95_ms' IS NOT NULL)::DOUBLE AS latency_p95_ms,
    coalesce(sum((stage.figures ->> '$.n_encoded')::BIGINT) FILTER (WHERE NOT stage.cached), 0)
        AS texts_embedded,
    list_sum([any_value(cost.tokens), sum((stage.figures ->> '$.tokens')::BIGINT)
        FILTER (WHERE NOT stage.cached)])::BIGINT AS tokens,  -- of LLMs, and of embeddings
    list_sum([any_value(cost.cost), sum((stage.figures ->> '$.cost')::DOUBLE)
        FILTER (WHERE NOT stage.cached)]) AS cost,
    coalesce(any_value(cost.currency), any_value(stage.figures ->> '$.currency')) AS currency
FROM runs AS run
LEFT JOIN stages AS stage ON stage.run_id = run.run_id
LEFT JOIN (
    SELECT run_id, sum(prompt_tokens + completion_tokens) AS tokens, sum(cost) AS cost,
        any_value(currency) AS currency
    FROM cost_by_run
    GROUP BY run_id
) AS cost ON cost.run_id = run.run_id
WHERE run.grid_id = ?
GROUP BY run.run_id, run.experiment, run.status
ORDER BY run.run_id
"""

COLUMNS = (
    "index_bytes",
    "build_seconds",
    "latency_p50_ms",
    "latency_p95_ms",
    "texts_embedded",
    "tokens",
    "cost",
    "currency",
    "run_id",
)


def answer_grid(home: Home, grid_id: str, *, primary_measure: str, format: str) -> None:
    """Print a grid's runs, the best on the primary measure first; runs in the spool are left out.

    Args:
        home: whose published warehouse is asked.
        grid_id: which grid.
        primary_measure: what the runs are ordered by.
        format: table, json or csv.

    Raises:
        StorageError: there is no published warehouse, or it cannot be read.
    """
    from warehouse.reading import open_published

    with open_published(home) as connection:
        rows, measures = _rows(connection, grid_id)
    rows.sort(key=lambda row: (row[primary_measure] is None, -(row[primary_measure] or 0.0)))
    others = [name for name in measures if name != primary_measure]
    print_rows(rows, ["experiment", "status", primary_measure, *others, *COLUMNS], format=format)
    if format == "table":
        say(f"ordered by {primary_measure}; all of it: rankhouse runs --grid {grid_id}")


def _rows(connection: DuckDBPyConnection, grid_id: str) -> tuple[list[dict[str, Any]], list[str]]:
    """A row a run with its means by measure, and the measures in the order of the first run."""
    relation = connection.execute(FIGURES, [grid_id])
    names = [column[0] for column in relation.description or ()]
    rows = [dict(zip(names, values, strict=True)) for values in relation.fetchall()]
    means = connection.execute(
        "SELECT metric.run_id, metric.measure, metric.mean FROM newest_run_metrics AS metric "
        "JOIN runs AS run ON run.run_id = metric.run_id WHERE run.grid_id = ? "
        "ORDER BY metric.run_id, list_position("
        """from_json(run.config -> '$.measures', '["VARCHAR"]'), metric.measure)""",
        [grid_id],
    ).fetchall()
    measures = list(dict.fromkeys(measure for _, measure, _ in means))
    by_run = {(run_id, measure): mean for run_id, measure, mean in means}
    for row in rows:
        row |= {measure: by_run.get((row["run_id"], measure)) for measure in measures}
    return rows, measures
