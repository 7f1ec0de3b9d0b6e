"""Rankings from a TREC run file, in the order in which ``rankhouse trec`` scores them."""

from __future__ import annotations

import json

import polars as pl

from schemas.counting import counted
from schemas.errors import InputError
from schemas.frames import FAILED_QUERIES, LATENCIES, RANKINGS, UNMATCHED
from tasks.elsewhere import Elsewhere, latencies, unmatched_notes
from tasks.trec_files import read_run
from tasks.trec_frames import read_frame, refuse_infinite, refuse_merged

EXAMPLES = 5


def read_run_file(
    path: str,
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    are_documents: bool,
    depth: int,
) -> Elsewhere:
    """Read a run; its ids are documents', or chunks'.

    A query that the run lacks has nothing retrieved: it counts as 0, as ``rankhouse trec`` has it.

    Args:
        path: plain, gzip or zstd.
        documents: DOCUMENTS.
        chunks: CHUNKS.
        queries: BENCHMARK.
        are_documents: whether documents are ranked; a chunk's id then stands for its document.
        depth: items a query that are kept.

    Raises:
        InputError: the file cannot be read, an item comes twice for a query, a score is not
            finite, none of its queries is in the benchmark, or its ids are documents' and chunks
            are labelled.
    """
    lines = read_run(path, order="")
    refuse_infinite(lines)
    found = read_frame(lines).rename({"number": "retrieval_score"})
    refuse_merged((lines, found))
    asked = queries.select("query_id").with_row_index("query")
    known = found.join(asked, on="query_id", how="inner")
    if known.is_empty():
        raise InputError(
            "none of its queries is in the benchmark: it has "
            f"{_some(found['query_id'])}, the benchmark {_some(queries['query_id'])}",
            path=path,
        )
    placed = _place(known, documents, chunks, are_documents=are_documents)
    if not are_documents and not placed["is_matched"].any():
        in_documents = placed["written"].is_in(documents["doc_id"].implode()).any()
        raise InputError(
            f"none of its ids ({_some(placed['written'])}) is a chunk's, and chunks are labelled"
            + ("; they are documents': set labelling.method = 'document'" if in_documents else ""),
            path=path,
        )
    ranked, n_cut = _rank(placed, depth)
    unmatched = ranked.filter(~pl.col("is_matched"))
    listed = unmatched.with_columns(
        given=pl.col("item_id").map_elements(
            lambda item: json.dumps({"id": item}, ensure_ascii=False), return_dtype=pl.String
        )
    ).select(UNMATCHED.names())
    missing = asked.join(known, on="query_id", how="anti")["query_id"].to_list()
    n_ignored = found.join(asked, on="query_id", how="anti")["query_id"].n_unique()
    return Elsewhere(
        ranked.select(RANKINGS.names()).cast(RANKINGS),
        pl.DataFrame(schema=FAILED_QUERIES),
        listed.cast(UNMATCHED),
        queries.select("query_id", milliseconds=pl.lit(0.0)).cast(LATENCIES),
        {
            "n_queries": queries.height,
            "n_results": ranked.height,
            "n_failed": 0,
            "n_unmatched": listed.height,
            "n_merged": known.height - placed.height,
            "n_cut": n_cut,
            "n_missing": len(missing),
            "missing_queries": missing,
            "n_ignored": n_ignored,
            **latencies([]),
        },
        [*_notes(missing, n_ignored), *unmatched_notes(listed, ranked.height)],
    )


def _place(
    known: pl.DataFrame, documents: pl.DataFrame, chunks: pl.DataFrame, *, are_documents: bool
) -> pl.DataFrame:
    """Each item with its best line: query, item_id, chunk_id, is_matched, and what order needs."""
    of_chunk = chunks.select(written="chunk_id", chunk_id="chunk_id", doc="doc_id")
    lines = known.rename({"item_id": "written"}).join(of_chunk, on="written", how="left")
    if not are_documents:
        return lines.with_columns(
            item_id="written",
            is_matched=pl.col("chunk_id").is_not_null(),
            chunk_id=pl.col("chunk_id").fill_null(pl.col("written")),
        )
    first = chunks.group_by("doc_id", maintain_order=True).agg(first=pl.col("chunk_id").first())
    is_document = pl.col("written").is_in(documents["doc_id"].implode())
    item = pl.when(is_document).then("written").otherwise(pl.coalesce("doc", "written"))
    return (
        lines.with_columns(is_matched=is_document | pl.col("doc").is_not_null(), item_id=item)
        .join(first, left_on="item_id", right_on="doc_id", how="left")
        .with_columns(chunk_id=pl.coalesce("chunk_id", "first", "item_id"))
        .sort("retrieval_score", "written_item", descending=True)
        .unique(["query", "item_id"], keep="first", maintain_order=True)
    )


def _rank(placed: pl.DataFrame, depth: int) -> tuple[pl.DataFrame, int]:
    """By score, then the id as it is written, both descending: trec_eval's order."""
    order = ["query", "retrieval_score", "written_item"]
    ordered = placed.sort(order, descending=[False, True, True])
    ranked = ordered.with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query"))
    kept = ranked.filter(pl.col("rank") <= depth)
    return kept, ranked.height - kept.height


def _notes(missing: list[str], n_ignored: int) -> list[str]:
    notes = []
    if missing:
        shown = ", ".join(missing[:EXAMPLES]) + (", …" if len(missing) > EXAMPLES else "")
        notes.append(
            f"{counted(len(missing), 'query', ('is', 'are'))} missing from the run, which counts "
            f"as 0: {shown}"
        )
    if n_ignored:
        notes.append(
            f"{counted(n_ignored, 'query', ('is', 'are'))} in the run and not in the benchmark: "
            "ignored"
        )
    return notes


def _some(names: pl.Series) -> str:
    distinct = names.unique(maintain_order=True)
    return ", ".join(map(repr, distinct.head(3))) + (", …" if len(distinct) > 3 else "")
