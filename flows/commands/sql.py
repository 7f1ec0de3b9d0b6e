"""``rankhouse sql``: one question to the published warehouse."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from flows.printing import format_option, print_rows, say
from schemas.counting import counted
from schemas.home import find_home


class SqlCommand(click.Command):
    """A command whose argument may begin with a comment: ``--`` and a space is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read an argument such as ``-- newest first`` and its next lines as SQL."""
        comments = [] if "--" in args else [arg for arg in args if _is_comment(arg)]
        options = [arg for arg in args if arg not in comments]
        return super().parse_args(ctx, [*options, "--", *comments] if comments else args)


def _is_comment(argument: str) -> bool:
    first_line, _, more = argument.partition("\n")
    return argument.startswith("--") and (bool(more) or " " in first_line.partition("=")[0])


@click.command(cls=SqlCommand)
@click.argument("statement", metavar="SQL")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the rows to this new .parquet, .csv or .json file instead.",
)
@format_option
def command(statement: str, output: Path | None, format: str) -> None:
    """Ask the published warehouse in SQL: one statement that reads.

    SQL is a SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN; - reads it from standard
    input. Start with "show tables". A table on a terminal leaves out columns that do not fit, and
    shows at most four decimals; --format csv and json hold everything.

    Example: rankhouse sql "select measure, mean from metric_history"
    """
    from flows.exporting import export_query
    from flows.sql_values import mappings
    from warehouse.reading import ask, open_published

    sql = sys.stdin.read() if statement == "-" else statement
    with open_published(find_home()) as connection:
        if output is not None:
            say(f"{output}: {counted(export_query(connection, sql, output), 'row')}")
            return
        columns, rows = ask(connection, sql)
        print_rows(mappings(columns, rows, format=format), columns, format=format, trim=True)
