"""A query that nobody answered has no value, and its reason is ours."""

from __future__ import annotations

import polars as pl

from schemas.frames import FAILED_QUERIES, QUERY_METRICS, TRUTH
from tasks.scoring import average_metrics, mark_failed


def test_failed_values_leave_the_mean_and_bound_it_and_the_benchmarks_reasons_stay() -> None:
    values = pl.DataFrame(
        [
            ("a", "hit@1", 1, 1.0, None),
            ("b", "hit@1", 1, 0.0, None),  # nobody answered: no 0
            ("c", "hit@1", 1, 1.0, None),
            ("d", "hit@1", 1, None, "no_judged"),  # an answer would have changed nothing
        ],
        schema=QUERY_METRICS,
        orient="row",
    )
    failed = pl.DataFrame([("b", "x"), ("d", "x")], schema=FAILED_QUERIES, orient="row")
    marked = mark_failed(values, failed)
    assert marked["value"].to_list() == [1.0, None, 1.0, None]
    assert marked["null_reason"].to_list() == [None, "failed", None, "no_judged"]
    truth = pl.DataFrame([(name, None, 1, 0) for name in "abcd"], schema=TRUTH, orient="row")
    (row,) = average_metrics(marked, truth).to_dicts()
    # two of two scored; with the failed one at 0 or 1: two or three of three
    assert (row["mean"], row["n_scored"], row["n_failed"]) == (1.0, 2, 1)
    assert (row["low"], row["high"]) == (2 / 3, 1.0)
