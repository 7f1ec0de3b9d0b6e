import itertools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import InputError
from schemas.experiment import Labelling, LabelMethod
from schemas.frames import CHUNKS, DOCUMENTS, LABELS, QUERIES, TRUTH, TRUTH_NOTES
from tasks.labelling import COLUMNS, Labelled, check_strict, label_corpus

Quotes = Mapping[tuple[str, str, int, int], str]

TEXTS = {
    "a.txt": "Anna is a maid of honor. Pierre is a count.",
    "b.txt": "Natasha dances. Anna watches.",
}
CUTS = {"a.txt": [0, 25, 43], "b.txt": [0, 16, 29]}  # one sentence a chunk


def documents(texts: Mapping[str, str] = TEXTS) -> pl.DataFrame:
    rows = [(doc_id, None, text, "{}") for doc_id, text in texts.items()]
    return pl.DataFrame(rows, schema=DOCUMENTS, orient="row")


def chunks(texts: Mapping[str, str] = TEXTS, cuts: Mapping[str, list[int]] = CUTS) -> pl.DataFrame:
    rows = [
        (f"{doc_id}#{start}-{end}", doc_id, start, end, texts[doc_id][start:end], None)
        for doc_id, edges in cuts.items()
        for start, end in itertools.pairwise(edges)
    ]
    return pl.DataFrame(rows, schema=CHUNKS, orient="row")


def query(query_id: str = "q", **truth: Any) -> dict[str, Any]:
    return {name: None for name in QUERIES} | {"query_id": query_id, "text": "?"} | truth


def span(doc_id: str, start: int | None = None, end: int | None = None, **more: Any) -> Any:
    empty = {"doc_id": doc_id, "start": start, "end": end, "quote": None, "grade": 1}
    return empty | more


def label(
    method: LabelMethod,
    *queries: dict[str, Any],
    texts: Mapping[str, str] = TEXTS,
    cuts: Mapping[str, list[int]] = CUTS,
    quotes: Quotes | None = None,
    **config: Any,
) -> Labelled:
    return label_corpus(
        documents(texts),
        chunks(texts, cuts),
        pl.DataFrame(list(queries), schema=QUERIES),
        config=Labelling(method=method, **config),
        known_quotes=quotes or {},
    )


def gains(labelled: Labelled, kind: str = "item") -> list[tuple[str, str, int]]:
    rows = labelled.labels.filter(pl.col("kind") == kind)
    return rows.select("query_id", "item_id", "gain").rows()


def truth(labelled: Labelled) -> list[tuple[str, str | None, int, int]]:
    return labelled.truth.rows()


def causes(labelled: Labelled) -> list[str]:
    return labelled.notes.drop_nulls("cause")["cause"].to_list()


def test_the_columns_of_a_method_are_all_that_it_reads() -> None:
    queries = pl.DataFrame(
        [
            query("answers", answers=["anna", "Boris"]),
            query("lost", answers=["Boris"]),
            query("spans", spans=[span("a.txt", 0, 10), span("gone", 0, 3), span("b.txt", 9, 99)]),
            query("quote", spans=[span("a.txt", quote="maid of honor", grade=2)]),
            query("qrels", qrels=[{"doc_id": "a.txt", "grade": 1}, {"doc_id": "x", "grade": 1}]),
        ],
        schema=QUERIES,
    )
    n_items = {}
    for method, (of_documents, of_chunks) in COLUMNS.items():
        config = Labelling.model_validate({"method": method})
        whole = label_corpus(documents(), chunks(), queries, config=config, known_quotes={})
        narrow = label_corpus(
            documents().select(of_documents),
            chunks().select(of_chunks),
            queries,
            config=config,
            known_quotes={},
        )
        assert narrow.labels.equals(whole.labels)
        assert narrow.truth.equals(whole.truth)
        assert narrow.notes.equals(whole.notes)
        assert (narrow.quotes, narrow.figures) == (whole.quotes, whole.figures)
        n_items[method] = whole.figures["n_items"]
    assert n_items == {"answer_text": 2, "span": 2, "document": 4}


# answer_text


def test_every_chunk_that_contains_an_answer_is_relevant() -> None:
    labelled = label("answer_text", query(answers=["ANNA", "the anna"]))
    assert gains(labelled) == [("q", "a.txt#0-25", 1), ("q", "b.txt#16-29", 1)]
    assert truth(labelled) == [("q", None, 2, 0)]


def test_an_answer_that_is_in_no_chunk_is_one_lost_item() -> None:
    # "honor. Pierre" stands in the document, but the chunks cut it in two
    labelled = label("answer_text", query(answers=["honor. Pierre", "Boris"]))
    assert gains(labelled, "lost") == [("q", "lost/answer", 1)]
    assert truth(labelled) == [("q", None, 1, 1)]
    assert labelled.notes["reason"].to_list() == [
        "none of its 2 answers is in any chunk: 'honor. Pierre', 'Boris'"
    ]


def test_one_answer_found_means_that_nothing_is_lost() -> None:
    assert truth(label("answer_text", query(answers=["Boris", "count"]))) == [("q", None, 1, 0)]


def test_a_given_but_empty_field_is_no_relevant_and_an_absent_one_no_judged() -> None:
    labelled = label("answer_text", query("empty", answers=[]), query("absent"))
    assert truth(labelled) == [("empty", "no_relevant", 0, 0), ("absent", "no_judged", 0, 0)]
    assert labelled.notes.select("query_id", "note").rows() == [
        ("empty", "no_relevant"),
        ("absent", "no_judged"),
    ]


def test_answers_are_worth_1_so_a_level_of_2_leaves_nothing_relevant_or_lost() -> None:
    labelled = label("answer_text", query(answers=["Anna"]), query("r", answers=["Boris"]), level=2)
    assert truth(labelled) == [("q", "no_relevant", 0, 0), ("r", "no_relevant", 0, 0)]


# span


def test_a_chunk_that_covers_half_of_the_shorter_is_relevant() -> None:
    # span 20-30 is 10 long: 5 characters in each of the two chunks
    labelled = label("span", query(spans=[span("a.txt", 20, 30)]))
    assert gains(labelled) == [("q", "a.txt#0-25", 1), ("q", "a.txt#25-43", 1)]
    # span 19-29: 6 and 4
    assert gains(label("span", query(spans=[span("a.txt", 19, 29)]))) == [("q", "a.txt#0-25", 1)]


def test_the_shorter_of_the_two_may_be_the_chunk() -> None:
    # the span is 40 long, each chunk lies within it but for 0 and 3 characters
    labelled = label("span", query(spans=[span("a.txt", 0, 40)]), min_coverage=0.8)
    assert gains(labelled) == [("q", "a.txt#0-25", 1), ("q", "a.txt#25-43", 1)]


def test_a_relevant_span_that_no_chunk_covers_is_lost_and_stays_in_the_denominator() -> None:
    labelled = label("span", query(spans=[span("a.txt", 20, 30, grade=2)]), min_coverage=0.6)
    assert gains(labelled) == []
    assert gains(labelled, "span") == [("q", "a.txt#20-30", 2)]
    assert gains(labelled, "lost") == [("q", "lost/a.txt#20-30", 2)]
    assert truth(labelled) == [("q", None, 1, 1)]
    assert causes(labelled) == ["no_chunk"]


def test_a_chunk_gains_the_grade_of_its_best_span() -> None:
    spans = [
        span("a.txt", 0, 4, grade=1),
        span("a.txt", 10, 23, grade=3),
        span("a.txt", 5, 7, grade=-1),
        span("a.txt", 25, 31, grade=-1),
        span("b.txt", 0, 7, grade=0),
    ]
    labelled = label("span", query(spans=spans))
    assert gains(labelled) == [
        ("q", "a.txt#0-25", 3),
        ("q", "a.txt#25-43", -1),
        ("q", "b.txt#0-16", 0),
    ]
    assert truth(labelled) == [("q", None, 1, 0)]


def test_spans_at_one_place_are_one_span_with_the_best_grade() -> None:
    spans = [span("a.txt", 0, 4), span("a.txt", quote="Anna", grade=2)]
    assert gains(label("span", query(spans=spans)), "span") == [("q", "a.txt#0-4", 2)]


def test_a_lost_quote_is_a_lost_item_and_a_gold_span_where_no_chunk_is() -> None:
    labelled = label("span", query(spans=[span("a.txt", 0, 5, quote="Boris")]))
    lost = ("q", "lost", "lost/a.txt#0-5", "a.txt", 0, 5, 1)
    gold = ("q", "span", "lost/a.txt#0-5", "lost/a.txt#0-5", 0, 5, 1)
    assert labelled.labels.rows() == [lost, gold]
    assert truth(labelled) == [("q", None, 1, 1)]
    assert causes(labelled) == ["quote_absent"]


def test_a_lost_span_of_a_grade_below_the_level_is_not_ground_truth() -> None:
    labelled = label("span", query(spans=[span("gone.txt", 0, 5, grade=1)]), level=2)
    assert labelled.labels.is_empty()
    assert truth(labelled) == [("q", "no_relevant", 0, 0)]
    assert causes(labelled) == []


def test_the_id_of_a_lost_item_is_the_same_in_every_run_and_never_a_real_one() -> None:
    texts = {"lost/a.txt": "x"}
    cuts = {"lost/a.txt": [0, 1]}
    labelled = label(
        "document", query(qrels=[{"doc_id": "a.txt", "grade": 1}]), texts=texts, cuts=cuts
    )
    assert gains(labelled, "lost") == [("q", "lost/lost/a.txt", 1)]
    first, second = (
        label("span", query(spans=[span("a.txt", quote="Boris")])).labels for _ in range(2)
    )
    assert first.equals(second)
    assert first["item_id"][0].startswith("lost/a.txt#quote-")


def test_two_lost_spans_count_twice() -> None:
    spans = [span("a.txt", quote="Boris"), span("a.txt", quote="Nikolai"), span("a.txt", 0, 4)]
    assert truth(label("span", query(spans=spans))) == [("q", None, 3, 2)]


def test_a_span_that_moved_is_a_note_and_not_lost() -> None:
    labelled = label("span", query(spans=[span("a.txt", 0, 13, quote="maid of honor")]))
    assert gains(labelled, "span") == [("q", "a.txt#10-23", 1)]
    assert labelled.notes.select("note", "start", "end", "quote").rows() == [
        ("located_anew", 0, 13, "maid of honor")
    ]
    check_strict(labelled.notes)


def test_a_span_without_a_quote_gets_one_and_a_known_one_is_not_new() -> None:
    queries = query(spans=[span("a.txt", 0, 4), span("a.txt", 900, 904)])
    key = ("q", "a.txt", 0, 4)
    assert label("span", queries).quotes == {key: "Anna"}
    changed = {**TEXTS, "a.txt": "Now Anna is here. " + "x" * 25}
    labelled = label("span", queries, texts=changed, quotes={key: "Anna"})
    assert labelled.quotes == {}
    assert ("q", "a.txt#4-8", 1) in gains(labelled, "span")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 59), st.integers(1, 30), st.integers(-1, 3)), max_size=6),
    st.integers(1, 100),
)
def test_span_labels_are_those_of_the_definition(
    windows: list[tuple[int, int]], spans: list[tuple[int, int, int]], percent: int
) -> None:
    text = "x" * 60
    ids = {(start, start + size) for start, size in windows}
    rows = [(f"d#{s}-{e}", "d", s, e, text[s:e], None) for s, e in sorted(ids)]
    given_spans = [span("d", s, min(60, s + size), grade=grade) for s, size, grade in spans]
    expected = {}
    for start, end in ids:
        covered = [
            gold["grade"]
            for gold in given_spans
            if (overlap := min(end, gold["end"]) - max(start, gold["start"])) > 0
            and overlap >= Fraction(percent, 100) * min(end - start, gold["end"] - gold["start"])
        ]
        if covered:
            expected[f"d#{start}-{end}"] = max(covered)
    labelled = label_corpus(
        documents({"d": text}),
        pl.DataFrame(rows, schema=CHUNKS, orient="row"),
        pl.DataFrame([query(spans=given_spans)], schema=QUERIES),
        config=Labelling(method="span", min_coverage=percent / 100),
        known_quotes={},
    )
    assert {item_id: gain for _, item_id, gain in gains(labelled)} == expected


# document


def test_documents_have_the_best_grade_of_qrels_and_spans() -> None:
    labelled = label(
        "document",
        query(
            qrels=[{"doc_id": "a.txt", "grade": 1}, {"doc_id": "b.txt", "grade": 0}],
            spans=[span("a.txt", quote="Boris", grade=2)],  # a lost quote changes nothing here
        ),
    )
    assert gains(labelled) == [("q", "a.txt", 2), ("q", "b.txt", 0)]
    assert truth(labelled) == [("q", None, 1, 0)]
    assert causes(labelled) == []


def test_a_relevant_document_that_left_the_corpus_is_lost_with_its_grade() -> None:
    qrels = [
        {"doc_id": "gone.txt", "grade": 3},
        {"doc_id": "gone too.txt", "grade": 0},
        {"doc_id": "a.txt", "grade": 1},
    ]
    labelled = label("document", query(qrels=qrels))
    assert gains(labelled, "lost") == [("q", "lost/gone.txt", 3)]
    assert gains(labelled) == [("q", "a.txt", 1), ("q", "gone too.txt", 0)]
    assert truth(labelled) == [("q", None, 2, 1)]


def test_spans_alone_judge_documents() -> None:
    assert truth(label("document", query(spans=[span("b.txt", 0, 7)]))) == [("q", None, 1, 0)]
    assert truth(label("document", query(answers=["Anna"]))) == [("q", "no_judged", 0, 0)]
    assert truth(label("document", query(spans=[]))) == [("q", "no_relevant", 0, 0)]


def test_negative_grades_stay_as_given_and_are_not_relevant() -> None:
    labelled = label("document", query(qrels=[{"doc_id": "a.txt", "grade": -2}]))
    assert gains(labelled) == [("q", "a.txt", -2)]
    assert truth(labelled) == [("q", "no_relevant", 0, 0)]


# all methods


@pytest.mark.parametrize("method", ["answer_text", "span", "document"])
def test_frames_have_their_schemas_and_follow_the_order_of_the_queries(
    method: LabelMethod,
) -> None:
    everything = {
        "answers": ["Anna"],
        "spans": [span("a.txt", 0, 4)],
        "qrels": [{"doc_id": "b.txt", "grade": 1}],
    }
    labelled = label(method, query("z", **everything), query("007"), query("NA", **everything))
    assert labelled.labels.schema == LABELS
    assert labelled.truth.schema == TRUTH
    assert labelled.notes.schema == TRUTH_NOTES
    assert labelled.truth["query_id"].to_list() == ["z", "007", "NA"]
    assert labelled.labels["query_id"].unique(maintain_order=True).to_list() == ["z", "NA"]


@pytest.mark.parametrize("method", ["answer_text", "span", "document"])
def test_no_queries_give_no_labels(method: LabelMethod) -> None:
    labelled = label_corpus(
        documents(),
        chunks(),
        QUERIES.to_frame(),
        config=Labelling(method=method),
        known_quotes={},
    )
    assert (labelled.labels.height, labelled.truth.height, labelled.notes.height) == (0, 0, 0)


# strict


def test_strict_names_up_to_ten_examples_of_each_kind() -> None:
    gone = [query(f"gone{i}", spans=[span("gone.txt", 0, 4)]) for i in range(12)]
    absent = query("absent", spans=[span("a.txt", 0, 5, quote="Boris")])
    with pytest.raises(InputError) as caught:
        check_strict(label("span", *gone, absent).notes)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the ground truth of 13 queries is lost, and benchmark.strict is on:"
    assert lines[1] == "  a document is not in the corpus (12):"
    assert lines[2] == "    query gone0 gone.txt 0-4: the document is not in the corpus"
    assert lines[11].startswith("    query gone9 ")
    assert lines[12:15] == [
        "    … and 2 more",
        "  a quote is not in its document (1):",
        "    query absent a.txt 0-5: the quote does not stand at 0-5, "
        "and the quote is not in the document",
    ]


def test_strict_accepts_queries_without_ground_truth() -> None:
    check_strict(label("span", query(), query("r", spans=[])).notes)
