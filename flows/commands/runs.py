"""``rankhouse runs``: the latest runs with their first measures."""

from __future__ import annotations

import click

from flows.printing import format_option, print_rows, say
from schemas.home import find_home

COLUMNS = (
    "run_id",
    "experiment",
    "logical_date",
    "attempt",
    "status",
    "started_at",
    "seconds",
    "measures",
)


@click.command()
@click.option("--experiment", help="Only runs of this experiment.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many runs."
)
@click.option("--show-sql", is_flag=True, help="Print the SQL instead of running it.")
@format_option
def command(experiment: str | None, limit: int, show_sql: bool, format: str) -> None:
    """List the latest runs, newest first, with their first three measures.

    Example: rankhouse runs --experiment handbook --limit 5
    """
    from warehouse.queries import RUNS
    from warehouse.reading import ask, open_published

    sql = RUNS.render(experiment=experiment, limit=limit, n_measures=3)
    if show_sql:
        click.echo(sql)
        return
    home = find_home()
    with open_published(home) as connection:
        _, rows = ask(connection, sql)
        print_rows(
            [
                {**dict(zip(COLUMNS, row, strict=True)), "started_at": _short(row[5])}
                for row in rows
            ],
            COLUMNS,
            format=format,
        )
    _say_what_waits(home.spool)


def _short(moment: object) -> str | None:
    """A time to the second; UTC as everywhere."""
    from datetime import datetime

    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(moment, datetime) else None


def _say_what_waits(spool: object) -> None:
    from pathlib import Path

    n_ready = len(list(Path(str(spool)).glob("*/ready")))
    if n_ready:
        say(f"{n_ready} more in the spool; take them in with: rankhouse warehouse load")
