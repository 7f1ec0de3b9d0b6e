"""SQuAD JSON: documents and queries in one file (Rajpurkar et al. 2016; 2.0 and XQuAD alike)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from schemas.errors import InputError
from schemas.records import Document, GoldSpan, Query
from tasks.identifiers import identifier
from tasks.json_texts import parse_object
from tasks.sources import Located, SourceFile, read_text

Paragraph = tuple[str, str, dict[str, Any]]  # doc_id, title, the paragraph as given


def squad_documents(file: SourceFile) -> Iterator[Located[Document]]:
    """A document a paragraph: ``TITLE/0000``, ``TITLE/0001``, …; its title is the article's.

    Raises:
        InputError: the file is not laid out like SQuAD's.
    """
    for doc_id, title, paragraph in _paragraphs(file):
        text = _value(file, paragraph, "context", str, f"the paragraph {doc_id}")
        yield Located(Document(doc_id, text, title), file.path)


def squad_queries(file: SourceFile) -> Iterator[Located[Query]]:
    """The questions; answers with offsets are spans too. No answers (2.0): given but empty.

    Raises:
        InputError: the file is not laid out like SQuAD's.
    """
    for doc_id, _, paragraph in _paragraphs(file):
        for row in _value(file, paragraph, "qas", list, f"the paragraph {doc_id}"):
            yield Located(_query(file, doc_id, row), file.path)


def _query(file: SourceFile, doc_id: str, row: Any) -> Query:
    where = f"a question of {doc_id}"
    row = _object(file, row, where)
    try:
        query_id = identifier(row.get("id"))
    except ValueError as error:
        _refuse(file, f"the id of {where} {error}")
    where = f"the question {query_id!r}"
    text = _value(file, row, "question", str, where)
    answers: dict[str, None] = {}  # annotators repeat each other: each answer once, in order
    spans: dict[GoldSpan, None] = {}
    for entry in _value(file, row, "answers", list, where):
        answer = _object(file, entry, f"an answer of {where}")
        quote = _value(file, answer, "text", str, f"an answer of {where}")
        if not quote.strip():
            _refuse(file, f"an answer of {where} is blank")
        answers[quote] = None
        start = answer.get("answer_start")
        if start is None:
            continue
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            _refuse(file, f"the answer_start of {where} is {start!r}; expected characters, from 0")
        spans[GoldSpan(doc_id, start, start + len(quote), quote)] = None
    has_spans = bool(spans) or not answers
    return Query(query_id, text, answers=tuple(answers), spans=tuple(spans) if has_spans else None)


def _paragraphs(file: SourceFile) -> Iterator[Paragraph]:
    """The paragraphs in order; articles of one title are numbered on."""
    content = parse_object(Located(read_text(file), file.path))
    counts: dict[str, int] = {}
    for number, entry in enumerate(_value(file, content, "data", list, "the file"), start=1):
        article = _object(file, entry, f"article {number}")
        title = _value(file, article, "title", str, f"article {number}")
        if not title.strip():
            _refuse(file, f"the title of article {number} is blank")
        for entry in _value(file, article, "paragraphs", list, f"the article {title!r}"):
            paragraph = _object(file, entry, f"a paragraph of {title!r}")
            index = counts.get(title, 0)
            counts[title] = index + 1
            yield f"{title}/{index:04d}", title, paragraph


def _object(file: SourceFile, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(file, f"{where} is {value!r:.60}, not an object")
    return value


def _value(file: SourceFile, owner: dict[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in owner:
        _refuse(file, f"{where} has no {key!r}; the keys are: {', '.join(map(repr, owner))}")
    if not isinstance(owner[key], kind):
        expected = "a string" if kind is str else "a list"
        _refuse(file, f"{key!r} of {where} is {owner[key]!r:.60}, not {expected}")
    return owner[key]


def _refuse(file: SourceFile, message: str) -> NoReturn:
    raise InputError(message, path=file.path)
