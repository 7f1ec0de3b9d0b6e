"""Score run files against a qrels file, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schemas.errors import UsageError
from schemas.measures import Measure
from tasks.graded import Floats, Mask, mean_of
from tasks.trec_bytes import STANDARD_INPUT, check_exists, show_id
from tasks.trec_files import read_qrels, read_run
from tasks.trec_qrels import prepare_qrels
from tasks.trec_scoring import RunScores, TrecOptions, score_run

if TYPE_CHECKING:
    from tasks.tie_reports import TieReport


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """One run's values; arrays are by the queries of the qrels, in bytewise order."""

    name: str
    values: Floats  # (n_measures, n_queries)
    is_missing: Mask
    is_counted: Mask  # the queries that are averaged
    n_ignored: int
    ties: TieReport | None
    n_pairs: int  # queries that it and the first run both count

    @property
    def means(self) -> list[float | None]:
        """One a measure: the sequential sum in bytewise order of query ids, divided."""
        return [mean_of(row[self.is_counted]) for row in self.values]


@dataclass(frozen=True, slots=True)
class ScoredFiles:
    """Every run against one qrels file."""

    qrels: str
    measures: list[Measure]
    query_ids: list[str]
    level: int
    highest_grade: int
    runs: list[ScoredRun]
    # of each run but the first: (n_measures,), Holm over all of them; None: no query in common
    p_values: list[Floats | None]


def score_files(
    qrels_source: str,
    run_sources: Sequence[str],
    names: Sequence[str],
    options: TrecOptions,
    *,
    is_complete: bool,
    reports_ties: bool,
) -> ScoredFiles:
    """Read and score files; measures are checked before anything is read.

    Raises:
        UsageError: a measure cannot be computed from files, or ``-`` is given twice.
        InputError: a file cannot be used; see ``read_run`` and ``score_run``.
    """
    measures = list(dict.fromkeys(Measure.parse(name) for name in names))
    for measure in measures:
        measure.check_files()
    if [qrels_source, *run_sources].count(STANDARD_INPUT) > 1:
        raise UsageError("- is given twice, but standard input can be read only once")
    for source in (qrels_source, *run_sources):
        check_exists(source)
    qrels = prepare_qrels(read_qrels(qrels_source), level=options.level)
    runs: list[ScoredRun] = []
    for source in run_sources:
        lines = read_run(source)
        scores = score_run(lines, qrels, measures, options)
        is_counted = _counted(scores, is_complete)
        ties = None
        if reports_ties:
            from tasks.trec_ties import report_file_ties

            ties = report_file_ties(lines, qrels, scores, measures, options, is_counted)
        both = is_counted & runs[0].is_counted if runs else is_counted
        runs.append(
            ScoredRun(
                name=source,
                values=scores.values,
                is_missing=scores.is_missing,
                is_counted=is_counted,
                n_ignored=scores.n_ignored,
                ties=ties,
                n_pairs=int(both.sum()),
            )
        )
    return ScoredFiles(
        qrels=qrels_source,
        measures=measures,
        query_ids=[show_id(query_id) for query_id in qrels.query_ids],
        level=options.level,
        highest_grade=int(qrels.gain.max()),
        runs=runs,
        p_values=_compare(runs),
    )


def _counted(scores: RunScores, is_complete: bool) -> Mask:
    return np.ones_like(scores.is_missing) if is_complete else ~scores.is_missing


def _compare(runs: list[ScoredRun]) -> list[Floats | None]:
    """P values of every run but the first against the first, over the queries that both count."""
    paired = [run for run in runs[1:] if run.n_pairs]
    if not paired:
        return [None for _ in runs[1:]]
    from warehouse.randomisation import holm, randomisation_p

    first = runs[0]
    p = [
        randomisation_p((run.values - first.values)[:, run.is_counted & first.is_counted])
        for run in paired
    ]
    adjusted = iter(np.split(holm(np.concatenate(p)), len(p)))
    return [next(adjusted) if run.n_pairs else None for run in runs[1:]]
