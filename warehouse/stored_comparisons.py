"""Comparisons into their table and back, as they were made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from schemas.errors import ValidationRefusedError
from warehouse.comparison_rows import COMPARISONS, comparisons_frame
from warehouse.comparisons import (
    Baseline,
    Comparison,
    MeasureComparison,
    QueryLoss,
    QuestionFlip,
)
from warehouse.refusing import explain_refusals

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

IN_DETAILS = ("n_failed", "coverage", "loss_bound")
"""Of a measure, without a column of their own."""


def insert_comparisons(connection: DuckDBPyConnection, comparisons: Iterable[Comparison]) -> None:
    """Insert all of them in one transaction, or nothing.

    Raises:
        ValidationRefusedError: a row breaks the table's model.
        duckdb.Error: the database's own trouble.
    """
    from warehouse.validate import check_table

    frames = [comparisons_frame(comparison) for comparison in comparisons]
    rows = pl.concat([COMPARISONS.to_frame(), *frames])
    refusals = check_table("comparisons", rows)
    if refusals:
        raise ValidationRefusedError(explain_refusals(refusals, None))
    connection.register("new_comparisons", rows.to_arrow())
    try:
        connection.execute("INSERT INTO comparisons BY NAME SELECT * FROM new_comparisons")
    finally:
        connection.unregister("new_comparisons")


def read_comparisons(
    connection: DuckDBPyConnection, run_id: str, kinds: Sequence[str]
) -> list[Comparison]:
    """The comparisons of a run with baselines of some kinds, in the order they were made."""
    result = connection.execute(
        "SELECT * FROM comparisons WHERE run_id = ? AND list_contains(?, baseline) "
        "ORDER BY compared_at, comparison_id",
        [run_id, list(kinds)],
    )
    names = [str(column[0]) for column in result.description or []]
    by_id: dict[str, list[dict[str, Any]]] = {}
    for values in result.fetchall():
        row = dict(zip(names, values, strict=True))
        row["details"] = json.loads(row["details"] or "{}")
        by_id.setdefault(row["comparison_id"], []).append(row)
    return [
        _comparison(sorted(rows, key=lambda row: int(row["details"]["position"])))
        for rows in by_id.values()
    ]


def _comparison(rows: Sequence[Mapping[str, Any]]) -> Comparison:
    first, whole = rows[0], rows[0]["details"]["comparison"]
    none: dict[str, Any] = {}
    lead = next((row["details"] for row in rows if "lost_most" in row["details"]), none)
    items = [_item(row, whole) for row in rows]
    return Comparison(
        comparison_id=first["comparison_id"],
        run_id=first["run_id"],
        baseline=Baseline(tuple(whole["baseline_run_ids"]), first["baseline"]),
        verdict=whole["verdict"],
        reason=whole["reason"],
        measures=tuple(item for item in items if item.tag is None),
        slices=tuple(item for item in items if item.tag is not None),
        lead=whole["lead"],
        losers=tuple(
            QueryLoss(**{**loss, "tags": tuple(loss["tags"])}) for loss in lead.get("lost_most", ())
        ),
        lost_query_ids=tuple(lead.get("lost_query_ids", ())),
        flips=tuple(QuestionFlip(**flip) for flip in lead.get("flips", ())),
        seed=first["seed"],
        n_resamples=first["details"]["n_resamples"],
        compared_at=first["compared_at"],
    )


def _item(row: Mapping[str, Any], whole: Mapping[str, Any]) -> MeasureComparison:
    names = [name for name in COMPARISONS if name in MeasureComparison.__dataclass_fields__]
    values = {name: row[name] for name in names}
    values |= {name: row["details"][name] for name in IN_DETAILS}
    return MeasureComparison(**{**values, "baseline_run_ids": tuple(row["baseline_run_ids"])})
