"""Checks that a whole warehouse must pass: each finds the rows that break a rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warehouse.queries import literal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN = 10  # rows that one check names
RUNS_AT_ONCE = 100  # bounds the memory of checks over the values of all runs
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Broken:
    """A row that breaks a rule."""

    rule: str
    row: str


@dataclass(frozen=True, slots=True)
class Check:
    """A rule and the SQL that finds what breaks it; ``{runs}`` limits it to some run ids."""

    rule: str
    sql: str


def find_broken(connection: DuckDBPyConnection) -> Iterator[Broken]:
    """Run every check; nothing comes out of a sound warehouse."""
    for check in WHOLE:
        yield from _run(connection, check, check.sql)
    for low, high in _ranges(connection):
        runs = f"BETWEEN {literal(low)} AND {literal(high)}"
        for check in BY_RUN:
            yield from _run(connection, check, check.sql.format(runs=runs))


def _run(connection: DuckDBPyConnection, check: Check, sql: str) -> Iterator[Broken]:
    result = connection.execute(f"SELECT * FROM ({sql}) LIMIT {SHOWN}")  # noqa: S608
    names = [str(column[0]) for column in result.description or []]
    for row in result.fetchall():
        shown = ", ".join(f"{name} {value}" for name, value in zip(names, row, strict=True))
        yield Broken(check.rule, shown)


def _ranges(connection: DuckDBPyConnection) -> list[tuple[str, str]]:
    """First and last run id of each batch, of all that any table names."""
    ids = [
        run_id
        for (run_id,) in connection.execute(
            "SELECT run_id FROM runs UNION SELECT DISTINCT run_id FROM query_metrics "
            "UNION SELECT run_id FROM run_metrics ORDER BY run_id"
        ).fetchall()
    ]
    batches = [ids[i : i + RUNS_AT_ONCE] for i in range(0, len(ids), RUNS_AT_ONCE)]
    return [(batch[0], batch[-1]) for batch in batches]


def _once(table: str, key: str, where: str = "true") -> str:
    return (
        f"SELECT {key}, count(*) AS n_rows FROM {table} WHERE {where} "  # noqa: S608
        f"GROUP BY ALL HAVING count(*) > 1"
    )


def _known(table: str, columns: str, target: str, where: str = "true") -> str:
    return (
        f"SELECT DISTINCT {columns} FROM {table} WHERE {where} "  # noqa: S608
        f"EXCEPT SELECT {columns} FROM {target}"
    )


WHOLE = (
    Check("a run is stored once", _once("runs", "run_id")),
    Check("an event is stored once", _once("events", "event_id")),
    Check("a comparison is stored once", _once("comparisons", "comparison_id, measure, tag")),
    Check("a decision on a baseline is stored once", _once("baselines", "baseline_id")),
    Check("a contract is stored once", _once("measures", "measure, contract_version")),
    Check("a query is stored once", _once("queries", "benchmark_digest, query_id")),
    Check("a rank is stored once", _once("rankings", "rankings_digest, query_id, rank")),
    Check("an item is ranked once", _once("rankings", "rankings_digest, query_id, item_id")),
    Check("a label is stored once", _once("labels", "labels_digest, query_id, kind, item_id")),
    Check(
        "attempts count from 1 in the order of run ids",
        "SELECT run_id, attempt FROM runs QUALIFY attempt <> row_number() OVER "
        "(PARTITION BY experiment, logical_date ORDER BY run_id)",
    ),
    Check(
        "a run that did not complete says why",
        "SELECT run_id, status FROM runs WHERE (status = 'completed') <> (status_reason IS NULL)",
    ),
    *(
        Check(
            f"the {name} of a run are stored",
            f"SELECT run_id, {column} FROM runs WHERE status <> 'failed' "  # noqa: S608
            f"AND {column} NOT IN (SELECT {column} FROM {name})",
        )
        for name, column in (("queries", "benchmark_digest"), ("labels", "labels_digest"))
    ),
    *(
        Check(f"{table} are about runs that are stored", _known(table, "run_id", "runs"))
        for table in ("comparisons", "baselines")
    ),
    Check(
        "a comparison's baseline is stored",
        "SELECT DISTINCT run_id, baseline FROM "
        "(SELECT run_id, unnest(baseline_run_ids) AS baseline FROM comparisons) "
        "WHERE baseline NOT IN (SELECT run_id FROM runs)",
    ),
    Check(
        "ranks count from 1",
        "SELECT rankings_digest, query_id, max(rank) AS last, count(*) AS n_ranks FROM rankings "
        "GROUP BY ALL HAVING max(rank) <> count(*) OR min(rank) <> 1",
    ),
    Check(
        "a later rank never has a higher score",
        "SELECT rankings_digest, query_id, rank FROM rankings QUALIFY retrieval_score > "
        "lag(retrieval_score) OVER (PARTITION BY rankings_digest, query_id ORDER BY rank)",
    ),
)

BY_RUN = (
    *(
        Check(
            f"{table} belongs to a run",
            _known(table, "run_id", "runs", "run_id {runs}"),
        )
        for table in ("query_metrics", "run_metrics", "stages", "summary_scores", "llm_calls")
    ),
    Check(
        "a value is stored once",
        _once("query_metrics", "run_id, query_id, measure, contract_version", "run_id {runs}"),
    ),
    Check(
        "a mean is stored once",
        _once("run_metrics", "run_id, measure, contract_version", "run_id {runs}"),
    ),
    Check(
        "a value is of a query of its benchmark",
        "SELECT DISTINCT value.run_id, value.query_id FROM query_metrics AS value "
        "JOIN runs AS run ON run.run_id = value.run_id "
        "LEFT JOIN queries AS query ON query.benchmark_digest = run.benchmark_digest "
        "AND query.query_id = value.query_id "
        "WHERE value.run_id {runs} AND query.query_id IS NULL",
    ),
    Check(
        "a value is finite, and NULL exactly with a reason",
        "SELECT run_id, query_id, measure, value, null_reason FROM query_metrics "
        "WHERE run_id {runs} AND ((value IS NULL) = (null_reason IS NULL) "
        "OR NOT isfinite(value))",
    ),
    Check(
        "a value lies within its contract",
        "SELECT value.run_id, value.query_id, value.measure, value.value "
        "FROM query_metrics AS value LEFT JOIN measures AS contract "
        "ON contract.measure = value.measure "
        "AND contract.contract_version = value.contract_version "
        "WHERE value.run_id {runs} AND (contract.measure IS NULL "
        "OR value.value < contract.lowest - 1e-12 OR value.value > contract.highest + 1e-12)",
    ),
    Check(
        "a mean is that of its values, and so are its counts and bounds",
        f"""
        WITH again AS (
            SELECT value.run_id, value.measure, value.contract_version,
                avg(value.value) AS mean, count(value.value) AS n_scored, count(*) AS n_queries,
                count(*) FILTER (WHERE value.null_reason = 'failed') AS n_failed,
                coalesce(sum(value.value), 0) AS total,
                any_value(contract.lowest) AS lowest, any_value(contract.highest) AS highest
            FROM query_metrics AS value LEFT JOIN measures AS contract
                ON contract.measure = value.measure
                AND contract.contract_version = value.contract_version
            WHERE value.run_id {{runs}}
            GROUP BY ALL
        ), bounds AS (
            SELECT *, (total + n_failed * lowest) / nullif(n_scored + n_failed, 0) AS low,
                (total + n_failed * highest) / nullif(n_scored + n_failed, 0) AS high
            FROM again
        )
        SELECT coalesce(stored.run_id, bounds.run_id) AS run_id,
            coalesce(stored.measure, bounds.measure) AS measure, stored.mean AS stored_mean,
            bounds.mean AS mean, stored.n_scored AS stored_n_scored, bounds.n_scored AS n_scored
        FROM (SELECT * FROM run_metrics WHERE run_id {{runs}}) AS stored
        FULL JOIN bounds ON bounds.run_id = stored.run_id AND bounds.measure = stored.measure
            AND bounds.contract_version = stored.contract_version
        WHERE stored.n_scored IS DISTINCT FROM bounds.n_scored
            OR stored.n_queries IS DISTINCT FROM bounds.n_queries
            OR stored.n_failed IS DISTINCT FROM bounds.n_failed
            OR (stored.mean IS NULL) <> (bounds.mean IS NULL)
            OR abs(stored.mean - bounds.mean) > {TOLERANCE} * greatest(1, abs(bounds.mean))
            OR abs(stored.low - bounds.low) > {TOLERANCE} * greatest(1, abs(bounds.low))
            OR abs(stored.high - bounds.high) > {TOLERANCE} * greatest(1, abs(bounds.high))
        """,  # noqa: S608
    ),
)
