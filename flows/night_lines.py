"""A night in lines: one an experiment, with its verdict, by how much, and on which queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flows.night_reports import NightReport, Outcome
from warehouse.comparisons import Comparison, MeasureComparison

SHOWN = 3  # queries that a line names

COLUMNS = (
    "suite",
    "logical_date",
    "experiment",
    "status",
    "verdict",
    "reason",
    "baseline",
    "measure",
    "measure_verdict",
    "mean",
    "baseline_mean",
    "difference",
    "low",
    "high",
    "p_adjusted",
    "smallest_detectable",
    "n_pairs",
    "n_better",
    "n_worse",
    "run_id",
    "baseline_run_ids",
    "lost_query_ids",
)


def line_of(outcome: Outcome) -> str:
    """``handbook: worse: ndcg@10 0.7012 → 0.6400 (−0.0612, …), lost on q7, q2 and 5 more``."""
    parts = [f"{outcome.experiment}: {outcome.verdict or outcome.status}"]
    comparison = outcome.comparisons[0] if outcome.comparisons else None
    if comparison is not None and comparison.lead is not None:
        parts += _numbers(comparison)
    if outcome.reason:
        parts.append(outcome.reason)
    if outcome.verdict == "worse" and outcome.run_id is not None:
        parts.append(f"meant? rankhouse baseline accept {outcome.run_id} --reason …")
    return "; ".join(parts)


def _numbers(comparison: Comparison) -> Iterator[str]:
    item = comparison.measure(str(comparison.lead))
    if item.difference is None:
        return
    interval = "" if item.low is None else f", 95 % {_signed(item.low)} to {_signed(item.high)}"
    p = "" if item.p_adjusted is None else f", p {item.p_adjusted:.2g}"
    yield (
        f"{item.measure} {item.baseline_mean:.4f} → {item.mean:.4f} "
        f"({_signed(item.difference)}{interval}{p})"
    )
    yield _queries(comparison, item)


def _queries(comparison: Comparison, item: MeasureComparison) -> str:
    lost = comparison.lost_query_ids
    named = ", ".join(lost[:SHOWN]) + (f" and {len(lost) - SHOWN} more" if lost[SHOWN:] else "")
    on = f": {named}" if lost else ""
    return f"{item.n_worse} of {item.n_pairs} queries lost{on}, {item.n_better} gained"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.4f}".replace("-", "−")


def rows_of(report: NightReport) -> Iterator[dict[str, Any]]:
    """A row a gated measure and baseline; one without numbers where nothing was compared."""
    for outcome in report.outcomes:
        row = {"suite": report.suite, "logical_date": report.logical_date}
        row |= {name: getattr(outcome, name) for name in ("experiment", "status", "verdict")}
        row |= {"reason": outcome.reason or None, "run_id": outcome.run_id}
        if not outcome.comparisons:
            yield row
        for comparison in outcome.comparisons:
            about: dict[str, Any] = {"baseline": comparison.baseline.kind}
            about |= {"baseline_run_ids": " ".join(comparison.baseline.run_ids) or None}
            for item in comparison.gated:
                names = [name for name in COLUMNS if hasattr(item, name) and name not in row]
                values = {name: getattr(item, name) for name in names}
                is_lead = item.measure == comparison.lead
                lost = " ".join(comparison.lost_query_ids) if is_lead else None
                yield (
                    row
                    | values
                    | about
                    | {
                        "measure_verdict": item.verdict,
                        "lost_query_ids": lost or None,
                    }
                )
