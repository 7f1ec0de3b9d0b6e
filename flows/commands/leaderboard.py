"""``rankhouse leaderboard``: the experiments of one night, in order of a measure."""

from __future__ import annotations

from datetime import date

import click

from flows.asking import Night, answer, choose_measure, show_sql_option
from flows.printing import format_option, print_rows, say
from schemas.home import find_home


@click.command()
@click.argument("measure", required=False)
@click.option("--night", type=Night(), help="Which night; by default the last one.")
@show_sql_option
@format_option
def command(measure: str | None, night: date | None, show_sql: bool, format: str) -> None:
    """Order the experiments of a night by MEASURE.

    Runs that may be compared share a letter, and places count within it. Without MEASURE: the
    first one of the newest run.

    Example: rankhouse leaderboard ndcg@10 --night 2026-11-29
    """
    from warehouse.queries import LEADERBOARD
    from warehouse.reading import open_published

    with open_published(find_home()) as connection:
        name = choose_measure(connection, measure, run=None)
        sql = LEADERBOARD.render(measure=name, night=night)
        if show_sql:
            click.echo(sql)
            return
        rows = answer(connection, LEADERBOARD, sql)
    print_rows(rows, LEADERBOARD.columns, format=format)
    if not rows:
        say(f"{name}: no good run has it for {night or 'the last night'}")
    n_groups = len({row["comparable"] for row in rows})
    if n_groups > 1:
        say(
            f"{name}: {n_groups} groups that must not be compared with each other; "
            "places count within a group"
        )
