"""``rankhouse sql``: one question to the published warehouse."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping

import click

from flows.printing import format_option, print_rows
from schemas.home import find_home


@click.command()
@click.argument("statement", metavar="SQL")
@format_option
def command(statement: str, format: str) -> None:
    """Ask the published warehouse in SQL: one statement that reads.

    SQL is a SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN; - reads it from standard
    input. Start with: rankhouse sql "show tables"

    Example: rankhouse sql "select measure, mean from metric_history order by logical_date"
    """
    from warehouse.reading import ask, open_published

    sql = sys.stdin.read() if statement == "-" else statement
    with open_published(find_home()) as connection:
        columns, rows = ask(connection, sql)
        print_rows(_mappings(columns, rows), columns, format=format)


def _mappings(
    columns: list[str], rows: Iterator[tuple[object, ...]]
) -> Iterator[Mapping[str, object]]:
    for row in rows:
        yield {name: _printable(value) for name, value in zip(columns, row, strict=True)}


def _printable(value: object) -> object:
    """JSON has no NaN or infinity: a query that makes one gets it as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _printable(item) for key, item in value.items()}
    return value
