"""Documents and queries from files: what may come in, checked before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from schemas.errors import InputError
from schemas.records import Document, Query
from tasks.beir_folders import beir_queries
from tasks.benchmarks import jsonl_queries
from tasks.corpora import row_documents
from tasks.extracting import file_document
from tasks.question_tables import csv_queries
from tasks.ragas_rows import ragas_documents, ragas_queries
from tasks.record_frames import (
    document_rows,
    documents_frame,
    documents_from_frame,
    queries_frame,
    queries_from_frame,
)
from tasks.sources import Located, Source
from tasks.squad_files import squad_documents, squad_queries
from tasks.surveying import survey_benchmark, survey_corpus
from tasks.trec_topics import trec_queries

__all__ = [
    "Source",
    "document_rows",
    "documents_frame",
    "documents_from_frame",
    "load_benchmark",
    "load_corpus",
    "queries_frame",
    "queries_from_frame",
    "survey_benchmark",
    "survey_corpus",
]

QUERY_READERS: dict[str, Callable[[Source], Iterator[Located[Query]]]] = {
    "jsonl": lambda source: jsonl_queries(source.files[0]),
    "squad": lambda source: squad_queries(source.files[0]),
    "ragas": lambda source: ragas_queries(source.files[0]),
    "csv": lambda source: csv_queries(source.files[0]),
    "beir": beir_queries,
    "trec": trec_queries,
}


def load_corpus(source: Source) -> Iterator[Document]:
    """The documents of a corpus, in the order of their files and rows.

    Raises:
        InputError: a file that cannot be parsed or changed since it was surveyed, a document that
            is empty, an id given twice, no document at all; with file and, where there is one,
            line.
    """
    seen: dict[str, int | None] = {}
    for located in _documents(source):
        document = located.record
        if document.doc_id in seen:
            located.refuse(
                f"the doc_id {document.doc_id!r} is given twice{_first(seen[document.doc_id])}"
            )
        if not document.text.strip():
            located.refuse(f"the document {document.doc_id!r} is empty")
        seen[document.doc_id] = located.line
        yield document
    if not seen:
        raise InputError("there is no document in it", path=source.files[0].path)


def load_benchmark(source: Source, *, split: str | None) -> list[Query]:
    """The queries of a split in the file's order; of the whole file when ``split`` is None.

    Every query is checked, those of other splits too.

    Raises:
        InputError: as ``load_corpus``, for queries; or no query is of this split.
    """
    seen: dict[str, int | None] = {}
    queries: list[Query] = []
    for located in QUERY_READERS[source.format](source):
        query = located.record
        if query.query_id in seen:
            located.refuse(
                f"the query_id {query.query_id!r} is given twice{_first(seen[query.query_id])}"
            )
        if not query.text.strip():
            located.refuse(f"the text of the query {query.query_id!r} is blank")
        seen[query.query_id] = located.line
        queries.append(query)
    if not queries:
        raise InputError("there is no query in it", path=source.files[0].path)
    chosen = [query for query in queries if split is None or query.split == split]
    if not chosen:
        there = sorted({query.split for query in queries if query.split is not None})
        known = f"the splits are: {', '.join(there)}" if there else "no query has a split"
        raise InputError(f"no query is of the split {split!r}; {known}", path=source.files[0].path)
    return chosen


def _documents(source: Source) -> Iterable[Located[Document]]:
    if source.format == "folder":
        return map(file_document, source.files)
    (file,) = source.files
    if source.format == "squad":
        return squad_documents(file)
    if source.format == "ragas":
        return ragas_documents(file)
    return row_documents(file, source.format)


def _first(line: int | None) -> str:
    return "" if line is None else f", first on line {line}"
