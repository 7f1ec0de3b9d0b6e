"""Measures over texts: gold spans against chunks, by rank or by characters of context.

``evidence_recall`` counts the gold spans that a chunk satisfies; ``span_*`` compare characters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from schemas.measures import Measure
from tasks.covering_characters import cover_characters
from tasks.graded import Floats, Ints, ratio
from tasks.grounding import needed_overlap
from tasks.matching import contains_answer

FAMILIES = frozenset({"evidence_recall", "span_recall", "span_precision", "span_iou"})


def place_chunks(rankings: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    """Give every ranked chunk its place in its document and in the context.

    Args:
        rankings: columns query (index), rank and item_id (a chunk_id), by query, then rank.
        chunks: CHUNKS.

    Returns:
        query, rank, item_id, doc_id, start, end, and before: the characters of chunk text that
        stand before it in the context, without titles or separators.
    """
    places = chunks.select("doc_id", "start", "end", item_id="chunk_id")
    placed = rankings.select("query", "rank", "item_id").join(
        places, on="item_id", how="left", maintain_order="left"
    )
    length = pl.col("end") - pl.col("start")
    return placed.with_columns(before=(length.cum_sum() - length).over("query"))


def score_spans(
    placed: pl.DataFrame,
    spans: pl.DataFrame,
    measures: Sequence[Measure],
    *,
    n_queries: int,
    min_coverage: float,
) -> Floats:
    """Compute measures against gold spans.

    Args:
        placed: see ``place_chunks``.
        spans: columns query (index), doc_id, start, end: the relevant gold spans, lost ones in a
            document of which no chunk is.
        measures: of ``FAMILIES``.
        n_queries: how many queries there are.
        min_coverage: the share of the shorter of span and chunk that has to be in both.

    Returns:
        (n_measures, n_queries) values; 0 where there is no span.
    """
    values = np.empty((len(measures), n_queries))
    spans = spans.with_row_index("span")
    found = _find_spans(placed, spans, min_coverage)
    query = spans["query"].to_numpy()
    n_spans = np.bincount(query, minlength=n_queries)
    cover = None
    for row, measure in zip(values, measures, strict=True):
        cutoff = measure.cutoff or 0
        if measure.family == "evidence_recall":
            needed = found["characters" if measure.unit == "chars" else "rank"].to_numpy()
            satisfied = np.bincount(query[needed <= cutoff], minlength=n_queries)
            row[:] = ratio(satisfied, n_spans)
            continue
        if cover is None:
            deepest = max(m.cutoff or 0 for m in measures if m.family != "evidence_recall")
            held = placed.filter(pl.col("rank") <= deepest)
            cover = cover_characters(held, spans, n_queries=n_queries)
        row[:] = cover.score(measure.family, cutoff)
    return values


def _find_spans(placed: pl.DataFrame, spans: pl.DataFrame, min_coverage: float) -> pl.DataFrame:
    """For each span the first rank, and the fewest characters of context, that satisfy it.

    Both are beyond every cutoff where nothing does.
    """
    pairs = spans.join(placed, on=["query", "doc_id"], suffix="_chunk").with_columns(
        first=pl.max_horizontal("start", "start_chunk"),
        last=pl.min_horizontal("end", "end_chunk"),
    )
    shorter = pairs.select(
        pl.min_horizontal(
            pl.col("end") - pl.col("start"), pl.col("end_chunk") - pl.col("start_chunk")
        )
    ).to_series()
    lengths = shorter.unique()
    needs = pl.Series([needed_overlap(length, min_coverage) for length in lengths], dtype=pl.Int64)
    satisfied = pairs.with_columns(
        need=shorter.replace_strict(lengths, needs, return_dtype=pl.Int64)
    ).filter(pl.col("last") - pl.col("first") >= pl.col("need"))
    # The chunk's part before N has to hold as much of the span as the whole chunk would need.
    best = satisfied.group_by("span").agg(
        pl.col("rank").min(),
        characters=(
            pl.col("before") + pl.col("first") - pl.col("start_chunk") + pl.col("need")
        ).min(),
    )
    return (
        spans.select("span")
        .join(best, on="span", how="left", maintain_order="left")
        .with_columns(pl.col("rank", "characters").fill_null(2**62))
    )


def score_answers(
    placed: pl.DataFrame,
    texts: pl.DataFrame,
    measures: Sequence[Measure],
    *,
    n_queries: int,
) -> Floats:
    """Compute ``evidence_recall`` for answers: 1 when any of a query's answers is there.

    Args:
        placed: see ``place_chunks``.
        texts: columns query (index), item_id, text and answers of the chunks that contain one.
        measures: of the family ``evidence_recall``.
        n_queries: how many queries there are.

    Returns:
        (n_measures, n_queries) values.
    """
    hits = placed.join(texts, on=["query", "item_id"], how="semi", maintain_order="left")
    values = np.zeros((len(measures), n_queries))
    for row, measure in zip(values, measures, strict=True):
        cutoff = measure.cutoff or 0
        if measure.unit == "items":
            row[hits.filter(pl.col("rank") <= cutoff)["query"].to_numpy()] = 1.0
            continue
        room = cutoff - pl.col("before")
        length = pl.col("end") - pl.col("start")
        row[hits.filter(length <= room)["query"].to_numpy()] = 1.0
        crossing = hits.filter(room > 0, length > room).select("query", "item_id", room=room)
        row[_cut_hits(crossing, texts)] = 1.0
    return values


def _cut_hits(crossing: pl.DataFrame, texts: pl.DataFrame) -> Ints:
    """Queries whose crossing chunk contains an answer in its first ``room`` characters."""
    rows = crossing.join(texts, on=["query", "item_id"], maintain_order="left")
    found = [
        query
        for query, room, text, answers in rows.select(
            "query", "room", "text", "answers"
        ).iter_rows()
        if contains_answer(text[:room], answers)
    ]
    return np.array(found, dtype=np.int64)
