"""The two files of an import, read and checked together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from schemas.errors import InputError
from schemas.measures import Measure
from tasks.trec_files import TrecLines, read_qrels, read_run
from tasks.trec_frames import (
    labels_of,
    queries_of,
    rankings_of,
    read_frame,
    refuse_infinite,
    refuse_merged,
)

FILES = "RUN_FILE QRELS"
"""The order of the files on the command line, for messages."""


@dataclass(frozen=True, slots=True)
class TrecInputs:
    """What both files hold."""

    run: TrecLines
    qrels: TrecLines
    queries: pl.DataFrame  # QUERIES of the qrels
    labels: pl.DataFrame  # LABELS
    rankings: pl.DataFrame  # RANKINGS of the queries of the qrels, cut where that was asked for
    n_ignored: int  # queries of the run that the qrels lack
    n_cut: int  # items below the depth that was asked for
    n_queries_cut: int  # queries that had such items

    @property
    def deepest(self) -> int:
        """How many items the longest ranking has."""
        return int(self.rankings.group_by("query_id").len()["len"].sort()[-1])

    @property
    def n_missing(self) -> int:
        """Queries of the qrels that the run lacks."""
        return self.queries.join(self.rankings, on="query_id", how="anti").height

    def count_irrelevant(self, level: int) -> int:
        """Queries of the qrels in which nothing has this grade."""
        relevant = self.labels.filter(pl.col("gain") >= level)
        return self.queries.join(relevant, on="query_id", how="anti").height

    def reach(self, measures: Sequence[Measure]) -> int:
        """The depth of an experiment with these measures: a short ranking has every cutoff."""
        return max(self.deepest, *(measure.cutoff or 0 for measure in measures))


def read_inputs(run_path: Path, qrels_path: Path, *, depth: int | None) -> TrecInputs:
    """Read both files.

    Args:
        run_path: the run.
        qrels_path: the judgements.
        depth: items a query that are kept; None: all.

    Raises:
        InputError: a file that cannot be read, an item twice for one query, an infinite score,
            ids that decoding makes one, or no query of the run is judged.
    """
    run = read_run(str(run_path), order=FILES)
    qrels = read_qrels(str(qrels_path), order=FILES)
    refuse_infinite(run)
    judged = read_frame(qrels).rename({"number": "gain"})
    found = read_frame(run).rename({"number": "retrieval_score"})
    refuse_merged((qrels, judged), (run, found))
    queries = queries_of(judged)
    is_known = found["query_id"].is_in(queries["query_id"].implode())
    if not is_known.any():
        raise InputError(
            f"none of its queries is in {qrels.source}; the order of the files is {FILES}",
            path=run.source,
        )
    whole = rankings_of(found.filter(is_known))
    is_kept = whole["rank"] <= (depth or whole.height)
    return TrecInputs(
        run=run,
        qrels=qrels,
        queries=queries,
        labels=labels_of(judged, found),
        rankings=whole.filter(is_kept),
        n_ignored=found.filter(~is_known)["query_id"].n_unique(),
        n_cut=whole.height - int(is_kept.sum()),
        n_queries_cut=whole.filter(~is_kept)["query_id"].n_unique(),
    )
