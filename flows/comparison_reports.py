"""Print a comparison: the verdict first, then what it rests on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from flows.fitting import dull_last
from flows.junit import junit_of_comparison
from flows.printing import clean, print_json, print_rows, say
from flows.step_summaries import append_summary, markdown_of_comparison

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from flows.explaining import Why
    from warehouse.comparisons import Comparison, MeasureComparison

MOST_FLIPS = 10  # questions that a table shows; JSON holds all

MOST_SLICES = 8  # tags of a measure that a table shows, the largest loss first

# The most important first: a narrow terminal shows fewer. Names are short for its sake.
MEASURES = {
    "measure": "measure",
    "verdict": "verdict",
    "mean": "mean",
    "baseline": "baseline_mean",
    "difference": "difference",
    "p": "p_adjusted",
    "low": "low",
    "high": "high",
    "worse": "n_worse",
    "better": "n_better",
    "pairs": "n_pairs",
    "delta": "delta",
    "loss_bound": "loss_bound",
    "detectable": "smallest_detectable",
    "effect_size": "effect_size",
    "failed": "n_failed",
}
SLICES = ("measure", "tag", "verdict", "difference", "low", "high", "p", "worse", "better", "pairs")
LOSERS = ("query_id", "difference", "value", "baseline_value", "text", "tags")
FLIPS = ("query_id", "answer", "baseline_answer", "question")


def print_comparison(
    connection: DuckDBPyConnection,
    comparison: Comparison,
    *,
    format: str,
    why: Why | None = None,
) -> None:
    """Write a comparison to stdout: tables, JSON, a CSV row a measure and slice, or JUnit XML."""
    differences = find_reasons(connection, comparison)
    if format == "json":
        print_json(_object(comparison, differences) | {"why": why and why.to_json()})
    elif format == "csv":
        _print_csv(comparison)
    elif format == "junit":
        click.echo(junit_of_comparison(comparison, experiment=_experiment(connection, comparison)))
    else:
        _print_tables(comparison, _title(connection, comparison))
        if why is not None:
            print_why(why)
    if format != "json":
        _say_reasons(differences)
        if not comparison.is_gated and comparison.verdict != "not comparable":
            say("nothing is gated; to test for a loss that matters: --gate MEASURE:DELTA")


def print_why(why: Why) -> None:
    """Write in words what differs, the run's values first."""
    click.echo("\nWhy (the run / its baseline):")
    for line in why.lines:
        click.echo(clean(f"  {line}"))


def append_comparison(connection: DuckDBPyConnection, comparison: Comparison) -> None:
    """A table for the page of a GitHub Actions step, where there is one."""
    title = f"{comparison.verdict}: {_title(connection, comparison)}"
    append_summary(markdown_of_comparison(title, comparison))


def _experiment(connection: DuckDBPyConnection, comparison: Comparison) -> str:
    row = connection.execute(
        "SELECT experiment FROM runs WHERE run_id = ?", [comparison.run_id]
    ).fetchone()
    return "" if row is None else str(row[0])


def find_reasons(
    connection: DuckDBPyConnection, comparison: Comparison
) -> dict[str, tuple[list[str], list[str]]]:
    """Why measures cannot be compared: reason to (measures, what differs, ours first)."""
    from flows.differing import find_differences

    reasons: dict[str, tuple[list[str], list[str]]] = {}
    for item in comparison.measures:
        if item.verdict != "not comparable" or not comparison.baseline.run_ids:
            continue
        newest = max(comparison.baseline.run_ids)
        differences = find_differences(connection, comparison.run_id, newest, item.measure)
        # What each measure's own name stands for is no difference.
        differences = [text for text in differences if not text.startswith("measure: ")]
        key = "; ".join([item.reason or "", *differences])
        names, _ = reasons.setdefault(key, ([], [item.reason or "", *differences]))
        names.append(item.measure)
    return reasons


def _say_reasons(reasons: Mapping[str, tuple[list[str], list[str]]]) -> None:
    for names, (why, *differences) in reasons.values():
        say(f"not comparable: {', '.join(names)}: {why}")
        for difference in differences:
            say(f"  {difference}")


def _print_tables(comparison: Comparison, title: str) -> None:
    click.echo(clean(f"{comparison.verdict}: {comparison.reason}"))
    click.echo(clean(title))
    compared = [item for item in comparison.measures if item.verdict != "not comparable"]
    if compared:
        rows = [_row(item) for item in compared]
        dull = {"failed": 0, "delta": None, "loss_bound": None}
        _print_section("", rows, dull_last(rows, list(MEASURES), dull), {})
        click.echo(_detectable(comparison, compared))
    if comparison.losers:
        rows = [dataclasses.asdict(loss) for loss in comparison.losers]
        for row in rows:
            row["tags"] = ", ".join(row["tags"])
        n_lost = len(comparison.lost_query_ids)
        title = f"Lost most on {comparison.lead}, {len(rows)} of {n_lost}:"
        _print_section(title, rows, LOSERS, {"text": 24, "tags": 12})
    if comparison.slices:
        rows = [_row(item) for item in _shown_slices(comparison)]
        title = f"By tag, {len(rows)} of {len(comparison.slices)}, the largest loss first:"
        _print_section(title, rows, SLICES, {"tag": 12})
    if comparison.flips:
        rows = [dataclasses.asdict(flip) for flip in comparison.flips[:MOST_FLIPS]]
        title = f"Questions with another answer, {len(rows)} of {len(comparison.flips)}:"
        _print_section(title, rows, FLIPS, {"question": 24})


def _print_section(
    title: str, rows: list[dict[str, Any]], columns: Iterable[str], texts: Mapping[str, int]
) -> None:
    click.echo(f"\n{clean(title)}" if title else "")
    print_rows(rows, list(columns), format="table", texts=texts)


def _row(item: MeasureComparison) -> dict[str, Any]:
    return {name: getattr(item, field) for name, field in MEASURES.items()} | {"tag": item.tag}


def _shown_slices(comparison: Comparison) -> list[MeasureComparison]:
    """Of each measure, those that lost most, and all with a verdict."""
    shown = []
    for name in dict.fromkeys(item.measure for item in comparison.slices):
        of_measure = [item for item in comparison.slices if item.measure == name]
        shown += [
            item
            for place, item in enumerate(of_measure)
            if item.verdict in ("worse", "better") or place < MOST_SLICES
        ]
    return shown


def _detectable(comparison: Comparison, compared: list[MeasureComparison]) -> str:
    """What the benchmark could have found; it decides nothing."""
    named = [item for item in compared if item.is_gated or item.measure == comparison.lead]
    known = [
        f"{item.measure} {item.smallest_detectable:.4f}"
        for item in named
        if item.smallest_detectable is not None
    ]
    if not known:
        return "No query has another value: nothing to tell the noise of this benchmark by."
    return f"Smallest differences that these queries could show (power 0.8): {', '.join(known)}"


def _title(connection: DuckDBPyConnection, comparison: Comparison) -> str:
    """Which two runs: their ends, experiments and nights."""
    from warehouse.finding import short_ids

    short = short_ids(connection)
    rows = connection.execute(
        "SELECT run_id, experiment, logical_date FROM runs WHERE list_contains(?, run_id)",
        [[comparison.run_id, *comparison.baseline.run_ids]],
    ).fetchall()
    shown = {run: f"{name} of {night} ({short[run]})" for run, name, night in rows}
    baseline = ", ".join(shown[run] for run in comparison.baseline.run_ids)
    return f"{shown[comparison.run_id]} against {baseline or 'nothing'}"


def _print_csv(comparison: Comparison) -> None:
    from warehouse.comparisons import MeasureComparison

    rows = [dataclasses.asdict(item) for item in (*comparison.measures, *comparison.slices)]
    columns = [field.name for field in dataclasses.fields(MeasureComparison)]
    about = {"verdict_of_all": comparison.verdict}
    for row in rows:
        row["baseline_run_ids"] = " ".join(row["baseline_run_ids"])
    print_rows((row | about for row in rows), [*columns, *about], format="csv")


def _object(
    comparison: Comparison, reasons: Mapping[str, tuple[list[str], list[str]]]
) -> dict[str, Any]:
    result = dataclasses.asdict(comparison)
    result["is_gated"] = comparison.is_gated
    result["compared_at"] = comparison.compared_at.isoformat(timespec="seconds")
    result["not_comparable"] = [
        {"measures": names, "reason": why, "differences": differences}
        for names, (why, *differences) in reasons.values()
    ]
    return result
