"""Tables on a terminal: whole columns that fit it, and printed while the rows are computed."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

import click

from flows.decimals import Show, column_formats
from flows.fitting import GAP, LEAST_TEXT, fit_columns
from flows.printing import clean, say

BLOCK = 1000  # rows that decide which columns fit, and how wide they are; later ones follow
NAMED = 8  # columns that are left out, named on stderr
LONGEST_WORD = 40  # a longer value without a space is a word only when it is an id or a number
_DIGEST = re.compile(r"[0-9a-f-]+")


def print_table(
    rows: Iterable[Mapping[str, object]],
    columns: Sequence[str],
    *,
    texts: Mapping[str, int] | None = None,
    trim: bool = False,
) -> None:
    """Print rows to stdout; on a terminal, only what a line holds, and stderr names the rest.

    Free text is cut, then whole columns are left out from the right. Ids, dates, states and
    numbers are never cut. In a pipe everything is printed as it is.

    Args:
        rows: mappings; a missing key or None is NULL.
        columns: which keys, the most important first.
        texts: the columns of free text and how far they may be cut; None: those whose values read
            like it.
        trim: floats with as many decimals as their column needs, at most four, instead of four.
    """
    values = ([row.get(name) for name in columns] for row in rows)
    block = list(islice(values, BLOCK))
    shows = column_formats(block, len(columns), trim=trim)
    shown = list(_show(iter(block), shows))
    names = [clean(name) for name in columns]
    widths = [max(_width(row[i]) for row in [names, *shown]) for i in range(len(columns))]
    is_number = [_is_number([row[i] for row in block]) for i in range(len(columns))]
    room = terminal_width()
    fitted: dict[int, int] = dict(enumerate(widths))
    least: list[int | None] = [None] * len(columns)
    if room is not None:
        least = [
            max(least_width, _width(name)) if least_width else None
            for name, least_width in zip(names, _least_widths(columns, block, texts), strict=True)
        ]
        fitted = fit_columns(widths, least, room)
    rule = ["─" * fitted.get(i, 0) for i in range(len(columns))]
    for cells in chain([names, rule], shown, _show(values, shows)):
        click.echo(_line(cells, fitted, least, is_number))
    if not block:
        say("0 rows")
    _say_left_out([name for i, name in enumerate(columns) if i not in fitted], room)


def _least_widths(
    columns: Sequence[str], block: Sequence[list[object]], texts: Mapping[str, int] | None
) -> list[int | None]:
    if texts is not None:
        return [texts.get(name) for name in columns]
    return [
        LEAST_TEXT if reads_like_text(name, [row[i] for row in block]) else None
        for i, name in enumerate(columns)
    ]


def _say_left_out(names: Sequence[str], room: int | None) -> None:
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        shown = ", ".join(names[:NAMED])
        say(f"not shown, to fit {room} columns: {shown}{more} (all: --format csv)")


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None: it is a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def reads_like_text(name: str, values: Iterable[object]) -> bool:
    """Whether a column may be cut: sentences, lists and JSON may, ids and numbers may not."""
    if name.endswith(("_id", "_digest")):
        return False
    return any(
        isinstance(value, list | tuple | dict)
        or (isinstance(value, str) and _is_sentence(value.strip()))
        for value in values
    )


def _is_sentence(text: str) -> bool:
    is_long = len(text) > LONGEST_WORD and _DIGEST.fullmatch(text) is None
    return is_long or any(character.isspace() for character in text)


def _show(rows: Iterator[list[object]], shows: Sequence[Show]) -> Iterator[list[str]]:
    for row in rows:
        yield [show(value) for show, value in zip(shows, row, strict=True)]


def _line(
    cells: Sequence[str],
    widths: Mapping[int, int],
    least: Sequence[int | None],
    is_number: Sequence[bool],
) -> str:
    parts = []
    for i, width in widths.items():
        text = _cut(cells[i], width) if least[i] is not None else cells[i]
        padding = " " * (width - _width(text))
        parts.append(padding + text if is_number[i] else text + padding)
    return (" " * GAP).join(parts).rstrip()


def _cut(text: str, width: int) -> str:
    from rich.cells import set_cell_size

    if _width(text) <= width:
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
