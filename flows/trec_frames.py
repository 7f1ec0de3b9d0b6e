"""The lines of TREC files as the frames that stages hand on."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

import polars as pl

from schemas.errors import InputError
from schemas.frames import LABELS, QUERIES, RANKINGS
from tasks.trec_files import TrecLines

DEEPEST = 1000  # items a query that are kept


def read_frame(lines: TrecLines) -> pl.DataFrame:
    """query_id, item_id and number; ids decoded.

    Raises:
        InputError: an id that is not UTF-8, or an item twice for one query.
    """
    query_ids = [_decode(name, lines.source) for name in lines.query_ids]
    distinct = lines.docs.unique()
    decoded = [_decode(name, lines.source) for name in distinct.to_list()]
    items = lines.docs.replace_strict(distinct, decoded, return_dtype=pl.String)
    frame = pl.DataFrame(
        {
            "query_id": pl.Series(query_ids, dtype=pl.String).gather(lines.query),
            "item_id": items,
            "number": lines.numbers,
        }
    )
    twice = frame.select(pl.struct("query_id", "item_id").is_duplicated()).to_series()
    if twice.any():
        row = int(twice.arg_max() or 0)
        query, item, _ = frame.row(row)
        lines.refuse(row, f"document {item} stands more than once for query {query}")
    return frame


def _decode(name: bytes, source: str) -> str:
    try:
        return unquote_to_bytes(name).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"the id {name!r} is not UTF-8", path=source) from None


def queries_of(judged: pl.DataFrame) -> pl.DataFrame:
    """A query has its id for a text: TREC's run and qrels files hold none."""
    judgements = pl.struct(pl.col("item_id").alias("doc_id"), pl.col("gain").alias("grade"))
    grouped = judged.group_by("query_id").agg(judgements.alias("qrels")).sort("query_id")
    return (
        grouped.with_columns(
            pl.col("query_id").alias("text"),
            *(
                pl.lit(None, dtype=dtype).alias(name)
                for name, dtype in QUERIES.items()
                if name not in ("query_id", "text", "qrels")
            ),
        )
        .select(QUERIES.names())
        .cast(QUERIES)
    )


def rankings_of(found: pl.DataFrame) -> pl.DataFrame:
    """RANKINGS by score, then id, both descending.

    Raises:
        InputError: a score is infinite.
    """
    order = ["query_id", "retrieval_score", "item_id"]
    ordered = found.sort(order, descending=[False, True, True])
    if ordered["retrieval_score"].is_infinite().any():
        raise InputError("a score is infinite; expected finite scores")
    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query_id")
    return (
        ordered.with_columns(rank.alias("rank"), pl.col("item_id").alias("chunk_id"))
        .filter(pl.col("rank") <= DEEPEST)
        .select(RANKINGS.names())
        .cast(RANKINGS)
    )


def labels_of(judged: pl.DataFrame) -> pl.DataFrame:
    """LABELS; items ``lost/…`` are lost ground truth, as an export writes it."""
    is_lost = pl.col("item_id").str.starts_with("lost/")
    return (
        judged.sort("query_id", "item_id")
        .with_columns(
            pl.when(is_lost).then(pl.lit("lost")).otherwise(pl.lit("item")).alias("kind"),
            pl.col("item_id").alias("doc_id"),
            pl.lit(None, dtype=pl.Int64).alias("start"),
            pl.lit(None, dtype=pl.Int64).alias("end"),
        )
        .select(LABELS.names())
        .cast(LABELS)
    )
