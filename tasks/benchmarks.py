"""Benchmark JSONL: a query a line, each line checked against one model."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from schemas.records import GoldSpan, Judgement, Query
from tasks.corpora import jsonl_rows
from tasks.identifiers import identifier
from tasks.sources import Located, SourceFile

FAULTS_SHOWN = 3


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank")
    return text


Id = Annotated[str, BeforeValidator(identifier)]
Text = Annotated[str, AfterValidator(_not_blank)]
Scalar = bool | int | float | Text
Filter = dict[Text, Scalar | Annotated[list[Scalar], Field(min_length=1)]]
Grade = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Offset = Annotated[int, Field(ge=0, lt=2**53)]  # characters


class Row(BaseModel):
    """An object of the file: unknown keys are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SpanRow(Row):
    """A gold span; without offsets its quote is located, once and exactly."""

    doc_id: Id
    start: Offset | None = None
    end: Offset | None = None
    quote: Text | None = None
    grade: Grade = 1

    @model_validator(mode="after")
    def _can_be_placed(self) -> SpanRow:
        if (self.start is None) != (self.end is None):
            raise ValueError("has only one of start and end; give both, or a quote alone")
        if self.start is None and self.quote is None:
            raise ValueError("has neither start and end nor a quote to look for")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError(f"ends at {self.end}, not after its start {self.start}")
        return self


class JudgementRow(Row):
    """The grade of a document."""

    doc_id: Id
    grade: Grade = 1


class QueryRow(Row):
    """A query and its ground truth, as in the file."""

    query_id: Id
    text: Text
    tags: list[Text] = []
    split: Text | None = None
    answers: list[Text] | None = None
    spans: list[SpanRow] | None = None
    qrels: list[JudgementRow] | None = None
    response: str | None = None
    reference_contexts: list[Text] | None = None
    filter: Annotated[Filter, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _nothing_twice(self) -> QueryRow:
        judged = Counter(judgement.doc_id for judgement in self.qrels or [])
        placed = Counter((s.doc_id, s.start, s.end, s.quote) for s in self.spans or [])
        for doc_id, count in judged.items():
            if count > 1:
                raise ValueError(f"qrels judges the document {doc_id!r} {count} times")
        for place, count in placed.items():
            if count > 1:
                raise ValueError(f"spans holds the same span of {place[0]!r} {count} times")
        return self


def jsonl_queries(file: SourceFile) -> Iterator[Located[Query]]:
    """The queries of a benchmark file.

    Raises:
        InputError: a line that is not such a query; every fault is named with its key.
    """
    for row in jsonl_rows(file):
        try:
            query = QueryRow.model_validate(row.record)
        except ValidationError as error:
            faults = [_explain(fault, row.record) for fault in error.errors()]
            more = len(faults) - FAULTS_SHOWN
            row.refuse("; ".join(faults[:FAULTS_SHOWN]) + (f"; and {more} more" * (more > 0)))
        yield Located(_query(query), row.path, row.line)


def _query(row: QueryRow) -> Query:
    return Query(
        query_id=row.query_id,
        text=row.text,
        tags=tuple(row.tags),
        split=row.split,
        answers=None if row.answers is None else tuple(row.answers),
        spans=None if row.spans is None else tuple(GoldSpan(**dict(s)) for s in row.spans),
        qrels=None if row.qrels is None else tuple(Judgement(**dict(j)) for j in row.qrels),
        response=row.response,
        reference_contexts=None
        if row.reference_contexts is None
        else tuple(row.reference_contexts),
        filter=row.filter,
    )


def _explain(fault: Any, row: dict[str, Any]) -> str:
    """A fault of pydantic's in our words: ``spans[0].strat: unknown key; did you mean …``."""
    place = ""
    for part in fault["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    if fault["type"] == "extra_forbidden":
        known = list(_model_at(fault["loc"]).model_fields)
        near = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        return f"{place}: unknown key; {hint}"
    if fault["type"] == "missing":
        return f"{place}: this key is required; the keys are: {', '.join(map(repr, row))}"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "value_error":
        return f"{place} {message}".strip()
    return f"{place}: {message[0].lower()}{message[1:]}, but got {fault['input']!r:.60}"


def _model_at(location: tuple[int | str, ...]) -> type[Row]:
    owner = location[0] if len(location) > 1 else None
    models: dict[object, type[Row]] = {"spans": SpanRow, "qrels": JudgementRow}
    return models.get(owner, QueryRow)
