"""Documents and queries as frames, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import polars as pl

from schemas.frames import BENCHMARK, DOCUMENTS
from schemas.records import Document, GoldSpan, Judgement, Query

ROWS_AT_ONCE = 4_096

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def documents_frame(documents: Iterable[Document]) -> pl.DataFrame:
    """See ``document_rows``."""
    return frame_of(document_rows(documents), DOCUMENTS)


def document_rows(documents: Iterable[Document]) -> Iterator[tuple[str, str | None, str, str]]:
    """The rows of DOCUMENTS; metadata as JSON with sorted keys and no white space."""
    for document in documents:
        yield document.doc_id, document.title, document.text, _canonical(document.metadata)


def frame_of(rows: Iterable[tuple[Any, ...]], schema: pl.Schema) -> pl.DataFrame:
    """A frame of rows in the schema's order; only some of them are Python's objects at once."""
    parts = [schema.to_frame()]
    iterator = iter(rows)
    while part := list(islice(iterator, ROWS_AT_ONCE)):
        columns = dict(zip(schema, zip(*part, strict=True), strict=True))
        parts.append(pl.DataFrame(columns, schema=schema))
    return pl.concat(parts)  # not made one piece: that would be every text twice


def documents_from_frame(frame: pl.DataFrame) -> list[Document]:
    """The documents of DOCUMENTS."""
    rows = frame.select("doc_id", "text", "title", "metadata").iter_rows()
    return [
        Document(doc_id, text, title, json.loads(metadata))
        for doc_id, text, title, metadata in rows
    ]


def queries_frame(queries: Iterable[Query]) -> pl.DataFrame:
    """BENCHMARK, a row a query; a field that is absent is NULL, one that is empty an empty list."""
    rows = [
        {
            "query_id": query.query_id,
            "text": query.text,
            "tags": list(query.tags),
            "split": query.split,
            "answers": None if query.answers is None else list(query.answers),
            "spans": None if query.spans is None else [_span(span) for span in query.spans],
            "qrels": None
            if query.qrels is None
            else [{"doc_id": judged.doc_id, "grade": judged.grade} for judged in query.qrels],
            "response": query.response,
            "reference_contexts": None
            if query.reference_contexts is None
            else list(query.reference_contexts),
            "filter": None if query.filter is None else _canonical(query.filter),
        }
        for query in queries
    ]
    return pl.DataFrame(rows, schema=BENCHMARK)


def queries_from_frame(frame: pl.DataFrame) -> list[Query]:
    """The queries of BENCHMARK."""
    return [
        Query(
            query_id=row["query_id"],
            text=row["text"],
            tags=tuple(row["tags"] or ()),
            split=row["split"],
            answers=None if row["answers"] is None else tuple(row["answers"]),
            spans=None if row["spans"] is None else tuple(GoldSpan(**s) for s in row["spans"]),
            qrels=None if row["qrels"] is None else tuple(Judgement(**j) for j in row["qrels"]),
            response=row["response"],
            reference_contexts=None
            if row["reference_contexts"] is None
            else tuple(row["reference_contexts"]),
            filter=None if row["filter"] is None else json.loads(row["filter"]),
        )
        for row in frame.iter_rows(named=True)
    ]


def _canonical(value: Mapping[str, Any]) -> str:
    return _ENCODER.encode(dict(value)) if value else "{}"


def _span(span: GoldSpan) -> dict[str, str | int | None]:
    return {
        "doc_id": span.doc_id,
        "start": span.start,
        "end": span.end,
        "quote": span.quote,
        "grade": span.grade,
    }
