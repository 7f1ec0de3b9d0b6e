"""A night in lines: one an experiment, with its verdict, by how much, and on which queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flows.night_reports import NightReport, Outcome
from warehouse.comparisons import FIRST_NIGHT, Comparison

SHOWN = 3  # queries that a line names
SAID = {FIRST_NIGHT: "first night, there is no earlier one to compare it with"}
"""Reasons that are stored as one word or two, as a line says them."""

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
    """``handbook: worse: ndcg@10 fell by 0.0612 …; lost most: q7, q2, q9 and 5 more; meant? …``."""
    words = [f"{outcome.experiment}: {outcome.verdict or outcome.status}"]
    if outcome.reason:
        words[0] += f": {SAID.get(outcome.reason, outcome.reason)}"
    if outcome.comparisons:
        words += _queries(outcome.comparisons[0])
    words += [alarm for alarm in outcome.alarms if alarm not in outcome.reason]
    if outcome.verdict == "worse" and outcome.why and not outcome.alarms:
        words.append(f"why: {outcome.why[0]}")
    if outcome.verdict == "worse" and outcome.run_id is not None:
        words.append(f"if it is meant: rankhouse baseline accept {outcome.run_id} --reason WHY")
    return "; ".join(words)


def _queries(comparison: Comparison) -> Iterator[str]:
    lost = comparison.lost_query_ids
    if lost:
        more = f" and {len(lost) - SHOWN} more" if lost[SHOWN:] else ""
        yield f"lost most: {', '.join(lost[:SHOWN])}{more}"


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
