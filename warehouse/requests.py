"""Comparisons that nights have asked for: written beside the spool, made by whoever loads the run.

So a warehouse that is locked, or a command that is killed, costs no night its verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from schemas.home import Home
from schemas.requests import ComparisonRequest
from warehouse.baselines import GATES, choose, read_history
from warehouse.crashes import FORGET_AFTER
from warehouse.files import why_unwritten
from warehouse.parts import write_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from warehouse.comparisons import Comparison


def put_request(home: Home, request: ComparisonRequest) -> Path:
    """Ask for a comparison; it is made by the load that takes the run, or any later one.

    Raises:
        StorageError: the folder cannot be written.
        FailedError: its disk is full.
    """
    path = _path(home, request.run_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, request.model_dump(mode="json"))
    except OSError as error:
        raise why_unwritten(path.parent, error) from None
    return path


def drop_request(home: Home, run_id: str) -> None:
    """Take a request back: its run has no results."""
    _path(home, run_id).unlink(missing_ok=True)


def has_requests(home: Home) -> bool:
    """Whether any comparison is still to be made."""
    return any(home.requests.glob("*.json"))


def make_comparisons(connection: DuckDBPyConnection, home: Home) -> Iterator[Comparison]:
    """Make what was asked for and can be made, in the order of the runs, each in a transaction.

    A later night's baseline depends on the verdicts of those before it. Requests whose run has
    not landed wait; those whose run failed, was compared, or never came in a week are dropped.

    Raises:
        StorageError: a request cannot be read.
        duckdb.Error: the database's own trouble.
    """
    from warehouse.stored_comparisons import insert_comparisons

    for path in sorted(home.requests.glob("*.json")):
        request = _read(path)
        found = connection.execute(
            "SELECT status, logical_date FROM runs WHERE run_id = ?", [request.run_id]
        ).fetchone()
        if found is None:
            if time.time() - path.stat().st_mtime < FORGET_AFTER.total_seconds():
                continue
        elif found[0] != "failed" and not _is_compared(connection, request.run_id):
            comparisons = _compare(connection, request, found[1])
            insert_comparisons(connection, comparisons)
            yield from comparisons
        path.unlink(missing_ok=True)


def _compare(
    connection: DuckDBPyConnection, request: ComparisonRequest, night: date
) -> list[Comparison]:
    from warehouse.compare import compare_runs  # NumPy, which most loads do without

    history = read_history(
        connection,
        experiment=request.experiment,
        suite=request.suite,
        before=night,
        run_id=request.run_id,
    )
    rule = request.baseline
    baselines = choose(history, kind=rule.kind, n_nights=rule.n_nights, pinned=rule.run)
    return [
        compare_runs(connection, request.run_id, baseline, gates=request.gates)
        for baseline in baselines
        if request.run_id not in baseline.run_ids  # the pinned run's own night
    ]


def _is_compared(connection: DuckDBPyConnection, run_id: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM comparisons WHERE run_id = ? AND list_contains(?, baseline) LIMIT 1",
        [run_id, list(GATES)],
    ).fetchone()
    return row is not None


def _read(path: Path) -> ComparisonRequest:
    from schemas.errors import StorageError

    try:
        return ComparisonRequest.model_validate_json(path.read_bytes())
    except ValidationError:
        damaged = path.with_suffix(".damaged")
        with suppress(OSError):
            path.rename(damaged)
        raise StorageError(
            f"{damaged}: this request for a comparison cannot be read; compare the run by hand: "
            f"rankhouse compare {path.stem} BASELINE"
        ) from None


def _path(home: Home, run_id: str) -> Path:
    return home.requests / f"{run_id}.json"
