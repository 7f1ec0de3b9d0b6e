"""How many queries depend on the order of ties, and how far each mean could move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.contracts import LabelMethod
from schemas.measures import Measure
from tasks import evidence
from tasks.graded import Floats, Mask, mean_of
from tasks.run_inputs import RunInputs, index_run
from tasks.text_ties import bound_texts
from tasks.ties import NEAR, bound_values, tie_items


@dataclass(frozen=True, slots=True)
class TieReport:
    """What ties could change in one run; only queries that are averaged count."""

    n_queries: int
    n_tied: int  # queries with a value that depends on the order of equal scores
    n_near: int  # with one that depends on the order of scores less than NEAR apart
    bounds: dict[str, tuple[float | None, float | None]]
    """For each measure the smallest and largest mean over the orders of equal scores; None: a
    measure over texts with too many orders to try them all."""

    def figures(self) -> dict[str, object]:
        """The report as JSON."""
        share = max(1, self.n_queries)
        return {
            "n_queries": self.n_queries,
            "share_tied": self.n_tied / share,
            "share_near": self.n_near / share,
            "means": {
                name: {"lowest": low, "highest": high} for name, (low, high) in self.bounds.items()
            },
        }


def report_bounds(
    measures: Sequence[Measure],
    tied: tuple[Floats, Floats],
    near: tuple[Floats, Floats],
    is_counted: Mask,
) -> TieReport:
    """Sum up bounds of (n_measures, n_queries); NaN: unknown, which counts as dependent."""
    low, high = tied[0][:, is_counted], tied[1][:, is_counted]
    near_low, near_high = near[0][:, is_counted], near[1][:, is_counted]
    bounds: dict[str, tuple[float | None, float | None]] = {}
    for measure, lowest, highest in zip(measures, low, high, strict=True):
        is_known = not np.isnan(lowest).any()
        bounds[str(measure)] = (mean_of(lowest), mean_of(highest)) if is_known else (None, None)
    return TieReport(
        n_queries=int(is_counted.sum()),
        n_tied=int((low != high).any(axis=0).sum()),
        n_near=int((near_low != near_high).any(axis=0).sum()),
        bounds=bounds,
    )


def report_ties(
    rankings: pl.DataFrame,
    labels: pl.DataFrame,
    truth: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    measures: Sequence[Measure],
    label_method: LabelMethod,
    min_coverage: float,
    level: int,
    depth: int,
) -> TieReport:
    """Report the ties of a run; the arguments are those of ``score_rankings``."""
    inputs = index_run(
        rankings,
        labels,
        truth,
        chunks,
        queries,
        min_coverage=min_coverage if label_method == "span" else None,
        level=level,
        depth=depth,
    )
    is_scored = inputs.truth["null_reason"].is_null().to_numpy()
    tied = _bound(inputs, measures, gap=0.0)
    return report_bounds(measures, tied, _bound(inputs, measures, gap=NEAR), is_scored)


def _bound(inputs: RunInputs, measures: Sequence[Measure], *, gap: float) -> tuple[Floats, Floats]:
    """Smallest and largest value of every measure for every query."""
    low, high = np.empty((2, len(measures), inputs.n_queries))
    over_texts = np.array([m.family in evidence.FAMILIES for m in measures], dtype=np.bool_)
    ranked, pool = inputs.match()
    tied = tie_items(
        ranked.items,
        inputs.ranked["query"].to_numpy(),
        inputs.ranked["retrieval_score"].to_numpy(),
        gap=gap,
    )
    over_items = [m for m in measures if m.family not in evidence.FAMILIES]
    low[~over_texts], high[~over_texts] = bound_values(
        tied, ranked, pool, over_items, level=inputs.level
    )
    if over_texts.any():
        over_text = [m for m in measures if m.family in evidence.FAMILIES]
        low[over_texts], high[over_texts] = bound_texts(inputs, over_text, gap=gap)
    return low, high
