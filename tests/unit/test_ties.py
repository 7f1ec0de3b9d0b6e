"""The bounds of ties are those of trying every order."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks.text_ties
from schemas.frames import CHUNKS, LABELS, QUERIES, RANKINGS, TRUTH
from schemas.measures import Measure
from tasks.graded import Items, Ranked, pool_judgements
from tasks.ranking import score
from tasks.tie_reports import TieReport, report_ties
from tasks.ties import bound_values, tie_items

NAMES = (
    "hit@2 precision@3 precision_returned@3 recall@2 recall_capped@2 f1@2 rr ap ap@3 ap_hits "
    "ap_hits@1 ap_hits@3 ap_capped@2 ndcg ndcg@2 ndcg_exp@3 dcg@2 r_precision bpref err@3 rbp "
    "judged@2 set_f1"
)
MEASURES = [Measure.parse(name) for name in NAMES.split()]
INFINITE = float("inf")


def orders(scores: list[float], gap: float) -> list[tuple[int, ...]]:
    """Every order of positions in which only neighbours less than ``gap`` apart change places."""
    runs: list[list[int]] = []
    for index, value in enumerate(scores):
        drop = scores[index - 1] - value if index else INFINITE
        starts = drop >= gap if gap else drop > 0
        if index == 0 or starts:
            runs.append([])
        runs[-1].append(index)
    choices = itertools.product(*(itertools.permutations(run) for run in runs))
    return [tuple(itertools.chain(*choice)) for choice in choices]


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([INFINITE, 1.0, 1.0 - 4e-7, 1.0 - 8e-7, 0.5, 0.0, -INFINITE]),
            st.none() | st.integers(0, 3),
        ),
        min_size=1,
        max_size=6,
    ),
    missed=st.lists(st.integers(0, 3), max_size=3),
    gap=st.sampled_from([0.0, 1e-6]),
    level=st.integers(1, 2),
)
@settings(max_examples=200, deadline=None)
def test_bounds_are_the_extremes_over_every_order(
    rows: list[tuple[float, int | None]], missed: list[int], gap: float, level: int
) -> None:
    rows = sorted(rows, key=lambda row: -row[0])
    grades = [grade for _, grade in rows]
    judged = np.array([g for g in [*grades, *missed] if g is not None], dtype=np.int64)
    pool = pool_judgements(np.zeros_like(judged), judged, n_queries=1, level=level)

    def ranked(order: tuple[int, ...]) -> Ranked:
        found = [(rank, grades[at]) for rank, at in enumerate(order, 1) if grades[at] is not None]
        table = np.array(found, dtype=np.int64).reshape(-1, 2)
        items = Items(np.zeros(len(table), dtype=np.int64), table[:, 0], table[:, 1])
        return Ranked(items, np.array([len(rows)]))

    scores = [value for value, _ in rows]
    with np.errstate(invalid="ignore"):
        every = [
            score(ranked(order), pool, MEASURES, level=level)[:, 0] for order in orders(scores, gap)
        ]
    given_order = ranked(tuple(range(len(rows))))
    tied = tie_items(given_order.items, np.zeros(len(rows), int), np.array(scores), gap=gap)
    low, high = bound_values(tied, given_order, pool, MEASURES, level=level)
    expected = np.array(every)
    np.testing.assert_array_equal(low[:, 0], expected.min(axis=0))
    np.testing.assert_array_equal(high[:, 0], expected.max(axis=0))


# Six chunks of 10 characters; b and c tie, e and f nearly do. q1's evidence is in c and f.
TEXT = "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff"
PLACES = {name: (index * 10, index * 10 + 10) for index, name in enumerate("abcdef")}
SCORES = {"a": 6.0, "b": 5.0, "c": 5.0, "d": 3.0, "e": 2.0, "f": 2.0 - 5e-7}
IDS = {name: f"d#{start}-{end}" for name, (start, end) in PLACES.items()}


def report(names: str, label_method: str = "span") -> TieReport:
    rankings = pl.DataFrame(
        [("q1", rank, IDS[name], IDS[name], SCORES[name]) for rank, name in enumerate("abcdef", 1)],
        schema=RANKINGS,
        orient="row",
    )
    chunks = pl.DataFrame(
        [(IDS[name], "d", *PLACES[name], TEXT[slice(*PLACES[name])], None) for name in "abcdef"],
        schema=CHUNKS,
        orient="row",
    )
    labels = [("q1", "item", IDS[name], "d", *PLACES[name], 1) for name in "cf"]
    if label_method == "span":
        labels += [("q1", "span", IDS[name], "d", *PLACES[name], 1) for name in "cf"]
    truth = [("q1", None, 2, 0), ("q2", "no_judged", 0, 0)]
    queries = pl.DataFrame(
        [{"query_id": "q1", "text": "?", "answers": ["cccc", "ffff"]}], schema=QUERIES
    )
    return report_ties(
        rankings,
        pl.DataFrame(labels, schema=LABELS, orient="row"),
        pl.DataFrame(truth, schema=TRUTH, orient="row"),
        chunks,
        queries,
        measures=[Measure.parse(name) for name in names.split()],
        label_method=label_method,  # type: ignore[arg-type]
        min_coverage=0.5,
        level=1,
        depth=6,
    )


def test_a_report_counts_queries_that_depend_on_ties_and_on_near_ties() -> None:
    tied = report("recall@2")
    assert (tied.n_queries, tied.n_tied, tied.n_near) == (1, 1, 1)
    near = report("recall@5")
    assert (near.n_tied, near.n_near) == (0, 1)
    neither = report("recall@6 hit@4 rr@1")
    assert (neither.n_tied, neither.n_near) == (0, 0)


def test_bounds_of_a_mean_are_over_exact_ties_only() -> None:
    assert report("recall@2 recall@5 rr@6").bounds == {
        "recall@2": (0.0, 0.5),
        "recall@5": (0.5, 0.5),
        "rr@6": (1 / 3, 1 / 2),
    }


def test_measures_over_texts_are_bounded_by_trying_orders() -> None:
    assert report("evidence_recall@2 span_precision@2 span_recall@2 span_iou@3").bounds == {
        "evidence_recall@2": (0.0, 0.5),
        "span_precision@2": (0.0, 0.5),
        "span_recall@2": (0.0, 0.5),
        "span_iou@3": (1 / 4, 1 / 4),
    }


def test_evidence_within_characters_depends_on_which_tied_chunk_comes_first() -> None:
    bounds = report("evidence_recall@15chars evidence_recall@24chars").bounds
    assert bounds["evidence_recall@15chars"] == (0.0, 0.5)
    assert bounds["evidence_recall@24chars"] == (0.0, 0.5)
    assert report("evidence_recall@25chars").bounds["evidence_recall@25chars"] == (0.5, 0.5)


def test_answers_are_bounded_too() -> None:
    bounds = report("evidence_recall@2 evidence_recall@14chars", "answer_text").bounds
    assert bounds == {"evidence_recall@2": (0.0, 1.0), "evidence_recall@14chars": (0.0, 1.0)}


def test_too_many_orders_leave_a_measure_over_texts_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks.text_ties, "MOST_ORDERS", 1)
    tied = report("evidence_recall@2 recall@2")
    assert tied.bounds == {"evidence_recall@2": (None, None), "recall@2": (0.0, 0.5)}
    assert tied.n_tied == 1


def test_a_report_is_json() -> None:
    assert report("recall@2").figures() == {
        "n_queries": 1,
        "share_tied": 1.0,
        "share_near": 1.0,
        "means": {"recall@2": {"lowest": 0.0, "highest": 0.5}},
    }
