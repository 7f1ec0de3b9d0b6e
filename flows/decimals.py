"""How many decimals a column of floats is printed with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from flows.printing import show_value

MOST = 4  # decimals
Show = Callable[[object], str]


def column_formats(rows: Sequence[Sequence[object]], n_columns: int, *, trim: bool) -> list[Show]:
    """How to print the values of each column.

    Args:
        rows: the first rows, which decide.
        n_columns: how many columns there are.
        trim: floats as short as their column allows; else all have ``MOST`` decimals.
    """
    if not trim:
        return [show_value] * n_columns
    return [
        partial(show_trimmed, decimals=max([1, *(_needed(row[i]) for row in rows)]))
        for i in range(n_columns)
    ]


def show_trimmed(value: object, *, decimals: int) -> str:
    """Print a float with these decimals, more when it needs them, at most ``MOST``.

    What would be printed as zero, and is not, has two significant digits instead: 3.2e-07.
    """
    if not isinstance(value, float) or not math.isfinite(value):
        return show_value(value)
    if value and round(value, MOST) == 0:
        return f"{value:.2g}"
    return f"{value:.{max(decimals, _needed(value))}f}"


def _needed(value: object) -> int:
    """Decimals of a float, rounded to ``MOST``, without the zeros at its end."""
    if not isinstance(value, float) or not math.isfinite(value):
        return 0
    return len(f"{value:.{MOST}f}".rstrip("0").partition(".")[2])
