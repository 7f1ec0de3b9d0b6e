"""``rankhouse runs``: the latest runs, their first measures, what changed; notes and tags."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from flows.asking import answer, check_experiment, check_tag, limit_option, show_sql_option
from flows.fitting import dull_last
from flows.printing import format_option, print_rows, say
from schemas.home import Home, find_home

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from warehouse.rows import EventRow


@click.group(invoke_without_command=True)
@click.option("--experiment", help="Only runs of this experiment.")
@click.option("--tag", help="Only runs that carry this tag.")
@click.option("--grid", help="Only runs of this grid: its id, or latest.")
@limit_option(default=20, help="How many runs.")
@show_sql_option
@format_option
@click.pass_context
def command(
    ctx: click.Context,
    experiment: str | None,
    tag: str | None,
    grid: str | None,
    limit: int,
    show_sql: bool,
    format: str,
) -> None:
    """List the latest runs, newest first, with their first three measures.

    With --grid the measure that the grid's runs are compared on comes first, then two others.
    The column changes says which settings differ from the run before it of the same experiment. A
    table shows the end of each id, which is taken wherever RUN is asked for, and as many columns
    as the terminal holds; --format csv and json hold everything.

    Example: rankhouse runs --experiment demo --limit 5
    """
    from warehouse.finding import resolve_grid, short_ids
    from warehouse.listing import RUNS
    from warehouse.reading import open_published

    if ctx.invoked_subcommand is not None:
        return
    values = {"experiment": experiment, "tag": tag, "limit": limit, "n_measures": 3}
    if show_sql and grid != "latest":  # needs no warehouse
        click.echo(RUNS.render(grid=grid, **values))
        return
    home = find_home()
    with open_published(home) as connection:
        sql = RUNS.render(grid=None if grid is None else resolve_grid(connection, grid), **values)
        if show_sql:
            click.echo(sql)
            return
        check_experiment(connection, experiment)
        check_tag(connection, tag)
        rows = answer(connection, RUNS, sql)
        short = short_ids(connection)
    for row in rows:
        row["started_at"] = _short(row["started_at"])
    if format == "table":
        texts = {"tags": 12, "changes": 22}  # so that 80 columns hold both beside the rest
        print_rows(*_as_table(rows, short), format=format, texts=texts)
    else:
        print_rows(rows, RUNS.columns, format=format)
    _say_what_waits(home)


def _as_table(
    rows: list[dict[str, Any]], short: dict[str, str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows with short ids and a column a measure; the columns, the most important first."""
    shown = []
    names: dict[str, None] = {}
    for row in rows:
        pairs = [pair.rpartition(" ") for pair in (row["measures"] or "").split("  ") if pair]
        values = {name: None if value == "–" else float(value) for name, _, value in pairs}
        names |= dict.fromkeys(values)
        seconds = None if row["seconds"] is None else round(row["seconds"])
        about = {"run_id": short.get(row["run_id"], row["run_id"]), "seconds": seconds}
        shown.append(row | values | about)
    first, *others = names or {"measures": None}
    columns = ["run_id", "logical_date", "experiment", "status", first, "tags", "changes", *others]
    columns += ["attempt", "started_at", "seconds"]
    dull = {"status": "completed", "changes": None, "tags": None}
    return shown, dull_last(shown, columns, dull)


@command.command()
@click.argument("run", metavar="RUN")
@click.argument("text", metavar="TEXT")
def note(run: str, text: str) -> None:
    """Write a note about RUN, kept with your name and the time.

    Example: rankhouse runs note latest "new corpus export from tonight on"
    """
    _put(run, "note", text)


@command.command()
@click.argument("run", metavar="RUN")
@click.argument("name", metavar="TAG")
def tag(run: str, name: str) -> None:
    """Tag RUN, so that runs --tag TAG lists it.

    Example: rankhouse runs tag latest release-4
    """
    _put(run, "tag", name)


@command.command()
@click.argument("run", metavar="RUN")
@click.argument("name", metavar="TAG")
def untag(run: str, name: str) -> None:
    """Take TAG from RUN.

    Example: rankhouse runs untag latest release-4
    """
    _put(run, "untag", name)


def _put(run: str, kind: str, text: str) -> None:
    from flows.landing import load_and_say
    from warehouse.finding import resolve_run
    from warehouse.migrate import check_warehouse
    from warehouse.reading import open_published
    from warehouse.rows import events_frame
    from warehouse.spool import Spool

    home = find_home()
    with open_published(home) as connection:
        run_id = resolve_run(connection, run)
        if kind == "untag":
            _check_carried(connection, run_id, text.strip())
    check_warehouse(home)
    ready = Spool(home).put_events(events_frame([_event(run_id, kind, text)]))
    load_and_say(home, ready.parent.name)
    say(f"{kind} {run_id}: {text}")


def _check_carried(connection: DuckDBPyConnection, run_id: str, name: str) -> None:
    from schemas.errors import UsageError
    from warehouse.finding import nearest_names

    rows = connection.execute(
        "SELECT tag FROM run_tags WHERE run_id = ? ORDER BY tag", [run_id]
    ).fetchall()
    known = [tag for (tag,) in rows]
    if name not in known:
        raise UsageError(f"run {run_id} has no tag {name!r}; {nearest_names(name, known)}")


def _event(run_id: str, kind: str, text: str) -> EventRow:
    import getpass
    import socket

    from schemas.errors import UsageError
    from warehouse.rows import EventRow

    if not text.strip():
        raise UsageError(f"the {kind} is empty")
    try:
        author = getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        author = "unknown"
    return EventRow(
        run_id=run_id,
        kind=kind,
        message=text.strip(),
        author=author,
        host=socket.gethostname(),
    )


def _short(moment: object) -> str | None:
    """A time to the second; UTC as everywhere."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(moment, datetime) else None


def _say_what_waits(home: Home) -> None:
    n_ready = len(list(home.spool.glob("*/ready")))
    if n_ready:
        say(f"{n_ready} more in the spool; take them in with: rankhouse warehouse load")
