"""Comparisons and accepted baselines as the frames of a part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import polars as pl

from warehouse.comparisons import Comparison, MeasureComparison
from warehouse.row_values import plain_value
from warehouse.spool import new_run_id

TIME = pl.Datetime("us", "UTC")
_COMPARISONS: dict[str, Any] = {
    "comparison_id": pl.String,
    "run_id": pl.String,
    "baseline": pl.String,
    "baseline_run_ids": pl.List(pl.String),
    "measure": pl.String,
    "contract_version": pl.Int64,
    "tag": pl.String,
    "is_gated": pl.Boolean,
    "verdict": pl.String,
    "reason": pl.String,
    "n_pairs": pl.Int64,
    "n_better": pl.Int64,
    "n_worse": pl.Int64,
    "n_unchanged": pl.Int64,
    "mean": pl.Float64,
    "baseline_mean": pl.Float64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p_value": pl.Float64,
    "p_adjusted": pl.Float64,
    "effect_size": pl.Float64,
    "smallest_detectable": pl.Float64,
    "delta": pl.Float64,
    "alpha": pl.Float64,
    "seed": pl.Int64,
    "compared_at": TIME,
    "details": pl.String,
}
_BASELINES: dict[str, Any] = {
    "baseline_id": pl.String,
    "experiment": pl.String,
    "suite": pl.String,
    "run_id": pl.String,
    "accepted_at": TIME,
    "author": pl.String,
    "reason": pl.String,
}
COMPARISONS = pl.Schema(_COMPARISONS)
BASELINES = pl.Schema(_BASELINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRow:
    """Somebody's decision that later nights are compared with a run."""

    experiment: str
    run_id: str
    author: str
    reason: str
    suite: str | None = None  # None: every suite
    accepted_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    baseline_id: str = field(default_factory=new_run_id)


def comparisons_frame(
    comparison: Comparison, *, details: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """The table comparisons: a row a measure, and one a measure and tag.

    Args:
        comparison: it must hold at least one measure, or there is nothing to write: 0 rows.
        details: more for the column of that name of every row, such as what differs.
    """
    rows = [
        _row(comparison, item, dict(details or {}) | _details(comparison, item, position))
        for position, item in enumerate((*comparison.measures, *comparison.slices))
    ]
    return pl.DataFrame(rows, schema=COMPARISONS)


def baselines_frame(rows: Iterable[BaselineRow]) -> pl.DataFrame:
    """The table baselines."""
    return pl.DataFrame(
        [{name: plain_value(getattr(row, name)) for name in BASELINES} for row in rows],
        schema=BASELINES,
    )


def _row(
    comparison: Comparison, item: MeasureComparison, details: dict[str, Any]
) -> dict[str, Any]:
    values = {name.name: getattr(item, name.name) for name in dataclasses.fields(item)}
    about = {
        "comparison_id": comparison.comparison_id,
        "run_id": comparison.run_id,
        "baseline": comparison.baseline.kind,
        # a run that cannot be compared on a measure is no part of its baseline
        "baseline_run_ids": list(item.baseline_run_ids or comparison.baseline.run_ids),
        "seed": comparison.seed,
        "compared_at": plain_value(comparison.compared_at),
        "details": plain_value(details),
    }
    return {name: (values | about)[name] for name in COMPARISONS}


def _details(comparison: Comparison, item: MeasureComparison, position: int) -> dict[str, Any]:
    """What has no column: the verdict of the whole, and, of the leading measure, who lost."""
    details: dict[str, Any] = {
        "comparison": {
            "verdict": comparison.verdict,
            "reason": comparison.reason,
            "baseline_run_ids": comparison.baseline.run_ids,
            "lead": comparison.lead,
        },
        "position": position,
        "n_failed": item.n_failed,
        "coverage": item.coverage,
        "loss_bound": item.loss_bound,
        "n_resamples": comparison.n_resamples,
    }
    if item.measure == comparison.lead and item.tag is None:
        details["lost_most"] = [dataclasses.asdict(loss) for loss in comparison.losers]
        details["lost_query_ids"] = comparison.lost_query_ids
        details["flips"] = [dataclasses.asdict(flip) for flip in comparison.flips]
    return details
