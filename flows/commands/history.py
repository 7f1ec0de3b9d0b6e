"""``rankhouse history``: one measure, night by night."""

from __future__ import annotations

from datetime import date
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import click

from flows.asking import (
    Night,
    answer,
    check_experiment,
    choose_measure,
    limit_option,
    show_sql_option,
)
from flows.fitting import dull_last
from flows.printing import clean, format_option, print_rows, say
from schemas.home import find_home

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# The most important first: a narrow terminal shows fewer.
COLUMNS = (
    "experiment",
    "logical_date",
    "mean",
    "change",
    "run_id",
    "status",
    "n_scored",
    "n_lost",
    "n_failed",
    "n_queries",
    "is_comparable",
)


@click.command()
@click.argument("measure", required=False)
@click.option("--experiment", help="Only this experiment.")
@click.option("--since", type=Night(), help="Only nights from this date on.")
@limit_option(default=30, help="Nights shown.")
@show_sql_option
@format_option
def command(
    measure: str | None,
    experiment: str | None,
    since: date | None,
    limit: int,
    show_sql: bool,
    format: str,
) -> None:
    """Show how MEASURE went, night by night, with a line of blocks an experiment.

    A bar in the line, and an empty change, mean that the night before cannot be compared: the
    measure means something else, or the judge moved. Without MEASURE: the first one of the newest
    run.

    Example: rankhouse history ndcg@10 --experiment demo
    """
    from warehouse.finding import short_ids
    from warehouse.queries import HISTORY
    from warehouse.reading import open_published

    with open_published(find_home()) as connection:
        name = choose_measure(connection, measure, run=None)
        sql = HISTORY.render(measure=name, experiment=experiment, since=since, limit=limit)
        if show_sql:
            click.echo(sql)
            return
        check_experiment(connection, experiment)
        rows = answer(connection, HISTORY, sql)
        _mark_moved_judges(connection, name, rows)
        short = short_ids(connection)
    if format != "table":
        print_rows(rows, HISTORY.columns, format=format)
        return
    for line in _lines(name, rows):
        click.echo(line)
    for row in rows:
        row["run_id"] = short[row["run_id"]]
    columns = dull_last(rows, COLUMNS, {"status": "completed"})
    print_rows(rows, columns, format=format, texts={})


def _mark_moved_judges(
    connection: DuckDBPyConnection, measure: str, rows: list[dict[str, Any]]
) -> None:
    """A night whose judge is not that of the night before cannot be compared with it."""
    from warehouse.anchors import JUDGED_MEASURES, find_moves

    if measure not in JUDGED_MEASURES:
        return
    for before, row in pairwise(rows):
        if row["is_comparable"] and row["experiment"] == before["experiment"]:
            move = find_moves(connection, row["run_id"], [before["run_id"]]).get(before["run_id"])
            if move is not None:
                row |= {"is_comparable": False, "change": None}
                say(f"{row['experiment']}, {row['logical_date']}: {move}")


def _lines(measure: str, rows: list[dict[str, Any]]) -> list[str]:
    from warehouse.sparkline import sparkline

    lines = []
    for experiment, nights in groupby(rows, key=lambda row: row["experiment"]):
        group = list(nights)
        means = [row["mean"] for row in group]
        blocks = sparkline(means, [not row["is_comparable"] for row in group])
        known = [mean for mean in means if mean is not None]
        ends = f"{known[0]:.4f} → {known[-1]:.4f}" if known else "nothing scored"
        lines.append(f"{clean(str(experiment))}  {measure}  {blocks}  {ends}")
    return [*lines, ""] if lines else []
