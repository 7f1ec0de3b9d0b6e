"""Named SQL: what a command shows is exactly what ``--show-sql`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """SQL with named places for values, in braces."""

    name: str
    columns: tuple[str, ...]
    sql: str

    def render(self, **values: object) -> str:
        """The SQL with literals in place of names, as it is run and shown."""
        return self.sql.format(**{name: literal(value) for name, value in values.items()})


HISTORY = NamedQuery(
    "history",
    (
        "experiment",
        "logical_date",
        "mean",
        "change",
        "is_comparable",
        "n_scored",
        "n_queries",
        "n_lost",
        "n_failed",
        "status",
        "run_id",
    ),
    """\
SELECT experiment, logical_date, mean, change, is_comparable, n_scored, n_queries, n_lost,
    n_failed, status, run_id
FROM metric_history
WHERE measure = {measure}
    AND ({experiment} IS NULL OR experiment = {experiment})
    AND ({since} IS NULL OR logical_date >= {since})
QUALIFY row_number() OVER (PARTITION BY experiment ORDER BY logical_date DESC) <= {limit}
ORDER BY experiment, logical_date""",
)

LEADERBOARD = NamedQuery(
    "leaderboard",
    (
        "comparable",
        "place",
        "experiment",
        "mean",
        "low",
        "high",
        "n_scored",
        "n_queries",
        "n_lost",
        "n_failed",
        "run_id",
    ),
    """\
SELECT chr(64 + dense_rank() OVER (ORDER BY comparability_key)::INTEGER) AS comparable, place,
    experiment, mean, low, high, n_scored, n_queries, n_lost, n_failed, run_id
FROM leaderboard
WHERE measure = {measure}
    AND logical_date = coalesce({night}, (SELECT max(logical_date) FROM latest_runs))
ORDER BY comparable, place, experiment""",
)

WORST = NamedQuery(
    "worst",
    ("query_id", "value", "baseline_value", "delta", "text", "tags"),
    """\
SELECT change.query_id, change.value, change.baseline_value, change.delta,
    query.text, array_to_string(query.tags, ', ') AS tags
FROM query_deltas AS change
JOIN runs AS run ON run.run_id = change.run_id
LEFT JOIN queries AS query
    ON query.benchmark_digest = run.benchmark_digest AND query.query_id = change.query_id
WHERE change.run_id = {run} AND change.baseline_run_id = {baseline}
    AND change.measure = {measure} AND change.delta < 0
ORDER BY change.delta, change.query_id
LIMIT {limit}""",
)

COMPARABLE = NamedQuery(
    "comparable",
    ("is_comparable", "n_both", "n_worse", "n_better", "mean_delta"),
    """\
SELECT any_value(ours.comparability_key = theirs.comparability_key) AS is_comparable,
    count(change.delta) AS n_both,
    count(*) FILTER (WHERE change.delta < 0) AS n_worse,
    count(*) FILTER (WHERE change.delta > 0) AS n_better,
    avg(change.delta) AS mean_delta
FROM newest_run_metrics AS ours
JOIN newest_run_metrics AS theirs ON theirs.measure = ours.measure
LEFT JOIN query_deltas AS change
    ON change.run_id = ours.run_id AND change.baseline_run_id = theirs.run_id
    AND change.measure = ours.measure
WHERE ours.run_id = {run} AND theirs.run_id = {baseline} AND ours.measure = {measure}""",
)

SIDE = NamedQuery(
    "side",
    ("config", "benchmark_digest", "contract_version"),
    """\
SELECT run.config, run.benchmark_digest, metric.contract_version
FROM runs AS run
LEFT JOIN newest_run_metrics AS metric
    ON metric.run_id = run.run_id AND metric.measure = {measure}
WHERE run.run_id = {run}""",
)

KNOWN_MEASURES = NamedQuery(
    "known measures",
    ("measure",),
    """\
SELECT DISTINCT measure FROM run_metrics
WHERE {run} IS NULL OR run_id = {run}
ORDER BY measure""",
)

FIRST_MEASURE = NamedQuery(
    "first measure",
    ("measure",),
    """\
SELECT config ->> '$.measures[0]' AS measure
FROM runs
WHERE status <> 'failed' AND ({run} IS NULL OR run_id = {run})
ORDER BY run_id DESC
LIMIT 1""",
)


def among(column: str, values: Sequence[str]) -> str:
    """The condition that a column holds one of some values, with the range that they lie in.

    By the range DuckDB leaves out what it need not read: of a year of nights, an IN alone reads
    all.
    """
    if not values:
        return "false"
    listed = ", ".join(literal(value) for value in values)
    low, high = literal(min(values)), literal(max(values))
    return f"{column} BETWEEN {low} AND {high} AND {column} IN ({listed})"


def literal(value: object) -> str:
    """One value as an SQL literal.

    Raises:
        TypeError: a value of another kind than text, number, boolean, date or None.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise TypeError(f"no SQL literal for {type(value).__name__}")
