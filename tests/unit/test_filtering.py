"""A query's filter: what it lets through, and what no document has."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from schemas.errors import InputError
from schemas.frames import CHUNKS
from tasks.filtering import Filters, check_filters

METADATA: list[dict[str, Any]] = [
    {"lang": "fr", "year": 2025},
    {"lang": "en", "year": 2026.0, "topics": ["boats", "law"]},
    {"lang": "fr", "year": "2026", "is_new": True},
    {},
]


def documents(metadata: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(
        {"doc_id": [f"d{i}" for i in range(len(metadata))], "metadata": map(json.dumps, metadata)}
    )


def queries(*filters: dict[str, Any] | None) -> pl.DataFrame:
    texts = [None if one is None else json.dumps(one) for one in filters]
    names = [f"q{i}" for i in range(len(filters))]
    return pl.DataFrame({"query_id": names, "filter": pl.Series(texts, dtype=pl.String)})


def chunks(*doc_ids: str) -> pl.DataFrame:
    return pl.DataFrame(
        [dict.fromkeys(CHUNKS) | {"doc_id": doc_id} for doc_id in doc_ids], schema=CHUNKS
    )


@pytest.mark.parametrize(
    ("wanted", "passing"),
    [
        ({"lang": "fr"}, [0, 2]),
        ({"lang": ["fr", "en"]}, [0, 1, 2]),
        ({"lang": "fr", "year": 2025}, [0]),
        ({"year": 2026}, [1]),  # the number, not the text
        ({"year": "2026"}, [2]),
        ({"topics": "law"}, [1]),  # one of a list
        ({"is_new": True}, [2]),
        ({"is_new": 1}, []),
        ({"lang": "en", "year": 2025}, []),
    ],
)
def test_a_filter_lets_through_what_has_all_its_values(
    wanted: dict[str, Any], passing: list[int]
) -> None:
    filters = Filters.of(documents(METADATA), chunks("d0", "d1", "d2", "d3"), queries(wanted))
    assert filters is not None
    rows = filters.rows_of(0)
    assert rows is not None
    assert rows.tolist() == passing


def test_every_chunk_of_a_document_passes_and_queries_without_a_filter_see_all() -> None:
    filters = Filters.of(
        documents(METADATA), chunks("d2", "d1", "d0", "d0"), queries(None, {"lang": "fr"})
    )
    assert filters is not None
    assert filters.rows_of(0) is None
    rows = filters.rows_of(1)
    assert rows is not None
    assert rows.tolist() == [0, 2, 3]


def test_without_any_filter_there_is_nothing_to_look_up() -> None:
    assert Filters.of(documents(METADATA), chunks("d0"), queries(None, None)) is None


@pytest.mark.parametrize(
    ("metadata", "wanted", "message"),
    [
        (
            METADATA,
            {"language": "fr"},
            "the filter of query 'q1' asks for language = \"fr\", but no document has metadata "
            "'language'; the keys are: is_new, lang, topics, year",
        ),
        (METADATA, {"lang": "xx"}, 'no document has that value; the values are: "en", "fr"'),
        (METADATA, {"year": "2025"}, 'the values are: "2026", 2025, 2026.0'),
        ([{}, {}], {"lang": "fr"}, "no document of the corpus has metadata"),
    ],
)
def test_a_filter_on_what_no_document_has_is_refused(
    metadata: list[dict[str, Any]], wanted: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_filters(documents(metadata), queries(None, wanted))
    assert message in str(caught.value)


def test_filters_that_some_document_passes_are_fine() -> None:
    check_filters(documents(METADATA), queries(None, {"lang": ["xx", "fr"]}))
