"""Labels and notes while they are collected, and what they add up to for each query."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from schemas.frames import LABELS, TRUTH, TRUTH_NOTES
from schemas.records import GoldSpan
from tasks.grounding import GroundedSpan

LOST = "lost/"


class TruthRows:
    """Collects the label rows and notes of one method.

    Args:
        corpus_ids: ids of chunks and documents, so that no lost item takes the id of a real one.
    """

    def __init__(self, corpus_ids: Iterable[str] = ()) -> None:
        self._taken = {item_id for item_id in corpus_ids if item_id.startswith(LOST)}
        self._lost: set[tuple[str, str]] = set()
        self._labels: list[tuple[object, ...]] = []
        self._notes: list[tuple[object, ...]] = []

    def add_item(
        self, query_id: str, item_id: str, gain: int, place: tuple[str, int | None, int | None]
    ) -> None:
        """A chunk or document with its grade."""
        self._labels.append((query_id, "item", item_id, *place, gain))

    def add_span(
        self, query_id: str, item_id: str, grade: int, place: tuple[str, int, int]
    ) -> None:
        """A gold span."""
        self._labels.append((query_id, "span", item_id, *place, grade))

    def add_lost(
        self, query_id: str, name: str, gain: int, *, doc_id: str | None, cause: str, reason: str
    ) -> None:
        """A lost document, or the lost answers of a query."""
        item_id = self._lost_id(query_id, name)
        self._labels.append((query_id, "lost", item_id, doc_id, None, None, gain))
        self._notes.append((query_id, "lost", cause, doc_id, None, None, None, reason))

    def add_lost_span(
        self, grounded: GroundedSpan, name: str, grade: int, cause: str | None, reason: str | None
    ) -> str:
        """A lost span, listed as the benchmark wrote it; returns the id that it got."""
        query_id, span = grounded.query_id, grounded.span
        item_id = self._lost_id(query_id, name)
        self._labels.append((query_id, "lost", item_id, *_written(span), grade))
        self._notes.append((query_id, "lost", cause, *_written(span), grounded.quote, reason))
        return item_id

    def note_moved(self, grounded: GroundedSpan) -> None:
        """A span that was located anew."""
        place = _written(grounded.span)
        note = (grounded.query_id, "located_anew", None, *place, grounded.quote, grounded.reason)
        self._notes.append(note)

    def _lost_id(self, query_id: str, name: str) -> str:
        """``lost/NAME``, with more of ``lost/`` before it where that id is taken."""
        item_id = LOST + name
        while item_id in self._taken or (query_id, item_id) in self._lost:
            item_id = LOST + item_id
        self._lost.add((query_id, item_id))
        return item_id

    @property
    def labels(self) -> pl.DataFrame:
        """``LABELS``, as collected."""
        return pl.DataFrame(self._labels, schema=LABELS, orient="row")

    @property
    def notes(self) -> pl.DataFrame:
        """``TRUTH_NOTES``, as collected."""
        return pl.DataFrame(self._notes, schema=TRUTH_NOTES, orient="row")


def _written(span: GoldSpan) -> tuple[str, int | None, int | None]:
    return (span.doc_id, span.start, span.end)


def count_truth(labels: pl.DataFrame, has_field: pl.DataFrame, level: int) -> pl.DataFrame:
    """What can be found for each query, and why a query is not scored.

    Args:
        labels: LABELS.
        has_field: query_id and has_field: whether the benchmark gives this method's field.
        level: from this grade on an item is relevant.

    Returns:
        ``TRUTH``, in the order of ``has_field``.
    """
    relevant = labels.filter(pl.col("kind") != "span", pl.col("gain") >= level)
    counts = relevant.group_by("query_id").agg(
        n_relevant=pl.len().cast(pl.Int64),
        n_lost=(pl.col("kind") == "lost").sum().cast(pl.Int64),
    )
    return (
        has_field.join(counts, on="query_id", how="left", maintain_order="left")
        .with_columns(pl.col("n_relevant", "n_lost").fill_null(0))
        .with_columns(
            null_reason=pl.when(~pl.col("has_field"))
            .then(pl.lit("no_judged"))
            .when(pl.col("n_relevant") == 0)
            .then(pl.lit("no_relevant"))
        )
        .select(TRUTH.names())
    )


def note_unscored(truth: pl.DataFrame, *, field: str, level: int) -> pl.DataFrame:
    """A note for each query that is not scored, with the reason for people.

    Args:
        truth: TRUTH.
        field: what the method reads, as people call it.
        level: from this grade on an item is relevant.

    Returns:
        ``TRUTH_NOTES``.
    """
    reasons = {
        "no_judged": f"the benchmark gives no {field} for it",
        "no_relevant": f"its {field} are empty, or none has a grade of {level} or more",
    }
    unscored = truth.drop_nulls("null_reason").select("query_id", note="null_reason")
    return unscored.with_columns(
        [
            pl.col("note").replace_strict(reasons, return_dtype=pl.String).alias(name)
            if name == "reason"
            else pl.lit(None, dtype=dtype).alias(name)
            for name, dtype in TRUTH_NOTES.items()
            if name not in ("query_id", "note")
        ]
    ).select(TRUTH_NOTES.names())
