"""What a retriever from elsewhere gives is read strictly, and found again in the corpus."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

from schemas.errors import StageError
from schemas.frames import CHUNKS, DOCUMENTS
from schemas.hits import Hit
from tasks.elsewhere import latencies
from tasks.hits import HitError, read_hits
from tasks.placing_hits import PlacedHits, Placer

#            0         1         2
#            0123456789012345678901234
TEXTS = {
    "a": "one two three four five s",
    "b": "same",
    "c": "same",
    "whole": "all of it",
    "none": "",
}
CUTS = [("a", 0, 8), ("a", 8, 19), ("a", 19, 25), ("b", 0, 4), ("c", 0, 4), ("whole", 0, 9)]


def place(hits: list[Any], *, are_documents: bool = False, depth: int = 10) -> PlacedHits:
    documents = pl.DataFrame(
        [(name, None, text, "{}") for name, text in TEXTS.items()], schema=DOCUMENTS, orient="row"
    )
    chunks = pl.DataFrame(
        [(f"{d}#{s}-{e}", d, s, e, TEXTS[d][s:e], None) for d, s, e in CUTS],
        schema=CHUNKS,
        orient="row",
    )
    placer = Placer(chunks, documents, are_documents=are_documents, depth=depth)
    return placer.place(read_hits(hits))


def ids(placed: PlacedHits) -> list[str]:
    return [item.item_id for item in placed.items]


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ({"results": []}, r"expected a list"),
        ("text", r"expected a list"),
        (None, r"expected a list"),
        ([3], r"result 1 is 3; expected a Hit or a table"),
        ([{"id": "a"}], r"result 1 is \{'id': 'a'\}; expected a Hit"),
        ([{"chunk_id": 7, "score": 1}], "chunk_id is 7; expected a text"),
        ([{"doc_id": "", "score": 1}], "doc_id is ''; expected a text"),
        ([{"doc_id": "a\ud800", "score": 1}], "no Unicode text"),
        ([{"doc_id": "a", "start": 3, "score": 1}], "start is 3 and end is None"),
        ([{"doc_id": "a", "start": 3, "end": 3, "score": 1}], "0 <= start < end"),
        ([{"text": "x", "start": 0, "end": 3, "score": 1}], "without the doc_id"),
        ([{"doc_id": "a", "score": "0.5"}], "the score is '0.5'; expected a finite number"),
        ([{"doc_id": "a", "score": True}], "the score is True"),
        ([{"doc_id": "a", "score": math.nan}], "the score is nan"),
        ([{"doc_id": "a", "score": math.inf}], "the score is inf"),
        ([{"doc_id": "a", "score": 10**400}], "expected a finite number"),
        ([{"doc_id": "a", "score": 1}, {"doc_id": "b"}], "result 2 has no score"),
        ([Hit(1.0, "a#0-8"), Hit(0.5, "a#0-8")], r"result 2 comes a second time: chunk_id 'a#0-8'"),
        ([{"doc_id": "a", "score": 1}, {"doc_id": "a", "score": 0}], "comes a second time"),
    ],
)
def test_an_answer_that_breaks_the_protocol_says_which_result_and_how(
    results: Any, words: str
) -> None:
    with pytest.raises(HitError, match=words):
        read_hits(results)


def test_results_stand_by_score_then_id_and_without_scores_as_they_came() -> None:
    scored = [Hit(1, "b#0-4"), Hit(2, "a#0-8"), Hit(1, "c#0-4")]
    assert ids(place(scored)) == ["a#0-8", "c#0-4", "b#0-4"]
    unscored = place([Hit(chunk_id="b#0-4"), Hit(chunk_id="a#0-8"), Hit(chunk_id="c#0-4")])
    assert ids(unscored) == ["b#0-4", "a#0-8", "c#0-4"]
    assert [item.score for item in unscored.items] == [1, 1 / 2, 1 / 3]
    cut = place(scored, depth=2)
    assert (ids(cut), cut.n_cut) == (["a#0-8", "c#0-4"], 1)


@pytest.mark.parametrize(
    ("hit", "chunk", "is_shifted"),
    [
        (Hit(1, doc_id="a", start=8, end=19), "a#8-19", False),
        (Hit(1, doc_id="a", start=5, end=17), "a#8-19", True),  # 9 of its 11 characters
        (Hit(1, doc_id="a", start=0, end=25), "a#8-19", True),  # holds all: the longest
        (Hit(1, doc_id="a", start=20, end=22), "a#19-25", True),  # within
        (Hit(1, doc_id="a", text="two three"), "a#8-19", True),  # 4-13, once: shares 5 of 9
        (Hit(1, doc_id="a", text="three four "), "a#8-19", False),  # a chunk's text
        (Hit(1, doc_id="whole"), "whole#0-9", False),  # its one chunk
        (Hit(1, text="all of it"), "whole#0-9", False),
        (Hit(1, doc_id="c", text="same"), "c#0-4", False),
    ],
)
def test_a_result_is_matched_by_id_by_offsets_or_by_text(
    hit: Hit, chunk: str, is_shifted: bool
) -> None:
    (item,) = place([hit]).items
    assert (item.item_id, item.is_matched, item.is_shifted) == (chunk, True, is_shifted)


@pytest.mark.parametrize(
    ("hit", "name"),
    [
        (Hit(1, "a#0-9"), "a#0-9"),
        (Hit(1, doc_id="gone"), "gone"),
        (Hit(1, doc_id="gone", start=0, end=8), "gone#0-8"),
        (Hit(1, doc_id="a", start=25, end=60), "a#25-60"),  # beyond the document
        (Hit(1, text="nowhere"), None),
        (Hit(1, doc_id="a", text="e"), None),  # stands there more than once
    ],
)
def test_what_is_not_in_the_corpus_keeps_its_rank(hit: Hit, name: str | None) -> None:
    placed = place([Hit(2, "b#0-4"), hit, Hit(0, "c#0-4")])
    assert [item.is_matched for item in placed.items] == [True, False, True]
    assert name is None or placed.items[1].item_id == name


def test_a_text_that_two_chunks_have_may_come_twice_and_no_oftener() -> None:
    assert ids(place([Hit(2, text="same"), Hit(1, text="same")])) == ["b#0-4", "c#0-4"]
    with pytest.raises(HitError, match="comes 3 times, and the corpus holds it 2 times"):
        place([Hit(3 - n, text="same") for n in range(3)])
    with pytest.raises(HitError, match="comes 2 times, and the corpus holds it 0 times"):
        place([Hit(2, text="nowhere"), Hit(1, text="nowhere")])


def test_results_on_one_chunk_or_document_are_one_with_the_better_score() -> None:
    placed = place([Hit(1, doc_id="a", start=8, end=15), Hit(3, doc_id="a", start=10, end=19)])
    assert [(item.item_id, item.score) for item in placed.items] == [("a#8-19", 3)]
    assert placed.n_merged == 1
    placed = place([Hit(1, "a#0-8"), Hit(3, "a#19-25"), Hit(2, "b#0-4")], are_documents=True)
    assert [(i.item_id, i.chunk_id, i.score) for i in placed.items] == [
        ("a", "a#19-25", 3),
        ("b", "b#0-4", 2),
    ]


def test_documents_are_matched_by_their_ids_alone() -> None:
    placed = place(
        [Hit(4, doc_id="none"), Hit(3, doc_id="a"), Hit(2, doc_id="gone"), Hit(1, "b")],
        are_documents=True,
    )
    assert [(item.item_id, item.is_matched) for item in placed.items] == [
        ("none", True),  # an empty document, without a chunk
        ("a", True),
        ("gone", False),
        ("b", True),
    ]


def test_document_ids_alone_are_refused_where_chunks_are_labelled() -> None:
    with pytest.raises(StageError, match=r"doc_id alone \('a', which has 3 chunks\)"):
        place([Hit(1, doc_id="a")])


def test_latencies_are_percentiles_of_what_was_asked() -> None:
    assert latencies([]) == {"latency_p50_ms": None, "latency_p95_ms": None, "n_latency": 0}
    # of 1, 2, … 101 the median is the 51st, the 95th percentile the 96th
    assert latencies([float(n) for n in range(1, 102)])["latency_p95_ms"] == 96
