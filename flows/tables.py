"""Tables on a terminal: aligned, as wide as it is, and printed while the rows are computed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

import click

from flows.printing import clean, show_value

BLOCK = 1000  # rows that decide the columns' widths; later ones are printed as they come
GAP = 2  # spaces between columns
NARROWEST = 8  # a column is not cut below this


def print_table(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> None:
    """Print rows to stdout; on a terminal, wide columns are cut so that a row fits a line."""
    values = ([row.get(name) for name in columns] for row in rows)
    block = list(islice(values, BLOCK))
    names = [clean(name) for name in columns]
    shown = [[show_value(value) for value in row] for row in block]
    is_number = [_is_number([row[i] for row in block]) for i in range(len(columns))]
    widths = [max(_width(row[i]) for row in [names, *shown]) for i in range(len(columns))]
    if sys.stdout.isatty():
        widths = fit_widths(widths, shutil.get_terminal_size().columns)
    for cells in chain([names, ["─" * width for width in widths]], shown, _show(values)):
        click.echo(_line(cells, widths, is_number))


def fit_widths(widths: Sequence[int], available: int) -> list[int]:
    """Cut the widest columns, equally, until a line fits; none below ``NARROWEST``.

    Returns:
        One width a column; their sum may still be too large for very many columns.
    """
    room = available - GAP * (len(widths) - 1)
    cap = max(widths, default=0)
    while cap > NARROWEST and sum(min(width, cap) for width in widths) > room:
        cap -= 1
    return [min(width, cap) for width in widths]


def _show(values: Iterator[list[object]]) -> Iterator[list[str]]:
    for row in values:
        yield [show_value(value) for value in row]


def _line(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    parts = []
    for cell, width, goes_right in zip(cells, widths, is_number, strict=True):
        text = _cut(cell, width)
        padding = " " * (width - _width(text))
        parts.append(padding + text if goes_right else text + padding)
    return (" " * GAP).join(parts).rstrip()


def _cut(text: str, width: int) -> str:
    from rich.cells import set_cell_size

    if _width(text) <= width or not sys.stdout.isatty():
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _is_number(values: Sequence[object]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )
