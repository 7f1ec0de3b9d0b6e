"""The lines of TREC files as the frames that stages hand on."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import polars as pl

from schemas.frames import LABELS, QUERIES, RANKINGS
from tasks.trec_bytes import show_id
from tasks.trec_files import TrecLines
from tasks.trec_ids import decode_id
from tasks.truth import LOST


def read_frame(lines: TrecLines) -> pl.DataFrame:
    """query_id and item_id, decoded; written_query and written_item, their bytes; number.

    Raises:
        InputError: an id that is not UTF-8, or an item twice for one query; with the line.
    """
    written = pl.Series(lines.query_ids, dtype=pl.Binary)
    texts, items = _texts(written), _texts(lines.docs)
    if texts is None:
        _refuse_bytes(lines, written.gather(lines.query), "query")
    if items is None:
        _refuse_bytes(lines, lines.docs, "document")
    frame = pl.DataFrame(
        {
            "query_id": _decoded(texts).gather(lines.query),
            "item_id": _decoded(items),
            "written_query": written.gather(lines.query),
            "written_item": lines.docs,
            "number": lines.numbers,
        }
    )
    pair = pl.struct("written_query", "written_item")
    is_first = frame.select(pair.is_first_distinct()).to_series()
    if not is_first.all():
        _refuse_twice(lines, frame, int(np.argmin(is_first.to_numpy())))
    return frame


def _texts(names: pl.Series) -> pl.Series | None:
    """The ids as text; None: one is not UTF-8."""
    try:
        return names.cast(pl.String)
    except pl.exceptions.ComputeError:
        return None


def _refuse_bytes(lines: TrecLines, names: pl.Series, what: str) -> NoReturn:
    row = next(row for row, name in enumerate(names) if not _is_utf8(name))
    lines.refuse(row, f"the {what} id {show_id(names[row])} is not UTF-8")


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _refuse_twice(lines: TrecLines, frame: pl.DataFrame, row: int) -> None:
    query, item = frame["written_query"][row], frame["written_item"][row]
    is_same = (pl.col("written_query") == pl.lit(query)) & (pl.col("written_item") == pl.lit(item))
    first = int(np.argmax(frame.select(is_same).to_series().to_numpy()))
    lines.refuse(
        row,
        f"document {show_id(item)!r} stands more than once for query {show_id(query)!r}, "
        f"first on line {lines.line_of(first)}",
    )


def _decoded(texts: pl.Series) -> pl.Series:
    encoded = texts.filter(texts.str.contains("%", literal=True)).unique()
    if encoded.is_empty():
        return texts
    decoded = [decode_id(text) for text in encoded.to_list()]
    return texts.replace(encoded, pl.Series(decoded, dtype=pl.String))


def refuse_merged(*files: tuple[TrecLines, pl.DataFrame]) -> None:
    """Refuse ids that are different as written, and one once they are decoded.

    Args:
        files: their lines, and what ``read_frame`` made of them.

    Raises:
        InputError: at the line of the second of such ids.
    """
    if all(lines.data.find(b"%") < 0 for lines, _ in files):
        return
    for what, decoded, written in (
        ("query", "query_id", "written_query"),
        ("document", "item_id", "written_item"),
    ):
        pairs = pl.concat(
            frame.select(decoded, written, file=pl.lit(index)).with_row_index("row")
            for index, (_, frame) in enumerate(files)
        ).unique([decoded, written], keep="first", maintain_order=True)
        second = pairs.filter(~pl.col(decoded).is_first_distinct()).head(1)
        if second.is_empty():
            continue
        name = second[decoded][0]
        first = pairs.filter(pl.col(decoded) == name).row(0, named=True)
        place = files[first["file"]][0]
        files[second["file"][0]][0].refuse(
            second["row"][0],
            f"the {what} ids {show_id(second[written][0])!r} and {show_id(first[written])!r} "
            f"({place.source}:{place.line_of(first['row'])}) are both {name!r} once decoded",
        )


def refuse_infinite(run: TrecLines) -> None:
    """Raise InputError at the first line whose score is infinite."""
    is_infinite = np.isinf(run.numbers)
    if is_infinite.any():
        run.refuse(int(np.argmax(is_infinite)), "the score is infinite; expected a finite number")


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
    """RANKINGS, whole, by score, then the id as it is written, both descending: trec_eval's."""
    order = ["query_id", "retrieval_score", "written_item"]
    ordered = found.sort(order, descending=[False, True, True])
    rank = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query_id")
    return (
        ordered.with_columns(rank.alias("rank"), pl.col("item_id").alias("chunk_id"))
        .select(RANKINGS.names())
        .cast(RANKINGS)
    )


def labels_of(judged: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """LABELS; what is called ``lost/…``, as an export writes it, is lost ground truth.

    A document that the run retrieved, for whatever query, is there and cannot be lost. Of the
    others no value depends on the kind: what is never retrieved counts the same.
    """
    is_lost = pl.col("item_id").str.starts_with(LOST) & ~pl.col("item_id").is_in(
        found["item_id"].filter(found["item_id"].str.starts_with(LOST)).unique().implode()
    )
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
