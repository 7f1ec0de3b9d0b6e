"""What the reading commands share: the options, and named SQL that is run or shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schemas.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from warehouse.queries import NamedQuery

    DateType = click.ParamType[date]
else:
    DateType = click.ParamType

MOST_ROWS = 1_000_000_000
LONGEST_WAIT = 7 * 86400.0  # seconds

Function = TypeVar("Function", bound=Callable[..., Any])


def show_sql_option(function: Function) -> Function:
    """Add ``--show-sql`` to a command."""
    option = click.option("--show-sql", is_flag=True, help="Print the SQL instead of running it.")
    return option(function)


class Night(DateType):
    """A date such as 2026-11-29."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Read a date; anything else is a usage error."""
        if isinstance(value, date):
            return value
        try:
            return datetime.strptime(str(value), "%Y-%m-%d").date()
        except ValueError:
            self.fail(f"{value!r} is not a date; expected one such as 2026-11-29", param, ctx)


class Seconds(click.FloatRange):
    """A number of seconds; NaN, which no range excludes, is none."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number of seconds; anything else is a usage error."""
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return seconds


def limit_option(*, default: int, help: str) -> Callable[[Function], Function]:
    """Add ``--limit`` to a command."""
    rows = click.IntRange(min=1, max=MOST_ROWS)
    return click.option("--limit", type=rows, default=default, show_default=True, help=help)


def answer(connection: DuckDBPyConnection, query: NamedQuery, sql: str) -> list[dict[str, Any]]:
    """Run rendered named SQL: a row a mapping."""
    from warehouse.reading import ask

    _, rows = ask(connection, sql)
    return [dict(zip(query.columns, row, strict=True)) for row in rows]


def choose_measure(connection: DuckDBPyConnection, text: str | None, *, run: str | None) -> str:
    """The canonical name of a measure that was computed; by default the run's first.

    Raises:
        UsageError: it is no measure, or no such values are stored.
    """
    from schemas.measures import Measure
    from warehouse.finding import nearest_names
    from warehouse.queries import FIRST_MEASURE, KNOWN_MEASURES

    known = [
        row["measure"] for row in answer(connection, KNOWN_MEASURES, KNOWN_MEASURES.render(run=run))
    ]
    if text is None:
        first = answer(connection, FIRST_MEASURE, FIRST_MEASURE.render(run=run))
        if not first or first[0]["measure"] not in known:
            raise UsageError(f"no measure was computed; {nearest_names('', known)}")
        return str(first[0]["measure"])
    name = str(Measure.parse(text))
    if name not in known:
        where = f"run {run}" if run else "any run"
        raise UsageError(f"{name} was not computed by {where}; {nearest_names(name, known)}")
    return name


def check_experiment(connection: DuckDBPyConnection, name: str | None) -> None:
    """Refuse an experiment that has no runs; the nearest names are said.

    Raises:
        UsageError: there is none of this name.
    """
    from warehouse.finding import resolve_run

    if name is not None:
        resolve_run(connection, "latest", experiment=name)


def check_tag(connection: DuckDBPyConnection, name: str | None) -> None:
    """Refuse a tag that no run carries; those that there are are said.

    Raises:
        UsageError: there is none of this name.
    """
    from warehouse.finding import nearest_names

    rows = connection.execute("SELECT DISTINCT tag FROM run_tags ORDER BY tag").fetchall()
    known = [tag for (tag,) in rows]
    if name is not None and name not in known:
        raise UsageError(f"tag {name!r}: no run carries it; {nearest_names(name, known)}")
