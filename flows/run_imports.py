"""A TREC run and its qrels as a run of the warehouse."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from flows.provenance import git_state, machine, versions
from flows.trec_inputs import TrecInputs, read_inputs
from schemas.comparability import comparability_key
from schemas.experiment import Experiment, digest_of, parse_experiment
from schemas.frames import CHUNKS
from schemas.measures import Measure
from tasks.scoring import average_metrics, score_rankings
from tasks.trec_files import TrecLines
from tasks.truth import count_truth
from warehouse import rows


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """The frames of the run, and what a reader has to know about them."""

    frames: dict[str, pl.DataFrame]
    n_queries: int
    n_ignored: int  # queries of the run that the qrels lack
    n_missing: int  # queries of the qrels that the run lacks: they count as nothing retrieved
    n_irrelevant: int  # queries of the qrels in which nothing is relevant: they are not scored
    n_cut: int  # items below the depth that was asked for, left out
    n_queries_cut: int  # queries that had such items


def import_trec(
    run_path: Path,
    qrels_path: Path,
    *,
    run_id: str,
    name: str,
    measures: Sequence[Measure],
    logical_date: date,
    level: int = 1,
    depth: int | None = None,
) -> ImportedRun:
    """Read both files, score them, and make the frames of a run.

    Ids that an export percent-encoded are decoded. Items are ordered by score, then id as it is
    written, both descending, whatever their order in the file: as ``rankhouse trec`` does.

    Args:
        run_path: the run.
        qrels_path: the judgements.
        run_id: of the run that is made.
        name: of its experiment.
        measures: the first is the run's primary one.
        logical_date: the night it stands for.
        level: from this grade on a document is relevant.
        depth: items a query that are kept; None: all.

    Raises:
        InputError: a file that cannot be used; see ``read_inputs``.
        MeasureError: a measure that a depth or document labels cannot give.
    """
    begin, started_at = time.perf_counter(), datetime.now(UTC)
    if depth is not None:
        for measure in measures:
            measure.check_fits(depth=depth, label_method="document")
    files = read_inputs(run_path, qrels_path, depth=depth)
    reach = depth or files.reach(measures)
    config = _config(name, run_path, qrels_path, reach, measures, level)
    experiment = parse_experiment(config, where=str(run_path))
    benchmark = _sha256(files.qrels)
    frames = _frames(experiment, files, measures, run_id, benchmark)
    commit, is_dirty = git_state()
    frames["runs"] = rows.runs_frame(
        rows.RunRow(
            run_id=run_id,
            experiment=name,
            logical_date=logical_date,
            status="completed",
            started_at=started_at,
            ended_at=datetime.now(UTC),
            seconds=time.perf_counter() - begin,
            config=config,
            config_digest=digest_of(config),
            corpus_path=str(run_path.absolute()),
            corpus_digest=_sha256(files.run),
            benchmark_path=str(qrels_path.absolute()),
            benchmark_digest=benchmark,
            n_queries=files.queries.height,
            rankings_digest=_digest(files.rankings),
            labels_digest=_digest(files.labels),
            label_method="document",
            depth=files.deepest,
            rankhouse_version=version("rankhouse"),
            git_commit=commit,
            git_dirty=is_dirty,
            python_version=platform.python_version(),
            libraries=versions(),
            machine=machine(),
        )
    )
    return ImportedRun(
        frames,
        n_queries=files.queries.height,
        n_ignored=files.n_ignored,
        n_missing=files.n_missing,
        n_irrelevant=files.count_irrelevant(level),
        n_cut=files.n_cut,
        n_queries_cut=files.n_queries_cut,
    )


def _frames(
    experiment: Experiment,
    files: TrecInputs,
    measures: Sequence[Measure],
    run_id: str,
    benchmark: str,
) -> dict[str, pl.DataFrame]:
    level, depth = experiment.labelling.level, experiment.retrieval.depth
    queries, rankings, labels = files.queries, files.rankings, files.labels
    has_field = queries.select("query_id", has_field=pl.lit(value=True))
    truth = count_truth(labels, has_field, level)
    values = score_rankings(
        rankings,
        labels,
        truth,
        pl.DataFrame(schema=CHUNKS),
        queries,
        measures=measures,
        label_method="document",
        min_coverage=experiment.labelling.min_coverage,
        level=level,
        depth=depth,
    )
    keys = {
        str(measure): comparability_key(
            experiment, benchmark_digest=benchmark, measure=str(measure)
        )
        for measure in measures
    }
    return {
        "queries": rows.queries_frame(queries, benchmark_digest=benchmark),
        "rankings": rows.rankings_frame(rankings, rankings_digest=_digest(rankings)),
        "labels": rows.labels_frame(labels, labels_digest=_digest(labels)),
        "measures": rows.measures_frame([str(measure) for measure in measures]),
        "query_metrics": rows.query_metrics_frame(values, run_id=run_id),
        "run_metrics": rows.run_metrics_frame(
            average_metrics(values, truth), run_id=run_id, comparability_keys=keys
        ),
    }


def _config(
    name: str,
    run_path: Path,
    qrels_path: Path,
    depth: int,
    measures: Sequence[Measure],
    level: int,
) -> dict[str, Any]:
    """Only what is known: how the run was made is not."""
    return {
        "name": name,
        "corpus": {"path": str(run_path.absolute())},
        "benchmark": {"path": str(qrels_path.absolute()), "format": "trec"},
        "retrieval": {"depth": depth},
        "labelling": {"method": "document", "level": level},
        "measures": [str(measure) for measure in measures],
    }


def _sha256(lines: TrecLines) -> str:
    return hashlib.sha256(lines.data).hexdigest()


def _digest(frame: pl.DataFrame) -> str:
    """Of the content, whatever wrote it: the rows as JSON lines."""
    return hashlib.sha256(frame.write_ndjson().encode()).hexdigest()
