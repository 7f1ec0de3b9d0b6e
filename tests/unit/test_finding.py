"""Judged items are found and ranked as by a plain sort, whatever the shape of the rankings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks.finding
import tasks.joining
from tasks.finding import Judgements, Retrieved, find_judged

RANKING = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e300, float("inf"), float("-inf")]),
    ),
    max_size=25,
    unique_by=lambda row: row[0],
)
JUDGED = st.lists(st.integers(0, 40), max_size=12, unique=True)


def retrieved_of(rankings: list[list[tuple[int, float]]]) -> Retrieved:
    count = np.array([len(ranking) for ranking in rankings])
    rows = [row for ranking in rankings for row in ranking]
    return Retrieved(
        ids=np.array([item for item, _ in rows], dtype=np.int64),
        scores=np.array([score for _, score in rows], dtype=np.float64),
        query=np.arange(len(rankings)),
        start=np.cumsum(count) - count,
        count=count,
    )


@given(
    queries=st.lists(st.tuples(RANKING, JUDGED), min_size=1, max_size=12),
    is_sorted=st.booleans(),
    cells=st.sampled_from([1, 30, 1 << 18]),
    many=st.sampled_from([0, 3, 200]),
)
@settings(max_examples=150, deadline=None)
def test_ranks_are_those_of_a_plain_sort(
    queries: list[tuple[list[tuple[int, float]], list[int]]],
    is_sorted: bool,
    cells: int,
    many: int,
) -> None:
    orders = [sorted(ranking, key=lambda row: (-row[1], -row[0])) for ranking, _ in queries]
    rankings = orders if is_sorted else [ranking for ranking, _ in queries]
    retrieved = retrieved_of(rankings)
    judged = Judgements(
        np.repeat(np.arange(len(queries)), [len(items) for _, items in queries]),
        np.array([item for _, items in queries for item in items], dtype=np.int64),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks.finding, "BLOCK_CELLS", cells)
        patch.setattr(tasks.joining, "MANY", many)
        found = find_judged(retrieved, judged, tie_key=lambda rows: retrieved.ids[rows])
    assert (retrieved.ids[found.row] == judged.ids[found.judgement]).all()
    expected = {
        (query, item): 1 + [row[0] for row in order].index(item)
        for query, (order, (_, items)) in enumerate(zip(orders, queries, strict=True))
        for item in items
        if item in {row[0] for row in order}
    }
    query = judged.query[found.judgement].tolist()
    items = judged.ids[found.judgement].tolist()
    assert dict(zip(zip(query, items, strict=True), found.rank.tolist(), strict=True)) == expected
    assert len(found.twice) == 0


def test_only_rows_that_stand_twice_in_one_ranking_are_listed() -> None:
    rankings = [
        [(5, 3.0), (6, 2.0), (5, 1.0)],
        [(5, 1.0)],
        [(7, 1.0), (8, 0.5), (9, 0.1), (9, 0.0)],
    ]
    none = Judgements(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    found = find_judged(retrieved_of(rankings), none, tie_key=lambda rows: rows)
    assert sorted(found.twice.tolist()) == [0, 2, 6, 7]


def test_only_ties_around_judged_items_are_resolved() -> None:
    asked: list[int] = []

    def tie_key(
        rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        asked.extend(rows.tolist())
        return -rows

    rankings = [[(1, 3.0), (2, 3.0), (3, 2.0), (4, 1.0), (5, 1.0), (6, 1.0)]]
    judged = Judgements(np.array([0, 0]), np.array([5, 3]))
    found = find_judged(retrieved_of(rankings), judged, tie_key=tie_key)
    assert sorted(asked) == [3, 4, 5]
    assert dict(zip(found.row.tolist(), found.rank.tolist(), strict=True)) == {4: 5, 2: 3}
