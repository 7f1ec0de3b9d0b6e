"""Questions with answers from a table: ``question``, ``answer`` and, if wanted, ``query_id``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from schemas.records import Query
from tasks.identifiers import identifier, identifier_of_text
from tasks.sources import Located, SourceFile
from tasks.tabular_rows import read_csv

COLUMNS = ("query_id", "question", "answer")
REQUIRED = COLUMNS[1:]


def csv_queries(file: SourceFile) -> Iterator[Located[Query]]:
    """A query a row; a blank ``query_id`` becomes the first 16 digits of the question's sha256.

    Raises:
        InputError: another column, one that is missing, or a row without an answer.
    """
    for row in read_csv(file):
        for name in row.record:
            if name not in COLUMNS:
                near = difflib.get_close_matches(name, COLUMNS, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(COLUMNS)}"
                row.refuse(f"the column {name!r} is unknown; {hint}")
        for name in REQUIRED:
            if name not in row.record:
                row.refuse(f"there is no column {name!r}; the header is: {', '.join(row.record)}")
        question, answer = row.record["question"], row.record["answer"]
        if not answer.strip():
            row.refuse("the answer is blank; leave such a question out, or give it its answer")
        given = row.record.get("query_id", "")
        query_id = identifier(given) if given.strip() else identifier_of_text(question)
        yield Located(Query(query_id, question, answers=(answer,)), row.path, row.line)
