"""Judgements a line, as BEIR and TREC write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from schemas.errors import InputError
from schemas.records import Judgement
from tasks.sources import Located

Fields = tuple[str, str, str]  # query_id, doc_id, grade

IDS_SHOWN = 10

_GRADE = re.compile(r"[+-]?[0-9]{1,9}")


def collect_judgements(lines: Iterable[Located[Fields]]) -> dict[str, list[Judgement]]:
    """The judgements of each query, in their order.

    Raises:
        InputError: a grade that is no whole number, or a document that is judged twice for a query.
    """
    grades: dict[str, dict[str, int]] = {}
    for line in lines:
        query_id, doc_id, grade = line.record
        if not _GRADE.fullmatch(grade):
            line.refuse(f"the grade is {grade!r}; expected a whole number")
        if not query_id or not doc_id:
            line.refuse("the id of a query or document is blank")
        judged = grades.setdefault(query_id, {})
        if doc_id in judged:
            line.refuse(f"the document {doc_id!r} is judged twice for the query {query_id!r}")
        judged[doc_id] = int(grade)
    return {
        query_id: [Judgement(doc_id, grade) for doc_id, grade in judged.items()]
        for query_id, judged in grades.items()
    }


def require_texts(unknown: Iterable[str], *, qrels: Path, queries: str) -> None:
    """Refuse judgements of queries that have no text.

    Raises:
        InputError: names the first ten.
    """
    ids = list(unknown)
    if ids:
        shown = ", ".join(map(repr, ids[:IDS_SHOWN])) + ", …" * (len(ids) > IDS_SHOWN)
        raise InputError(
            f"judged queries without a text in {queries}: {len(ids)}, namely {shown}", path=qrels
        )
