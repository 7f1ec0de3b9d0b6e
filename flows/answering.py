"""Print what a grid says: its runs with intervals and costs, and which are the best."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from flows.printing import clean, print_rows
from schemas.home import Home

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from flows.grid_answers import Choices, GridAnswer
    from warehouse.grid_runs import GridRunRow

FIGURES = (
    "latency_p50_ms",
    "latency_p95_ms",
    "index_bytes",
    "build_seconds",
    "seconds_to_make",
    "texts_embedded",
    "tokens",
    "cost",
    "currency",
)
NAMED = 12  # runs of a set


def answer_grid(home: Home, grid_id: str, *, primary_measure: str, format: str) -> None:
    """Print a grid's answer, the best on the primary measure first; runs in the spool are left out.

    Args:
        home: whose published warehouse is asked.
        grid_id: which grid.
        primary_measure: what the runs are compared on.
        format: table, json or csv.

    Raises:
        StorageError: there is no published warehouse, or it cannot be read.
    """
    from flows.grid_answers import answer_of
    from warehouse.grid_runs import measures_of, read_grid_runs
    from warehouse.reading import open_published

    with open_published(home) as connection:
        runs = read_grid_runs(connection, grid_id)
        answer = answer_of(connection, grid_id, runs, primary_measure)
        cautions = _cautions(connection, answer)
    others = [name for name in measures_of(runs) if name != primary_measure]
    measures = [primary_measure, *others]
    shown = sorted(answer.runs, key=lambda run: _place(run, primary_measure))
    if format == "json":
        click.echo(json.dumps(_as_json(answer, shown, measures, cautions), indent=2))
    elif format == "csv":
        rows = [_row(answer, run, measures) for run in shown]
        ends = [f"{name} {end}" for name in measures for end in ("mean", "low", "high")]
        columns = ["run_id", "experiment", "status", "standing", "p_adjusted", *ends, *FIGURES]
        print_rows(rows, columns, format=format)
    else:
        _print_table(answer, shown, measures)
        for line in (*_verdicts(answer), *cautions):
            click.echo(clean(line))


def _place(run: GridRunRow, primary: str) -> tuple[bool, float]:
    mean = run.means[primary].mean if primary in run.means else None
    return mean is None, -(mean or 0.0)


def _row(answer: GridAnswer, run: GridRunRow, measures: list[str]) -> dict[str, Any]:
    standing, p = answer.standing(run)
    row: dict[str, Any] = {
        "run_id": run.run_id,
        "experiment": run.experiment,
        "status": run.status,
        "standing": standing,
        "p_adjusted": p,
    }
    for name in measures:
        low, high = answer.intervals.get((run.run_id, name), (None, None))
        mean = run.means[name].mean if name in run.means else None
        row |= {f"{name} mean": mean, f"{name} low": low, f"{name} high": high}
    return row | {name: run.figures[name] for name in FIGURES}


def _print_table(answer: GridAnswer, runs: list[GridRunRow], measures: list[str]) -> None:
    rows = []
    for run in runs:
        row = _row(answer, run, measures)
        for name in measures:
            mean, low, high = (row[f"{name} {part}"] for part in ("mean", "low", "high"))
            interval = "" if low is None else f" [{low:.3f}, {high:.3f}]"
            row[name] = None if mean is None else f"{mean:.3f}{interval}"
        rows.append(row)
    columns = ["experiment", "standing", measures[0], "p_adjusted"]
    if any(run.status != "completed" for run in runs):
        columns.insert(1, "status")
    used = [name for name in FIGURES if any(row[name] for row in rows)]
    columns += [*used[:2], *measures[1:], *used[2:], "run_id"]
    print_rows(rows, columns, format="table", texts={})


def _verdicts(answer: GridAnswer) -> Iterator[str]:
    yield ""
    for number, choices in enumerate(answer.choices, start=1):
        if len(answer.choices) > 1:
            names = ", ".join(answer.name_of(run) for run in choices.runs[:NAMED])
            yield f"Comparable runs {number} of {len(answer.choices)}: {names}"
        yield from _verdict(answer, choices)
    if answer.is_split:
        yield "The choice was made on the split dev; means, intervals and costs are of test."
    for run in answer.runs:
        if run.run_id in answer.untested:
            yield f"Not tested: {run.experiment}: {answer.untested[run.run_id]}"


def _verdict(answer: GridAnswer, choices: Choices) -> Iterator[str]:
    choice, measure = choices.choice, answer.primary_measure
    n_runs = len(choices.runs)
    how = f"paired randomisation, {choice.n_resamples:,} resamples, Holm, alpha {choice.alpha:g}"
    if n_runs == 1:
        yield f"One run, nothing to compare on {measure}: {answer.name_of(choices.best)}"
        return
    if choice.has_winner:
        yield f"Best on {measure}: {answer.name_of(choices.best)}; the others are worse ({how})"
    else:
        n_set = len(choices.members)
        who = f"none of the {n_runs} runs" if n_set == n_runs else f"{n_set} of {n_runs} runs"
        what = "can" if n_set == n_runs else "cannot"
        yield f"No winner on {measure}: {who} {what} be told from the best ({how}):"
        for run in choices.members[:NAMED]:
            yield f"  {answer.name_of(run)}"
        if n_set > NAMED:
            yield f"  and {n_set - NAMED} more"
    cheapest, fastest = choices.cheapest, choices.fastest
    if not choice.has_winner:
        yield f"  The cheapest of them: {answer.name_of(cheapest)} ({_cost(cheapest)})"
        if fastest is not None:
            p50 = fastest.figures["latency_p50_ms"]
            yield f"  The fastest of them: {answer.name_of(fastest)} ({p50:.2f} ms a query, median)"


def _cost(run: GridRunRow) -> str:
    seconds, money = run.figures["seconds_to_make"], run.figures["cost_to_make"]
    parts = [] if money is None else [f"{money:.4f} {run.figures['currency']}"]
    parts += [] if seconds is None else [f"{seconds:.1f} s for all its stages"]
    return ", ".join(parts) or "its cost is not known"


def _cautions(connection: DuckDBPyConnection, answer: GridAnswer) -> list[str]:
    """Measures whose values mean different things in different runs, and what differs."""
    from flows.differing import find_differences
    from warehouse.grid_runs import measures_of

    by_difference: dict[str, list[str]] = {}
    for measure in measures_of(answer.runs):
        first_of: dict[str, GridRunRow] = {}
        for run in answer.runs:
            if measure in run.means:
                first_of.setdefault(run.means[measure].comparability_key, run)
        if len(first_of) > 1:
            one, other = list(first_of.values())[:2]
            differs = find_differences(connection, one.run_id, other.run_id, measure)
            names = ", ".join(text.partition(":")[0] for text in differs) or "the judge's version"
            by_difference.setdefault(names, []).append(measure)
    return [
        f"Not to be compared between all of these runs, since {names} differs: "
        f"{', '.join(measures)}{_instead(names)}"
        for names, measures in by_difference.items()
    ]


def _instead(names: str) -> str:
    if "chunking" not in names:
        return ""
    return ". Between chunkings compare evidence_recall@Nchars, or use document labels"


def _as_json(
    answer: GridAnswer, runs: list[GridRunRow], measures: list[str], cautions: list[str]
) -> dict[str, Any]:
    rows = []
    for run in runs:
        row = _row(answer, run, measures)
        row["measures"] = {
            name: {part: row.pop(f"{name} {part}") for part in ("mean", "low", "high")}
            for name in measures
        }
        rows.append(row | {"untested": answer.untested.get(run.run_id)})
    return {
        "grid_id": answer.grid_id,
        "primary_measure": answer.primary_measure,
        "chosen_on": "dev" if answer.is_split else None,
        "answers": [_choices_as_json(answer, choices) for choices in answer.choices],
        "cautions": cautions,
        "runs": rows,
    }


def _choices_as_json(answer: GridAnswer, choices: Choices) -> dict[str, Any]:
    choice, fastest = choices.choice, choices.fastest
    is_alone = choice.has_winner or len(choices.runs) == 1
    return {
        "runs": [answer.name_of(run) for run in choices.runs],
        "best": answer.name_of(choices.best) if is_alone else None,
        "set": [answer.name_of(run) for run in choices.members],
        "cheapest": answer.name_of(choices.cheapest),
        "fastest": None if fastest is None else answer.name_of(fastest),
        "alpha": choice.alpha,
        "n_resamples": choice.n_resamples,
    }
