"""Retrieval by somebody's own function, named ``package.module:factory``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import polars as pl

from schemas.errors import StageError
from schemas.hits import Searchable
from schemas.records import Chunk, Document
from schemas.retrievers import Retrieval
from tasks.elsewhere import Answers, Elsewhere, asked_depth, filters_of
from tasks.hits import HitError, read_hits
from tasks.placing_hits import Placer
from tasks.plugins import RAISED, import_function, prints_to_stderr


def retrieve_by_plugin(
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    retrieval: Retrieval,
    *,
    are_documents: bool,
) -> Elsewhere:
    """Ask the plug-in for every query, one after the other.

    Args:
        documents: DOCUMENTS.
        chunks: CHUNKS.
        queries: BENCHMARK.
        retrieval: the section; it names a plug-in.
        are_documents: whether documents are ranked.

    Raises:
        ConfigurationError: it does not import, or has no such function.
        StageError: it raised, or broke the protocol; names the query and what came.
    """
    name = f"retrieval.plugin = {retrieval.plugin!r}"
    factory = import_function(str(retrieval.plugin), "retrieval.plugin")
    retriever = _make(factory, searchable_of(documents, chunks), retrieval.options, name)
    placer = Placer(chunks, documents, are_documents=are_documents, depth=retrieval.depth)
    k = asked_depth(retrieval, are_documents=are_documents)
    answers, filters = Answers(), filters_of(queries)
    for query_id, text in queries.select("query_id", "text").iter_rows():
        where = f"{name} on the query {query_id!r}"
        started = perf_counter()
        try:
            with prints_to_stderr():
                results = retriever.retrieve(text, k, filter=filters.get(query_id))
                if isinstance(results, Iterable) and not isinstance(results, str | bytes | Mapping):
                    results = list(results)
        except RAISED as error:
            raise StageError(f"{where}: {type(error).__name__}: {error}") from error
        answers.milliseconds[query_id] = 1000 * (perf_counter() - started)
        try:
            answers.placed[query_id] = placer.place(read_hits(results))
        except HitError as error:
            raise StageError(f"{where}: {error}") from None
    return answers.gather(queries["query_id"].to_list(), {})


def searchable_of(documents: pl.DataFrame, chunks: pl.DataFrame) -> Searchable:
    """The records of both frames."""
    return Searchable(
        documents=[
            Document(doc_id, text, title, json.loads(metadata or "{}"))
            for doc_id, text, title, metadata in documents.select(
                "doc_id", "text", "title", "metadata"
            ).iter_rows()
        ],
        chunks=[
            Chunk(*values)
            for values in chunks.select("doc_id", "start", "end", "text", "title").iter_rows()
        ],
    )


def _make(factory: Any, searchable: Searchable, options: Mapping[str, Any], name: str) -> Any:
    try:
        with prints_to_stderr():
            retriever = factory(searchable, dict(options))
    except RAISED as error:
        raise StageError(f"{name}: the factory raised {type(error).__name__}: {error}") from error
    if not callable(getattr(retriever, "retrieve", None)):
        raise StageError(
            f"{name}: the factory returned {retriever!r:.80}; expected an object with a method "
            "retrieve(query, k, *, filter)"
        )
    return retriever
