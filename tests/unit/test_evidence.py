"""Measures over texts: worked by hand, and against sets of characters."""

from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.measures import Measure
from tasks.evidence import place_chunks, score_answers, score_spans

Place = tuple[str, int, int]


def placed(rankings: list[list[Place]]) -> pl.DataFrame:
    rows = [
        (query, rank, "{}#{}-{}".format(*place))
        for query, ranking in enumerate(rankings)
        for rank, place in enumerate(ranking, 1)
    ]
    chunks = sorted({place for ranking in rankings for place in ranking})
    return place_chunks(
        pl.DataFrame(
            rows,
            schema={"query": pl.Int64, "rank": pl.Int64, "item_id": pl.String},
            orient="row",
        ),
        pl.DataFrame(
            [("{}#{}-{}".format(*place), *place) for place in chunks],
            schema={"chunk_id": pl.String, "doc_id": pl.String, "start": pl.Int64, "end": pl.Int64},
            orient="row",
        ),
    )


def spans_of(spans: list[list[Place]]) -> pl.DataFrame:
    return pl.DataFrame(
        [(query, *span) for query, row in enumerate(spans) for span in row],
        schema={"query": pl.Int64, "doc_id": pl.String, "start": pl.Int64, "end": pl.Int64},
        orient="row",
    )


def value(name: str, ranking: list[Place], spans: list[Place], min_coverage: float = 0.5) -> float:
    return float(
        score_spans(
            placed([ranking]),
            spans_of([spans]),
            [Measure.parse(name)],
            n_queries=1,
            min_coverage=min_coverage,
        )[0, 0]
    )


RANKING = [("d", 0, 10), ("d", 5, 15), ("e", 0, 20)]
SPANS = [("d", 8, 12), ("e", 2, 4), ("lost/x", 0, 6)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("evidence_recall@1", 1 / 3),  # 2 of the span's 4 characters
        ("evidence_recall@3", 2 / 3),  # the lost span stays in the denominator
        ("evidence_recall@9chars", 0.0),
        ("evidence_recall@10chars", 1 / 3),
        ("evidence_recall@22chars", 1 / 3),
        ("evidence_recall@23chars", 2 / 3),  # 20 before e, and e's first 3: 1 of 2 is enough
        ("span_recall@1", 2 / 12),
        ("span_recall@2", 4 / 12),  # the overlap of the two chunks counts once
        ("span_recall@3", 6 / 12),
        ("span_precision@1", 2 / 10),
        ("span_precision@2", 4 / 15),
        ("span_iou@2", 4 / (15 + 2 + 6)),
    ],
)
def test_one_query_by_hand(name: str, expected: float) -> None:
    assert value(name, RANKING, SPANS) == pytest.approx(expected, abs=1e-15)


def test_the_threshold_is_that_of_the_whole_chunk_however_it_is_cut() -> None:
    # Chunk and span are 10 long and half of that is asked for; the first 4 characters hold 4.
    assert value("evidence_recall@4chars", [("d", 0, 10)], [("d", 0, 10)]) == 0.0
    assert value("evidence_recall@5chars", [("d", 0, 10)], [("d", 0, 10)]) == 1.0


def test_coverage_is_of_the_shorter_and_read_as_the_decimal_that_was_written() -> None:
    # 0.1 of 30 is 3 exactly, though 0.1 * 30 is above 3 in floats
    assert value("evidence_recall@1", [("d", 0, 30)], [("d", 27, 60)], 0.1) == 1.0
    assert value("evidence_recall@1", [("d", 0, 30)], [("d", 28, 60)], 0.1) == 0.0


def test_context_counts_overlapping_characters_twice() -> None:
    ranking = [("d", 0, 10), ("d", 0, 9), ("d", 20, 30)]
    assert value("evidence_recall@23chars", ranking, [("d", 20, 30)]) == 0.0
    assert value("evidence_recall@24chars", ranking, [("d", 20, 30)]) == 1.0


def test_a_query_without_spans_or_results_is_0() -> None:
    measures = [
        Measure.parse(name) for name in ("span_iou@3", "evidence_recall@3", "span_recall@1")
    ]
    values = score_spans(
        placed([RANKING, []]), spans_of([[], SPANS]), measures, n_queries=2, min_coverage=0.5
    )
    assert values.tolist() == [[0.0, 0.0]] * 3


PLACE = st.tuples(st.sampled_from("de"), st.integers(0, 30), st.integers(1, 12)).map(
    lambda place: (place[0], place[1], place[1] + place[2])
)


@given(
    queries=st.lists(
        st.tuples(
            st.lists(PLACE, max_size=8, unique=True), st.lists(PLACE, min_size=1, max_size=4)
        ),
        min_size=1,
        max_size=3,
    ),
    k=st.integers(1, 9),
    n=st.integers(1, 60),
    coverage=st.sampled_from([0.1, 0.3, 0.5, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_values_are_those_of_sets_of_characters(
    queries: list[tuple[list[Place], list[Place]]], k: int, n: int, coverage: float
) -> None:
    names = [f"span_recall@{k}", f"span_precision@{k}", f"span_iou@{k}"]
    names += [f"evidence_recall@{k}", f"evidence_recall@{n}chars"]
    values = score_spans(
        placed([ranking for ranking, _ in queries]),
        spans_of([spans for _, spans in queries]),
        [Measure.parse(name) for name in names],
        n_queries=len(queries),
        min_coverage=coverage,
    )
    for query, (ranking, spans) in enumerate(queries):
        assert values[:, query].tolist() == by_sets(ranking, spans, k, n, coverage)


def characters(*places: Place) -> set[tuple[str, int]]:
    return {(doc, at) for doc, start, end in places for at in range(start, end)}


def by_sets(
    ranking: list[Place], spans: list[Place], k: int, n: int, coverage: float
) -> list[float]:
    held, gold = characters(*ranking[:k]), characters(*spans)

    def is_satisfied(span: Place, chunks: list[tuple[Place, Place]]) -> bool:
        return any(
            len(characters(span) & characters(part))
            >= max(1, Fraction(str(coverage)) * min(len(characters(span)), len(characters(whole))))
            for part, whole in chunks
        )

    context, room = [], n
    for doc, start, end in ranking:
        context.append(((doc, start, min(end, start + room)), (doc, start, end)))
        room = max(0, room - (end - start))
    whole = [(chunk, chunk) for chunk in ranking[:k]]
    return [
        len(held & gold) / len(gold),
        len(held & gold) / len(held) if held else 0.0,
        len(held & gold) / len(held | gold),
        sum(is_satisfied(span, whole) for span in spans) / len(spans),
        sum(is_satisfied(span, context) for span in spans) / len(spans),
    ]


def test_answers_count_when_the_part_before_n_contains_one() -> None:
    ranking = placed([[("d", 0, 12), ("d", 12, 30)]])
    texts = pl.DataFrame(
        {
            "query": [0],
            "item_id": ["d#12-30"],
            "text": ["so the cat  sat 。"],
            "answers": [["CAT sat", "dog"]],
        }
    )
    measures = [
        Measure.parse(f"evidence_recall@{cutoff}")
        for cutoff in ("1", "2", "12chars", "26chars", "27chars", "30chars")
    ]
    values = score_answers(ranking, texts, measures, n_queries=1)
    assert values[:, 0].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0, 1.0]
