"""The quotes of spans that were written without one.

A span that is offsets alone could never be found again when its document changes. At its first
evaluation it gets the text that stands there as its quote, kept by (benchmark path, query_id,
doc_id, start, end), never in the benchmark's file or digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import polars as pl
from filelock import FileLock

from schemas.frames import QUERIES


def fill_quotes(
    documents: pl.DataFrame, queries: pl.DataFrame, *, folder: Path, benchmark_path: str
) -> pl.DataFrame:
    """Give each span without a quote the one it had at its first evaluation.

    Args:
        documents: DOCUMENTS of this run.
        queries: QUERIES.
        folder: where quotes are kept, one JSON file a benchmark.
        benchmark_path: which benchmark; the same queries elsewhere start anew.

    Returns:
        QUERIES; a span that is out of its document's range keeps no quote.
    """
    if not count_bare_spans(queries):
        return queries
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(benchmark_path.encode()).hexdigest()[:32]}.json"
    with FileLock(path.with_suffix(".lock")):
        quotes = _read(path)
        n_known = len(quotes)
        texts = dict(documents.select("doc_id", "text").iter_rows())
        spans = [
            None if row is None else [_filled(query_id, span, texts, quotes) for span in row]
            for query_id, row in queries.select("query_id", "spans").iter_rows()
        ]
        if len(quotes) > n_known:
            _write(path, quotes)
    return queries.with_columns(pl.Series("spans", spans, dtype=QUERIES["spans"]))


def count_bare_spans(queries: pl.DataFrame) -> int:
    """How many spans are offsets alone."""
    spans = queries.select(pl.col("spans").explode().struct.unnest()).drop_nulls("doc_id")
    return int(spans["quote"].is_null().sum())


def _filled(
    query_id: str, span: dict[str, Any], texts: dict[str, str], quotes: dict[str, str]
) -> dict[str, Any]:
    if span["quote"] is not None or span["start"] is None:
        return span
    key = json.dumps([query_id, span["doc_id"], span["start"], span["end"]], ensure_ascii=False)
    text = texts.get(span["doc_id"])
    if key not in quotes and text is not None and span["end"] <= len(text):
        quotes[key] = text[span["start"] : span["end"]]
    return {**span, "quote": quotes.get(key)}


def _read(path: Path) -> dict[str, str]:
    with contextlib.suppress(FileNotFoundError):
        quotes: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        return quotes
    return {}


def _write(path: Path, quotes: dict[str, str]) -> None:
    partial = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    with partial.open("w", encoding="utf-8") as stream:
        json.dump(quotes, stream, ensure_ascii=False, indent=0, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)
