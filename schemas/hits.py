"""What a retriever from elsewhere gives and gets: the protocol behind ``retrieval.plugin``.

A plug-in is a function, ``retrieval.plugin = "package.module:factory"``: it is called once with the
corpus and ``[retrieval.options]``, and returns a ``Retriever``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.records import Chunk, Document


@dataclass(frozen=True, slots=True)
class Hit:
    """One result for a query: where it is in the corpus, and its score.

    Name it by ``chunk_id``, by ``doc_id`` with ``start`` and ``end``, by ``doc_id`` with ``text``,
    by ``doc_id`` alone (with document labels) or by ``text`` alone; the first of these that is
    there is what counts. Without any scores, results stand in the order in which they come.
    """

    score: float | None = None  # greater is better
    chunk_id: str | None = None
    doc_id: str | None = None
    start: int | None = None  # characters, inclusive
    end: int | None = None  # characters, exclusive
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Searchable:
    """What there is to retrieve from."""

    documents: Sequence[Document]
    chunks: Sequence[Chunk]


class Retriever(Protocol):
    """Answers queries; it is called by one thread."""

    def retrieve(
        self, query: str, k: int, *, filter: Mapping[str, Any] | None
    ) -> Sequence[Hit | Mapping[str, Any]]:
        """The k best results, as ``Hit`` or as tables with its names.

        Args:
            query: the query's text.
            k: the most results that are looked at.
            filter: metadata that a result's document must have; None: any document will do.
        """


Factory = Callable[[Searchable, Mapping[str, Any]], Retriever]
