"""A table for the page of a GitHub Actions run, where ``GITHUB_STEP_SUMMARY`` names its file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flows.junit import AGAINST
from flows.markdown import escape, table
from flows.printing import say
from warehouse.comparisons import Comparison, MeasureComparison

VARIABLE = "GITHUB_STEP_SUMMARY"
COLUMNS = (
    *("measure", "against", "verdict", "baseline", "now", "difference", "95 % interval"),
    *("p", "lost", "gained", "queries", "reason"),
)
LOSERS = ("query", "difference", "baseline", "now", "text")


def append_summary(markdown: str) -> None:
    """Append to the step's summary; a file that cannot be written is said and no more."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(markdown.rstrip("\n") + "\n\n")
    except OSError as error:
        say(f"{VARIABLE}: the summary was not written ({error.strerror or error})")


def markdown_of_comparison(title: str, comparison: Comparison) -> str:
    """The verdict, a table of the measures that decide, and the queries that lost most."""
    return "\n".join([f"### {escape(title)}", "", *blocks_of([comparison])])


def blocks_of(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Tables of one experiment's comparisons, that which decided first."""
    rows = [
        _row(item, comparison)
        for comparison in comparisons
        for item in comparison.gated or comparison.measures
    ]
    if rows:
        yield table(COLUMNS, rows)
        yield ""
    for comparison in comparisons[:1]:
        if comparison.losers:
            named = f"{len(comparison.losers)} of {len(comparison.lost_query_ids)}"
            yield f"Lost most on {escape(comparison.lead)}, {named}:"
            yield ""
            yield table(LOSERS, _losers(comparison))
            yield ""


def _row(item: MeasureComparison, comparison: Comparison) -> list[object]:
    has_interval = item.low is not None and item.high is not None
    interval = f"{item.low:+.4f} to {item.high:+.4f}" if has_interval else None
    return [
        item.measure,
        AGAINST[comparison.baseline.kind],
        item.verdict,
        _number(item.baseline_mean),
        _number(item.mean),
        _number(item.difference, "+.4f"),
        interval,
        _number(item.p_adjusted, ".2g"),
        item.n_worse,
        item.n_better,
        item.n_pairs,
        item.reason,
    ]


def _losers(comparison: Comparison) -> Iterable[list[object]]:
    for loss in comparison.losers:
        yield [
            loss.query_id,
            _number(loss.difference, "+.4f"),
            _number(loss.baseline_value),
            _number(loss.value),
            loss.text,
        ]


def _number(value: float | None, form: str = ".4f") -> str | None:
    return None if value is None else format(value, form)
