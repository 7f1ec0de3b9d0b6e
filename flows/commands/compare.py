"""``rankhouse compare``: a run against a baseline, with a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flows.asking import choose_measure
from flows.printing import format_option_with, say
from schemas.home import find_home

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from schemas.gates import Gate
    from warehouse.comparisons import Comparison

WORSE, NOT_ENOUGH, NOT_COMPARABLE = 10, 11, 12  # exit codes


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("baseline", metavar="BASELINE")
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="MEASURE:DELTA[:ALPHA]",
    help="Test this measure for a loss of DELTA or more, at level ALPHA (0.01); repeatable.",
)
@click.option(
    "--measure",
    "measures",
    multiple=True,
    help="Only this measure beside the gates; repeatable. By default all in common.",
)
@click.option(
    "--tolerate",
    type=click.Choice([str(WORSE), str(NOT_ENOUGH), str(NOT_COMPARABLE)]),
    multiple=True,
    help="Make this exit code a 0; repeatable.",
)
@format_option_with("junit")
def command(
    run: str,
    baseline: str,
    gates: tuple[str, ...],
    measures: tuple[str, ...],
    tolerate: tuple[str, ...],
    format: str,
) -> int:
    """Tell whether RUN is better or worse than BASELINE, by how much, and on which queries.

    RUN and BASELINE are ids, their beginnings or ends, latest, or latest~1: the run before it of
    the same experiment. Differences are paired by query and tested by randomisation; the interval
    is a 95 % bootstrap interval. Exit codes, when something is gated: 10 worse, 11 not enough
    evidence; and always 12: nothing can be compared, and what differs is listed.

    Below stands why: what of documents, models, settings, code and libraries differs between the
    two, and how many of the queries that lost touch documents that did.

    --format junit writes the gates, or without any all measures, as test cases: worse is a failure,
    not enough evidence and not comparable are skipped. Where GITHUB_STEP_SUMMARY names a file, a
    table is appended to it.

    Example: rankhouse compare latest latest~1 --gate ndcg@10:0.02 --tolerate 11
    """
    from flows.comparison_reports import append_comparison, print_comparison
    from flows.explaining import explain_comparison
    from schemas.gates import parse_gate
    from warehouse.compare import compare_runs
    from warehouse.comparisons import Baseline
    from warehouse.finding import resolve_run
    from warehouse.reading import open_published

    gated = [parse_gate(text) for text in gates]
    home = find_home()
    with open_published(home) as connection:
        ours, theirs = resolve_run(connection, run), resolve_run(connection, baseline)
        if ours == theirs:
            say(f"{ours}: a run cannot be compared with itself")
            return NOT_COMPARABLE
        _check_gates(connection, gated, ours)
        names = [choose_measure(connection, name, run=ours) for name in measures]
        comparison = compare_runs(
            connection, ours, Baseline((theirs,)), gates=gated, measures=names or None
        )
        is_told = format in ("table", "json")
        why = explain_comparison(connection, comparison, home) if is_told else None
        print_comparison(connection, comparison, format=format, why=why)
        append_comparison(connection, comparison)
    code = exit_code(comparison)
    return 0 if str(code) in tolerate else code


def exit_code(comparison: Comparison) -> int:
    """What a verdict means to a script; without gates only that nothing could be compared."""
    if comparison.verdict == "not comparable":
        return NOT_COMPARABLE
    if not comparison.is_gated:
        return 0
    return {"worse": WORSE, "not enough evidence": NOT_ENOUGH}.get(comparison.verdict, 0)


def _check_gates(connection: DuckDBPyConnection, gates: list[Gate], run: str) -> None:
    """Refuse a gate on what the run did not compute, and two on one measure."""
    from schemas.errors import UsageError

    seen: set[str] = set()
    for gate in gates:
        choose_measure(connection, gate.measure, run=run)
        if gate.measure in seen:
            raise UsageError(f"gate {gate.measure}: it is given twice")
        seen.add(gate.measure)
