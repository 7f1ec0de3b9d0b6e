"""A query's ``filter``: only chunks of documents with that metadata are retrieved for it.

``{"lang": "fr", "year": [2025, 2026]}`` asks for documents whose ``lang`` is ``"fr"`` and whose
``year`` is one of the two; metadata that is a list has each of its values. ``"1"``, ``1`` and
``true`` differ; ``1`` and ``1.0`` do not. Labels know nothing of filters: what is relevant outside
of a filter counts as not found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from schemas.errors import InputError
from tasks.vector_blocks import Ints

SHOWN = 10

Value = tuple[str, Any]


def check_filters(documents: pl.DataFrame, queries: pl.DataFrame) -> None:
    """Refuse a filter that no document can pass by one of its keys.

    Args:
        documents: ``doc_id`` and ``metadata`` of DOCUMENTS.
        queries: BENCHMARK.

    Raises:
        InputError: no document has such a key, or none has that value; names the first such query,
            the key, and what there is.
    """
    asked = queries.select("query_id", "filter").drop_nulls().unique("filter", maintain_order=True)
    filters = [(query_id, json.loads(text)) for query_id, text in asked.iter_rows()]
    holders = _holders(documents, {key for _, wanted in filters for key in wanted})
    for query_id, wanted in filters:
        for key, value in wanted.items():
            if not any(one in holders.get(key, ()) for one in _values(value)):
                raise InputError(
                    f"the filter of query {query_id!r} asks for {key} = "
                    f"{json.dumps(value, ensure_ascii=False)}, but {_why(documents, holders, key)}"
                )


def _why(documents: pl.DataFrame, holders: Mapping[str, Mapping[Value, Ints]], key: str) -> str:
    if key in holders:
        values = sorted(json.dumps(value, ensure_ascii=False) for _, value in holders[key])
        return f"no document has that value; the values are: {_listed(values)}"
    keys = sorted({key for text in documents["metadata"] for key in json.loads(text)})
    if keys:
        return f"no document has metadata {key!r}; the keys are: {_listed(keys)}"
    return (
        "no document of the corpus has metadata; JSONL, Parquet and CSV carry it in further keys "
        "or columns, files of a folder have none"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


@dataclass
class Filters:
    """Which chunks each query may retrieve."""

    of_query: list[str | None]  # a filter as JSON, or none
    holders: Mapping[str, Mapping[Value, Ints]]  # key, value: rows of documents, ascending
    document_of_chunk: Ints  # (n_chunks,) row
    n_documents: int
    known: dict[str, Ints] = field(default_factory=dict)

    @classmethod
    def of(
        cls, documents: pl.DataFrame, chunks: pl.DataFrame, queries: pl.DataFrame
    ) -> Filters | None:
        """The filters of some queries; None when no query has any.

        Args:
            documents: ``doc_id`` and ``metadata`` of DOCUMENTS.
            chunks: CHUNKS.
            queries: BENCHMARK.
        """
        if queries["filter"].null_count() == queries.height:
            return None
        rows = documents.select("doc_id").with_row_index("row")
        placed = chunks.select("doc_id").join(rows, on="doc_id", how="left", maintain_order="left")
        asked = {
            key for text in queries["filter"].drop_nulls().unique() for key in json.loads(text)
        }
        return cls(
            queries["filter"].to_list(),
            _holders(documents, asked),
            placed["row"].to_numpy().astype(np.int64),
            documents.height,
        )

    def rows_of(self, query: int) -> Ints | None:
        """The rows of the chunks that a query may retrieve, ascending; None: all."""
        text = self.of_query[query]
        if text is None:
            return None
        if text not in self.known:
            self.known = {text: self._rows(json.loads(text))}  # equal filters often follow
        return self.known[text]

    def _rows(self, wanted: Mapping[str, Any]) -> Ints:
        passes = np.ones(self.n_documents, dtype=np.bool_)
        for key, asked in wanted.items():
            has_key = np.zeros(self.n_documents, dtype=np.bool_)
            for value in _values(asked):
                has_key[self.holders.get(key, {}).get(value, np.zeros(0, np.int64))] = True
            passes &= has_key
        return np.flatnonzero(passes[self.document_of_chunk])


def _holders(documents: pl.DataFrame, keys: Set[str]) -> dict[str, dict[Value, Ints]]:
    """Which documents hold a value under one of some keys, by their row."""
    found: dict[str, dict[Value, list[int]]] = {}
    for row, text in enumerate(documents["metadata"]):
        metadata = json.loads(text)
        for key in keys & metadata.keys():
            for value in set(_values(metadata[key])):
                found.setdefault(key, {}).setdefault(value, []).append(row)
    return {
        key: {value: np.array(rows, dtype=np.int64) for value, rows in of_key.items()}
        for key, of_key in found.items()
    }


def _values(given: Any) -> list[Value]:
    """What a value, or each of a list, is equal to; null and objects are equal to nothing."""
    kinds = {bool: "boolean", int: "number", float: "number", str: "string"}
    listed = given if isinstance(given, list) else [given]
    return [(kinds[type(value)], value) for value in listed if type(value) in kinds]
