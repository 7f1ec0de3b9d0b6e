"""The tie report of a run file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from schemas.measures import Measure
from tasks.graded import Mask
from tasks.tie_reports import TieReport, report_bounds
from tasks.ties import NEAR, bound_values, tie_items
from tasks.trec_files import TrecLines
from tasks.trec_qrels import Qrels, place_queries
from tasks.trec_scoring import RunScores, TrecOptions, scores_of


def report_file_ties(
    run: TrecLines,
    qrels: Qrels,
    scores: RunScores,
    measures: Sequence[Measure],
    options: TrecOptions,
    is_counted: Mask,
) -> TieReport:
    """Report what the order of ties is worth in a run that was scored.

    Args:
        run: its lines.
        qrels: the judgements that it was scored against.
        scores: its values.
        measures: what was computed.
        options: how it was scored.
        is_counted: (n_queries,) which queries are averaged.
    """
    rows = pl.DataFrame(
        {"query": place_queries(run, qrels)[run.query], "score": scores_of(run, options)}
    )
    if options.judged_only:
        rows = rows[np.sort(scores.line_at)]
    rows = rows.filter(pl.col("query") >= 0).sort("query", -pl.col("score"))
    query, score = rows["query"].to_numpy(), rows["score"].to_numpy()
    tied, near = (
        bound_values(
            tie_items(scores.ranked.items, query, score, gap=gap),
            scores.ranked,
            qrels.pool,
            measures,
            level=options.level,
        )
        for gap in (0.0, NEAR)
    )
    return report_bounds(measures, tied, near, is_counted)
