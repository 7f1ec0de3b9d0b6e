"""Documents from rows: JSONL (BEIR's too), Parquet and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from schemas.records import Document
from tasks.identifiers import identifier
from tasks.json_texts import parse_object
from tasks.sources import Located, SourceFile, read_lines
from tasks.tabular_rows import read_csv, read_parquet

Row = dict[str, Any]

ID_KEYS = ("doc_id", "_id")


def jsonl_rows(file: SourceFile) -> Iterator[Located[Row]]:
    """The objects of a JSONL file, one a line; blank lines are skipped."""
    for text in read_lines(file):
        yield Located(parse_object(text), text.path, text.line)


READERS: Mapping[str, Callable[[SourceFile], Iterator[Located[Row]]]] = {
    "jsonl": jsonl_rows,
    "parquet": read_parquet,
    "csv": read_csv,
    "beir": jsonl_rows,
}


def row_documents(file: SourceFile, format: str) -> Iterator[Located[Document]]:
    """The documents of a file of rows, in its order.

    Raises:
        InputError: a row without an id or text, or with one of the wrong type.
    """
    for row in READERS[format](file):
        yield Located(document_of(row), row.path, row.line)


def document_of(row: Located[Row]) -> Document:
    """``doc_id`` or ``_id``, ``title`` if any, ``text``; every other key is metadata.

    A blank title is none. The entries of an object called ``metadata`` (BEIR's) count as keys.

    Raises:
        InputError: see ``row_documents``.
    """
    values = dict(row.record)
    given = [value for key in ID_KEYS if (value := values.pop(key, None)) is not None]
    if not given:
        row.refuse(f"there is no 'doc_id' (or '_id'); the keys are: {_keys(row)}")
    try:
        ids = [identifier(value) for value in given]
    except ValueError as error:
        row.refuse(f"doc_id {error}")
    if ids.count(ids[0]) < len(ids):
        row.refuse("'doc_id' and '_id' are both given and differ")
    text, title = values.pop("text", None), values.pop("title", None)
    if not isinstance(text, str):
        got = "there is no 'text'" if text is None else f"'text' is {text!r:.60}, not a string"
        row.refuse(f"{got}; the keys are: {_keys(row)}")
    if title is not None and not isinstance(title, str):
        row.refuse(f"'title' is {title!r:.60}; expected a string")
    if isinstance(values.get("metadata"), dict):
        values = values.pop("metadata") | values
    title = title if title is not None and title.strip() else None
    return Document(ids[0], text, title, values)


def _keys(row: Located[Row]) -> str:
    return ", ".join(map(repr, row.record))
