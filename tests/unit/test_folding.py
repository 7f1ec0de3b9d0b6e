"""Folding changes how a frame is held, never what it says."""

from __future__ import annotations

from datetime import UTC, date, datetime

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tasks.folding import fold_constants

SCHEMA = pl.Schema(
    {
        "a": pl.String,
        "b": pl.String,
        "n": pl.Int64,
        "x": pl.Float64,
        "day": pl.Date,
        "at": pl.Datetime("us", "UTC"),
        "texts": pl.List(pl.String),
    }
)
AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("x", "y", 1, 0.5, date(2026, 1, 2), AT, ["t"])],
        [("x", "y", 1, 0.0, None, AT, ["t"]), ("x", "z", 1, -0.0, None, AT, ["t"])],
        [(None, "y", 1, None, None, None, None), (None, None, 2, None, None, None, None)],
        [("x", "y", None, 0.5, None, AT, []), (None, "y", None, None, None, None, [])],
    ],
)
def test_a_folded_frame_says_the_same(rows: list[tuple[object, ...]]) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    folded = fold_constants(frame)
    assert folded.rows() == frame.rows()
    assert [str(row) for row in folded.rows()] == [str(row) for row in frame.rows()]  # -0.0
    assert folded.schema == SCHEMA
    assert_frame_equal(pl.concat([folded, frame]), pl.concat([frame, frame]))
