"""Named SQL: what a command shows is exactly what ``--show-sql`` prints."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

LATEST_RUNS = """\
SELECT run.run_id, run.experiment, run.logical_date, run.attempt, run.status, run.started_at,
    run.seconds,
    (
        SELECT string_agg(metric.measure || ' ' || coalesce(printf('%.4f', metric.mean), '–'),
            '  ' ORDER BY list_position(run.names, metric.measure))
        FROM newest_run_metrics AS metric
        WHERE metric.run_id = run.run_id
            AND list_position(run.names, metric.measure) <= {n_measures}
    ) AS measures
FROM (
    SELECT run_id, experiment, logical_date, attempt, status, started_at, seconds,
        from_json(config -> '$.measures', '["VARCHAR"]') AS names
    FROM runs
    UNION ALL
    SELECT run_id, details ->> '$.experiment', NULL, NULL, 'crashed', occurred_at, NULL, NULL
    FROM events
    WHERE kind = 'crashed' AND run_id NOT IN (SELECT run_id FROM runs)
) AS run
WHERE {experiment} IS NULL OR run.experiment = {experiment}
ORDER BY run.run_id DESC
LIMIT {limit}"""


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """SQL with named places for values."""

    name: str
    sql: str

    def render(self, **values: object) -> str:
        """The SQL with literals in place of names, as it is run and shown."""
        return self.sql.format(**{name: literal(value) for name, value in values.items()})


RUNS = NamedQuery("runs", LATEST_RUNS)


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
