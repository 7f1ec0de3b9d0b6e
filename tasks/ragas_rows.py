"""Rows as ragas has them: ``user_input``, ``reference_contexts``, ``response``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schemas.records import Document, Judgement, Query
from tasks.corpora import jsonl_rows
from tasks.identifiers import identifier, identifier_of_text
from tasks.json_texts import parse_json
from tasks.sources import Located, SourceFile, read_text

Row = dict[str, Any]

CONTEXT_KEYS = ("reference_contexts", "retrieved_contexts")


def ragas_queries(file: SourceFile) -> Iterator[Located[Query]]:
    """A query a row; its reference contexts are its relevant documents, each with grade 1.

    Every other key of a row is left alone. Without a ``query_id`` a query's id is that of its text.

    Raises:
        InputError: a row without a ``user_input``, or with a value of the wrong type.
    """
    for row in _rows(file):
        text = row.record.get("user_input")
        if not isinstance(text, str):
            row.refuse(
                f"'user_input' is {text!r:.60}; expected a string (rows of several turns have no "
                f"single query); the keys are: {', '.join(map(repr, row.record))}"
            )
        response = row.record.get("response")
        if response is not None and not isinstance(response, str):
            row.refuse(f"'response' is {response!r:.60}; expected a string")
        try:
            given = row.record.get("query_id")
            query_id = identifier_of_text(text) if given is None else identifier(given)
        except ValueError as error:
            row.refuse(f"query_id {error}")
        contexts = _contexts(row, "reference_contexts")
        doc_ids = contexts and dict.fromkeys(map(identifier_of_text, contexts))
        query = Query(
            query_id,
            text,
            qrels=None if doc_ids is None else tuple(map(Judgement, doc_ids)),
            response=response,
            reference_contexts=None if contexts is None else tuple(contexts),
        )
        yield Located(query, row.path, row.line)


def ragas_documents(file: SourceFile) -> Iterator[Located[Document]]:
    """Every context of the rows, once: reference and retrieved ones.

    Raises:
        InputError: contexts that are not a list of strings.
    """
    seen: set[str] = set()
    for row in _rows(file):
        for text in [text for key in CONTEXT_KEYS for text in _contexts(row, key) or []]:
            doc_id = identifier_of_text(text)
            if doc_id not in seen:
                seen.add(doc_id)
                yield Located(Document(doc_id, text), row.path, row.line)


def _contexts(row: Located[Row], key: str) -> list[str] | None:
    contexts = row.record.get(key)
    if contexts is None:
        return None
    if not isinstance(contexts, list) or not all(isinstance(text, str) for text in contexts):
        row.refuse(f"{key!r} is {contexts!r:.60}; expected a list of strings")
    if not all(text.strip() for text in contexts):
        row.refuse(f"{key!r} holds a blank context")
    return contexts


def _rows(file: SourceFile) -> Iterator[Located[Row]]:
    """The objects of a JSONL file, or of a JSON list: there ``line`` is the row, from 1."""
    if file.path.suffix.lower() != ".json":
        yield from jsonl_rows(file)
        return
    whole = Located(read_text(file), file.path)
    rows = parse_json(whole)
    if not isinstance(rows, list):
        whole.refuse(f"expected a list of rows, but this is a {type(rows).__name__}")
    for number, row in enumerate(rows, start=1):
        located = Located(row, file.path, number)
        if not isinstance(row, dict):
            located.refuse(f"the row is {row!r:.60}; expected an object")
        yield located
