"""Which runs are kept, what they need, and how old attempts leave the tables.

A run is an old attempt when a later one of the same night, with the same configuration, came out at
least as well. It goes with all its rows in one transaction, and an event ``pruned`` says so. It
stays whatever its age when somebody accepted, tagged or noted it, when it is pinned, when a run
that is kept was compared with it, or when its gates said what the later one's did not say again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PRUNED = "pruned"
_LASTING = (PRUNED, "note", "tag", "untag")
"""Kinds of events that stay: what people wrote, and what says that something was removed."""
_TOLD = ("notified", "notification_failed")

_SHARED = {"rankings": "rankings_digest", "labels": "labels_digest", "queries": "benchmark_digest"}
"""Tables stored once per digest, and the column of runs that refers to them."""

_SOURCES = (
    "load_corpus",
    "load_benchmark",
    "chunk_corpus",
    "write_responses",
    "build_question_bank",
    "embed_canaries",  # cannot be made again once the model has changed
)
"""Stages whose output explains a run or lets it be computed again; the rest follows from it."""
_SOURCE_INPUTS = ("documents", "queries", "chunks", "contexts", "responses", "bank")

_SUPERSEDED = """
SELECT old.run_id, old.experiment, old.logical_date, old.attempt, old.status,
    max(new.run_id) AS superseded_by
FROM runs AS old JOIN runs AS new
    ON new.experiment = old.experiment AND new.logical_date = old.logical_date
    AND new.suite IS NOT DISTINCT FROM old.suite
    AND new.grid_id IS NOT DISTINCT FROM old.grid_id
    AND new.run_id > old.run_id AND new.status <> 'failed'
WHERE old.ended_at < ?
    AND (?::VARCHAR IS NULL OR old.suite = ?::VARCHAR)
    AND (old.status = 'failed' OR (
        new.config_digest = old.config_digest
        AND (new.status = 'completed' OR old.status = 'degraded')))
GROUP BY ALL ORDER BY old.run_id
"""


@dataclass(frozen=True, slots=True)
class OldAttempt:
    """A run that a later one of its night took the place of."""

    run_id: str
    experiment: str
    logical_date: date
    attempt: int
    status: str
    superseded_by: str


@dataclass(frozen=True, slots=True)
class Needed:
    """What kept runs need of the artifact store."""

    stage_keys: frozenset[str]  # of runs that are kept whole: their stages stay reusable
    digests: frozenset[str]  # of artifacts that no age or size removes


def find_old_attempts(
    connection: DuckDBPyConnection,
    *,
    before: datetime,
    suite: str | None = None,
    pinned: Collection[str] = (),
) -> list[OldAttempt]:
    """Attempts that ended before a moment and may go, in order of their ids.

    Args:
        connection: a warehouse, or its copy.
        before: only those that ended earlier.
        suite: only those of this suite; None: all.
        pinned: runs to keep, beside those that people marked.
    """
    rows = connection.execute(_SUPERSEDED, [before, suite, suite]).fetchall()
    found = {row[0]: OldAttempt(*row) for row in rows}
    for run_id in _marked(connection) | _deciding(connection, found) | set(pinned):
        found.pop(run_id, None)
    compared = connection.execute(
        "SELECT run_id, list_distinct(flatten(list(baseline_run_ids))) FROM comparisons "
        "GROUP BY run_id"
    ).fetchall()
    while referred := {
        baseline
        for run_id, baselines in compared
        if run_id not in found
        for baseline in baselines
        if baseline in found
    }:
        for run_id in referred:
            del found[run_id]
    return list(found.values())


def remove_attempts(connection: DuckDBPyConnection, attempts: Sequence[OldAttempt]) -> int:
    """Delete runs with all their rows, in one transaction; the number of rows that went.

    Rows that are stored once per digest stay while a run with results refers to them. The attempts
    of each night are counted from 1 again.

    Raises:
        duckdb.Error: nothing was deleted.
    """
    if not attempts:
        return 0
    connection.execute("BEGIN")
    try:
        n_rows = _remove(connection, attempts)
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise
    return n_rows


def count_old_events(connection: DuckDBPyConnection, *, before: datetime) -> dict[str, int]:
    """How many events of each kind ``remove_old_events`` would delete."""
    rows = connection.execute(
        f"SELECT kind, count(*) FROM events WHERE {_OLD_EVENT} GROUP BY kind ORDER BY kind",  # noqa: S608
        [before],
    ).fetchall()
    return dict(rows)


def remove_old_events(connection: DuckDBPyConnection, *, before: datetime) -> None:
    """Delete old events about no run that is kept, and old notifications but the newest."""
    connection.execute(f"DELETE FROM events WHERE {_OLD_EVENT}", [before])  # noqa: S608


def _quoted(names: Collection[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


_OLD_EVENT = f"""
occurred_at < ? AND kind NOT IN ({_quoted(_LASTING)})
AND (run_id IS NULL OR kind IN ({_quoted(_TOLD)}) OR run_id NOT IN (SELECT run_id FROM runs))
AND event_id NOT IN (
    SELECT event_id FROM events WHERE kind = 'notified'
    QUALIFY row_number() OVER (
        PARTITION BY details ->> '$.suite', details ->> '$.experiment'
        ORDER BY occurred_at DESC, event_id DESC) = 1)
"""  # noqa: S608


def find_needed(
    connection: DuckDBPyConnection,
    *,
    nights: int,
    without: Collection[str] = (),
    pinned: Collection[str] = (),
) -> Needed:
    """What the artifact store must keep for the runs that are kept.

    Of every run: documents, queries, chunks, responses and question banks, which explain it and let
    it be computed again. Of the last nights, of baselines and of what people marked: everything.

    Args:
        connection: a warehouse, or its copy.
        nights: how many of the last good runs of each experiment are kept whole.
        without: runs that are about to be removed.
        pinned: runs to keep whole, beside those that people marked.
    """
    whole = _marked(connection) | set(pinned)
    newest = connection.execute(
        "SELECT run_id FROM latest_runs QUALIFY row_number() OVER "
        "(PARTITION BY experiment ORDER BY logical_date DESC) <= ?",
        [nights],
    ).fetchall()
    whole |= {run_id for (run_id,) in newest}
    whole |= {
        baseline
        for run_id, baselines in connection.execute(
            "SELECT run_id, baseline_run_ids FROM comparisons"
        ).fetchall()
        if run_id in whole
        for baseline in baselines
    }
    stage_keys, digests = set(), set()
    for run_id, stage, key, output, inputs in connection.execute(
        "SELECT run_id, stage, stage_key, output_digest, inputs FROM stages"
    ).fetchall():
        if run_id in without:
            continue
        is_whole = run_id in whole
        if is_whole:
            stage_keys.add(key)
        if is_whole or stage in _SOURCES:
            digests.add(output)
        for name, digest in json.loads(inputs or "{}").items():
            if is_whole or name in _SOURCE_INPUTS:
                digests.add(digest)
    return Needed(frozenset(stage_keys - {None}), frozenset(digests - {None}))


def _marked(connection: DuckDBPyConnection) -> set[str]:
    """Runs that somebody accepted as a baseline, tagged, or wrote a note about."""
    rows = connection.execute(
        "SELECT run_id FROM baselines UNION SELECT run_id FROM run_tags "
        "UNION SELECT run_id FROM events WHERE kind = 'note' AND run_id IS NOT NULL"
    ).fetchall()
    return {run_id for (run_id,) in rows}


def _deciding(connection: DuckDBPyConnection, found: Mapping[str, OldAttempt]) -> set[str]:
    """Attempts whose gates said what those of the run in their place did not say again.

    Whether a loss is open follows from the verdicts of all nights: one that was worse stays.
    """
    said: dict[str, set[tuple[str, str, str]]] = {}
    for run_id, *gate in connection.execute(
        "SELECT run_id, baseline, measure, verdict FROM comparisons WHERE is_gated "
        "AND tag IS NULL AND verdict IN ('worse', 'same', 'better')"
    ).fetchall():
        said.setdefault(run_id, set()).add((gate[0], gate[1], gate[2]))
    nothing: set[tuple[str, str, str]] = set()
    return {
        run_id
        for run_id, attempt in found.items()
        if not said.get(run_id, nothing) <= said.get(attempt.superseded_by, nothing)
    }


def _remove(connection: DuckDBPyConnection, attempts: Sequence[OldAttempt]) -> int:
    run_ids = [attempt.run_id for attempt in attempts]
    digests = {
        column: _digests(connection, column, run_ids) for column in sorted(set(_SHARED.values()))
    }
    n_rows = sum(
        _delete(connection, table, "run_id", run_ids) for table in _tables_of_runs(connection)
    )
    for table, column in _SHARED.items():
        kept = set(_digests(connection, column, None))
        n_rows += _delete(connection, table, column, sorted(set(digests[column]) - kept))
    _count_attempts_anew(connection)
    connection.executemany(
        "INSERT INTO events (event_id, run_id, kind, occurred_at, message, details) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        [_event(attempt) for attempt in attempts],
    )
    return n_rows


def _tables_of_runs(connection: DuckDBPyConnection) -> list[str]:
    """Every table with a row's run in it, of this version or a later one; runs last."""
    rows = connection.execute(
        "SELECT table_name FROM duckdb_columns() WHERE column_name = 'run_id' AND table_name IN "
        "(SELECT table_name FROM duckdb_tables()) AND table_name <> 'baselines' "
        "ORDER BY table_name = 'runs', table_name"
    ).fetchall()
    return [name for (name,) in rows]


def _digests(
    connection: DuckDBPyConnection, column: str, run_ids: Sequence[str] | None
) -> list[str]:
    """Digests of some runs; None: of all that have results (a failed one stores no such rows)."""
    condition = "status <> 'failed'" if run_ids is None else "run_id IN (SELECT unnest(?))"
    rows = connection.execute(
        f"SELECT DISTINCT {column} FROM runs WHERE {column} IS NOT NULL AND {condition}",  # noqa: S608
        [] if run_ids is None else [list(run_ids)],
    ).fetchall()
    return [digest for (digest,) in rows]


def _delete(connection: DuckDBPyConnection, table: str, column: str, values: Sequence[str]) -> int:
    if not values:
        return 0
    row = connection.execute(
        f"DELETE FROM {table} WHERE {column} IN (SELECT unnest(?))",  # noqa: S608 - names of ours
        [list(values)],
    ).fetchone()
    return 0 if row is None else int(row[0])


def _count_attempts_anew(connection: DuckDBPyConnection) -> None:
    connection.execute(
        "UPDATE runs SET attempt = counted.attempt FROM ("
        "SELECT run_id, row_number() OVER "
        "(PARTITION BY experiment, logical_date ORDER BY run_id) AS attempt FROM runs"
        ") AS counted WHERE counted.run_id = runs.run_id AND counted.attempt <> runs.attempt"
    )


def _event(attempt: OldAttempt) -> list[object]:
    message = (
        f"attempt {attempt.attempt} of {attempt.experiment} for {attempt.logical_date} was removed "
        f"with its rows: run {attempt.superseded_by} counts for that night"
    )
    details = {
        "experiment": attempt.experiment,
        "logical_date": attempt.logical_date.isoformat(),
        "status": attempt.status,
        "superseded_by": attempt.superseded_by,
    }
    return [
        f"{PRUNED}/{attempt.run_id}",
        attempt.run_id,
        PRUNED,
        datetime.now(UTC),
        message,
        json.dumps(details),
    ]


def _roll_back(connection: DuckDBPyConnection) -> None:
    import contextlib

    import duckdb

    with contextlib.suppress(duckdb.Error):  # a failed COMMIT has rolled back by itself
        connection.execute("ROLLBACK")
