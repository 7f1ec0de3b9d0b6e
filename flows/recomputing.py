"""New or corrected measures for past runs, from the rankings and labels that are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from flows.past_runs import PastRun, read_past_run, score_again
from schemas.comparability import comparability_key
from schemas.counting import counted
from schemas.errors import RankhouseError
from schemas.home import Home
from schemas.measures import Measure, MeasureError
from tasks.evidence import FAMILIES
from tasks.formulas import FORMULAS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

RUNS_IN_A_PART = 20


@dataclass(slots=True)
class Recomputed:
    """What a recomputation did."""

    n_runs: int = 0  # runs that got values
    n_values: int = 0
    skipped: list[str] = field(default_factory=list)  # "<run_id>: reason"
    parts: list[str] = field(default_factory=list)  # what was left in the spool


def recompute(
    home: Home,
    measures: Sequence[Measure],
    *,
    since: date | None,
    report: Callable[[str], None] = lambda message: None,
) -> Recomputed:
    """Compute measures for past runs and leave them in the spool; nothing stored is touched.

    Args:
        home: whose runs.
        measures: which; none: those that a run has under an older contract than this code's.
        since: only runs of this night and later.
        report: told, for people, how far it is.

    Returns:
        Counts, and the runs that could not get them, with the reason.
    """
    from warehouse.reading import open_published
    from warehouse.spool import Spool
    from warehouse.texts import chunk_folders

    done = Recomputed()
    with open_published(home) as connection:
        folders = chunk_folders(home, connection)
        wanted = list(_wanted(connection, measures, since))
        for start in range(0, len(wanted), RUNS_IN_A_PART):
            batch = wanted[start : start + RUNS_IN_A_PART]
            frames = _compute(connection, batch, folders, done)
            if frames:
                done.parts.append(Spool(home).put_values(frames).parent.name)
            report(f"{min(start + RUNS_IN_A_PART, len(wanted))} of {counted(len(wanted), 'run')}")
    return done


def _wanted(
    connection: DuckDBPyConnection, measures: Sequence[Measure], since: date | None
) -> Iterator[tuple[str, list[Measure]]]:
    """Each run with the measures that it lacks under this code's contracts."""
    rows = connection.execute(
        "SELECT run.run_id, list(metric.measure), list(metric.contract_version) "
        "FROM runs AS run LEFT JOIN newest_run_metrics AS metric ON metric.run_id = run.run_id "
        "WHERE run.status <> 'failed' AND (?::DATE IS NULL OR run.logical_date >= ?::DATE) "
        "GROUP BY run.run_id ORDER BY run.run_id",
        [since, since],
    ).fetchall()
    for run_id, names, versions in rows:
        stored = dict(zip(names, versions, strict=True))
        asked = measures or _known_measures(names)
        lacking = [
            measure
            for measure in asked
            if (stored.get(str(measure)) or 0) < measure.contract.version
        ]
        if lacking:
            yield run_id, lacking


def _known_measures(names: Sequence[str | None]) -> list[Measure]:
    """The ranking measures among the names; another version's may not be known."""
    found = []
    for name in names:
        try:
            measure = Measure.parse(name or "")
        except MeasureError:
            continue
        if measure.family in FORMULAS or measure.family in FAMILIES:
            found.append(measure)
    return found


def _compute(
    connection: DuckDBPyConnection,
    batch: Sequence[tuple[str, list[Measure]]],
    folders: Sequence[Path],
    done: Recomputed,
) -> dict[str, pl.DataFrame]:
    from warehouse.rows import measures_frame, query_metrics_frame, run_metrics_frame

    values, means, names = [], [], set()
    known: dict[object, tuple[pl.DataFrame, pl.DataFrame]] = {}
    for run_id, measures in batch:
        try:
            run = read_past_run(connection, run_id)
            key = (run.result_key, tuple(measures))
            if key not in known:  # a night that changed nothing
                known[key] = score_again(connection, run, measures, folders)
        except RankhouseError as error:
            done.skipped.append(f"{run_id}: {error}")
            continue
        query_metrics, run_metrics = known[key]
        values.append(query_metrics_frame(query_metrics, run_id=run_id))
        means.append(
            run_metrics_frame(run_metrics, run_id=run_id, comparability_keys=_keys(run, measures))
        )
        names |= {str(measure) for measure in measures}
        done.n_runs += 1
        done.n_values += query_metrics.height
    if not values:
        return {}
    return {
        "query_metrics": pl.concat(values),
        "run_metrics": pl.concat(means),
        "measures": measures_frame(names),
    }


def _keys(run: PastRun, measures: Sequence[Measure]) -> dict[str, str]:
    return {
        str(measure): comparability_key(
            run.experiment, benchmark_digest=run.benchmark_digest, measure=str(measure)
        )
        for measure in measures
    }
