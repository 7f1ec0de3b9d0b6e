"""``rankhouse baseline``: what later nights are compared with, by somebody's decision."""

from __future__ import annotations

import click

from flows.asking import limit_option, show_sql_option
from flows.printing import format_option, print_rows, say
from schemas.errors import UsageError
from schemas.home import find_home

TABLE = ("accepted_at", "experiment", "run_id", "author", "reason", "suite", "logical_date")
"""The columns of a table, what a narrow terminal may do without last."""


@click.group()
def command() -> None:
    """Accept a run as what later nights are compared with, and list what was accepted."""


@command.command()
@click.argument("run", metavar="RUN")
@click.option("--reason", required=True, help="Why: kept with the decision.")
@click.option("--by", "author", help="Who decides; the user of this machine by default.")
def accept(run: str, reason: str, author: str | None) -> None:
    """Accept RUN as the baseline of its experiment from its night on.

    A loss stays the verdict of every night until it is gone or somebody accepts a run that has it.
    A run of a suite is accepted for that suite, any other one for all suites. It also takes the
    place of a pinned run that is older. The newest decision holds.

    Example: rankhouse baseline accept latest --reason "shorter chunks"
    """
    from flows.landing import load_and_say
    from warehouse.accepting import accept_run
    from warehouse.migrate import check_warehouse
    from warehouse.reading import open_published

    home = find_home()
    with open_published(home) as connection:
        accepted = accept_run(connection, run, reason=reason, author=author or _user())
    check_warehouse(home)
    part = accepted.put(home)
    load_and_say(home, part.parent.name)
    where = f"suite {accepted.suite!r}" if accepted.suite else "every suite"
    say(
        f"accepted: run {accepted.run_id} is what {accepted.experiment!r} is compared with in "
        f"{where} from {accepted.night} on"
    )


@command.command("list")
@click.option("--experiment", help="Only decisions about this one.")
@limit_option(default=20, help="How many decisions.")
@show_sql_option
@format_option
def list_accepted(experiment: str | None, limit: int, show_sql: bool, format: str) -> None:
    """List decisions, the newest first: who, when, why.

    Example: rankhouse baseline list
    """
    from flows.asking import answer, check_experiment
    from warehouse.accepting import ACCEPTED
    from warehouse.finding import short_ids
    from warehouse.reading import open_published

    sql = ACCEPTED.render(experiment=experiment, limit=limit)
    if show_sql:
        click.echo(sql)
        return
    with open_published(find_home()) as connection:
        check_experiment(connection, experiment)
        rows = answer(connection, ACCEPTED, sql)
        short = short_ids(connection)
    if format != "table":
        print_rows(rows, ACCEPTED.columns, format=format)
        return
    for row in rows:
        row["run_id"] = short.get(row["run_id"], row["run_id"])
        row["accepted_at"] = row["accepted_at"].strftime("%Y-%m-%d %H:%M")
    print_rows(rows, TABLE, format=format, texts={"reason": 20})


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        raise UsageError("this machine has no name for its user; say who decides: --by NAME") from (
            None
        )
