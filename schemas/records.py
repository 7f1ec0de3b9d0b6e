"""What the stages hand on: documents, chunks and queries with their ground truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECORDS_VERSION = 1
"""Enters the key of every stage: raise it when the meaning of a stored record changes."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text as published; ``title`` is never part of ``text`` or of offsets."""

    doc_id: str
    text: str
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of one document; ``document.text[start:end] == text`` always holds."""

    doc_id: str
    start: int  # characters, inclusive
    end: int  # characters, exclusive
    text: str
    title: str | None = None  # stands before the text for embedding and BM25; None: not used

    @property
    def chunk_id(self) -> str:
        """See ``chunk_id_of``."""
        return chunk_id_of(self.doc_id, self.start, self.end)

    @property
    def embedded_text(self) -> str:
        """What the model reads: the title on a line of its own, then the text."""
        return self.text if self.title is None else f"{self.title}\n{self.text}"


def chunk_id_of(doc_id: str, start: int, end: int) -> str:
    """``doc_id#start-end``, the same on every machine."""
    return f"{doc_id}#{start}-{end}"


@dataclass(frozen=True, slots=True)
class GoldSpan:
    """A span of ground truth; offsets absent: the quote is located, once and exactly."""

    doc_id: str
    start: int | None = None  # characters, inclusive
    end: int | None = None  # characters, exclusive
    quote: str | None = None
    grade: int = 1


@dataclass(frozen=True, slots=True)
class Judgement:
    """The grade of one document for one query."""

    doc_id: str
    grade: int = 1


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its ground truth. ``None``: the field is absent; empty: given but empty."""

    query_id: str
    text: str
    tags: tuple[str, ...] = ()
    split: str | None = None
    answers: tuple[str, ...] | None = None
    spans: tuple[GoldSpan, ...] | None = None
    qrels: tuple[Judgement, ...] | None = None
    response: str | None = None
    reference_contexts: tuple[str, ...] | None = None
    filter: Mapping[str, Any] | None = None  # metadata that a retrieved document must have
