"""What reaches the terminal: data on stdout, everything else on stderr, no control characters."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

FORMATS = ("table", "json", "csv")

# C0 and C1 controls, line and paragraph separators, and the marks that turn or hide text
# (bidirectional, zero width): a corpus must not be able to move the cursor, recolour the terminal,
# break a line or reorder what is read.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u061c\u2028-\u202e\u2060-\u2069\ufeff]"
)
_SPREADSHEET_FORMULA = re.compile(r"^[=+\-@\t\r]")
_NUMBER = re.compile(r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|infinity)$")


def clean(text: str) -> str:
    r"""Make control characters visible: a tab or newline as ``\t``, ``\n``, others ``\xNN``."""
    return _CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)


def say(message: str) -> None:
    """Write one line to stderr."""
    click.echo(clean(message), err=True)


def format_option(function: Function) -> Function:
    """Add ``--format table|json|csv`` to a command."""
    return format_option_with()(function)


def format_option_with(*more: str) -> Callable[[Function], Function]:
    """Add ``--format`` with further formats, such as ``junit``."""
    return click.option(
        "--format",
        "format",
        type=click.Choice((*FORMATS, *more)),
        default="table",
        show_default=True,
        help="How to write the result to standard output.",
    )


def print_rows(
    rows: Iterable[Mapping[str, object]],
    columns: Sequence[str],
    *,
    format: str,
    texts: Mapping[str, int] | None = None,
    trim: bool = False,
) -> None:
    """Write rows to stdout: aligned, as a JSON array, or as CSV.

    Args:
        rows: mappings; a missing key or None is NULL (table: ``–``; JSON: null; CSV: empty).
        columns: which keys, in this order.
        format: ``table``, ``json`` or ``csv``. CSV cells that a spreadsheet would run as a formula
            get a leading apostrophe.
        texts: for a table, which columns a terminal may cut, and how far; see ``print_table``.
        trim: for a table, floats without the zeros at their end.
    """
    if format == "json":
        _print_json(rows, columns)
    elif format == "csv":
        _print_csv(rows, columns)
    else:
        from flows.tables import print_table

        print_table(rows, columns, texts=texts, trim=trim)


def print_json(value: object) -> None:
    """Write one JSON value to stdout; floats are the shortest that read back the same."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    click.echo("\n".join(_CONTROL.sub(_json_escape, line) for line in text.split("\n")))


def show_value(value: object) -> str:
    """Show one value in a table: floats with four decimals, NULL as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    return clean(str(value))


def render_table(rows: Sequence[Sequence[object]], columns: Sequence[str]) -> str:
    """Align columns by display width (CJK counts double); numbers to the right."""
    from rich.cells import cell_len

    shown = [[show_value(value) for value in row] for row in rows]
    numeric = [
        any(row[i] is not None for row in rows)
        and all(row[i] is None or isinstance(row[i], int | float) for row in rows)
        for i in range(len(columns))
    ]
    widths = [
        max([cell_len(name), *(cell_len(row[i]) for row in shown)])
        for i, name in enumerate(columns)
    ]

    def line(cells: Sequence[str]) -> str:
        parts = []
        for i, cell in enumerate(cells):
            padding = " " * (widths[i] - cell_len(cell))
            parts.append(padding + cell if numeric[i] else cell + padding)
        return "  ".join(parts).rstrip()

    rule = "  ".join("─" * width for width in widths)
    return "\n".join([line([clean(name) for name in columns]), rule, *map(line, shown)])


def _print_json(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    click.echo("[", nl=False)
    separator = "\n"
    for row in rows:
        text = json.dumps(
            {name: row.get(name) for name in columns}, ensure_ascii=False, default=str
        )
        click.echo(separator + "  " + _CONTROL.sub(_json_escape, text), nl=False)
        separator = ",\n"
    click.echo("]" if separator == "\n" else "\n]")


def _json_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def _print_csv(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([defuse_cell(name) for name in columns])
    is_watched = sys.stdout.isatty()  # a file gets the text as it is
    for row in rows:
        cells = [defuse_cell(row.get(name)) for name in columns]
        if is_watched:
            cells = [clean(cell) if isinstance(cell, str) else cell for cell in cells]
        writer.writerow(cells)
        click.echo(stream.getvalue(), nl=False)
        stream.seek(0)
        stream.truncate()
    click.echo(stream.getvalue(), nl=False)


def defuse_cell(value: object) -> object:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    if isinstance(value, str) and _SPREADSHEET_FORMULA.match(value) and not _NUMBER.match(value):
        return "'" + value
    return value


def is_interactive() -> bool:
    """Whether a person watches stderr: progress is shown only then."""
    return sys.stderr.isatty()
