"""``rankhouse sql``: one question to the published warehouse."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from flows.printing import format_option, print_rows, say
from schemas.home import find_home


@click.command()
@click.argument("statement", metavar="SQL")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the rows to this .parquet, .csv or .json file instead.",
)
@format_option
def command(statement: str, output: Path | None, format: str) -> None:
    """Ask the published warehouse in SQL: one statement that reads.

    SQL is a SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN; - reads it from standard
    input. Start with "show tables". A table on a terminal leaves out columns that do not fit, and
    shows at most four decimals; --format csv and json hold everything.

    Example: rankhouse sql "select measure, mean from metric_history"
    """
    from flows.exporting import export_query, mappings
    from warehouse.reading import ask, open_published

    sql = sys.stdin.read() if statement == "-" else statement
    with open_published(find_home()) as connection:
        if output is not None:
            say(f"{output}: {export_query(connection, sql, output):,} rows")
            return
        columns, rows = ask(connection, sql)
        print_rows(mappings(columns, rows), columns, format=format, trim=True)
