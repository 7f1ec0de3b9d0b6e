"""Frames that collect in memory, a part at a time, and should take little of it."""

from __future__ import annotations

import polars as pl

_EXACT = (pl.String, pl.Int64, pl.Boolean)
"""Types of which equal values are the same value; 0.0 and -0.0 are not."""


def fold_constants(frame: pl.DataFrame) -> pl.DataFrame:
    """The same frame; a column that says one thing throughout is held once, not a row."""
    return frame.with_columns(
        pl.lit(column[0], dtype=column.dtype).alias(column.name)
        for column in frame.iter_columns()
        if column.len() > 0 and not column.dtype.is_nested() and _is_constant(column)
    )


def _is_constant(column: pl.Series) -> bool:
    if column.null_count():
        return column.null_count() == column.len()
    return column.dtype in _EXACT and column.n_unique() == 1
