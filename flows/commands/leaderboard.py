"""``rankhouse leaderboard``: the experiments of one night, in order of a measure."""

from __future__ import annotations

from datetime import date

import click

from flows.asking import Night, answer, choose_measure, show_sql_option
from flows.printing import format_option, print_rows, say
from schemas.home import find_home

# The most important first: a narrow terminal shows fewer.
COLUMNS = (
    "comparable",
    "place",
    "experiment",
    "mean",
    "run_id",
    "n_scored",
    "n_lost",
    "n_failed",
    "low",
    "high",
    "n_queries",
)


@click.command()
@click.argument("measure", required=False)
@click.option("--night", type=Night(), help="Which night; by default the last one.")
@show_sql_option
@format_option
def command(measure: str | None, night: date | None, show_sql: bool, format: str) -> None:
    """Order the experiments of a night by MEASURE.

    Runs that may be compared share a letter, and places count within it. Without MEASURE: the
    first one of the newest run.

    Example: rankhouse leaderboard ndcg@10
    """
    from warehouse.finding import short_ids
    from warehouse.queries import LEADERBOARD
    from warehouse.reading import open_published

    with open_published(find_home()) as connection:
        name = choose_measure(connection, measure, run=None)
        sql = LEADERBOARD.render(measure=name, night=night)
        if show_sql:
            click.echo(sql)
            return
        rows = answer(connection, LEADERBOARD, sql)
        short = short_ids(connection)
    if format == "table":
        rows = [row | {"run_id": short[row["run_id"]]} for row in rows]
        print_rows(rows, COLUMNS, format=format, texts={})
    else:
        print_rows(rows, LEADERBOARD.columns, format=format)
    if not rows:
        say(f"{name}: no good run has it for {night or 'the last night'}")
    n_groups = len({row["comparable"] for row in rows})
    if n_groups > 1:
        say(
            f"{name}: {n_groups} groups that must not be compared with each other; "
            "places count within a group"
        )
