"""Values and means of a run of the pipeline, from frames."""

import itertools
from typing import Any

import polars as pl
import pytest

from schemas.contracts import LabelMethod
from schemas.errors import StageError
from schemas.experiment import Labelling
from schemas.families import FAMILIES
from schemas.frames import (
    CHUNKS,
    DOCUMENTS,
    LABELS,
    QUERIES,
    QUERY_METRICS,
    RANKINGS,
    RUN_METRICS,
    TRUTH,
)
from schemas.measures import Measure, MeasureError
from tasks.labelling import label_corpus
from tasks.scoring import average_metrics, columns_of_chunks, score_rankings
from tasks.tie_reports import report_ties


def frame(rows: list[tuple[Any, ...]], schema: pl.Schema) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")


def ranking(query: str, *items: str) -> list[tuple[Any, ...]]:
    return [(query, rank, item, item, -float(rank)) for rank, item in enumerate(items, 1)]


def item(query: str, item_id: str, gain: int, kind: str = "item") -> tuple[Any, ...]:
    return (query, kind, item_id, item_id, None, None, gain)


def scored(
    rankings: list[tuple[Any, ...]],
    labels: list[tuple[Any, ...]],
    truth: list[tuple[Any, ...]],
    measures: str,
    **changes: Any,
) -> pl.DataFrame:
    arguments: dict[str, Any] = {
        "label_method": "document",
        "min_coverage": 0.5,
        "level": 1,
        "depth": 10,
        **changes,
    }
    return score_rankings(
        frame(rankings, RANKINGS),
        frame(labels, LABELS),
        frame(truth, TRUTH),
        frame([], CHUNKS),
        frame([], QUERIES),
        measures=[Measure.parse(name) for name in measures.split()],
        **arguments,
    )


def test_every_query_has_every_measure_in_order() -> None:
    metrics = scored(
        ranking("q9", "a") + ranking("é", "a"),
        [item("q9", "a", 1), item("q10", "b", 1)],
        [("é", "no_judged", 0, 0), ("q9", None, 1, 0), ("q10", None, 1, 0)],
        "rr@10 hit@1",
    )
    assert metrics.schema == QUERY_METRICS
    assert metrics.drop("contract_version").rows() == [
        ("q10", "rr@10", 0.0, None),  # nothing was returned
        ("q10", "hit@1", 0.0, None),
        ("q9", "rr@10", 1.0, None),
        ("q9", "hit@1", 1.0, None),
        ("é", "rr@10", None, "no_judged"),
        ("é", "hit@1", None, "no_judged"),
    ]


def test_a_query_with_nothing_relevant_is_null_for_every_measure() -> None:
    metrics = scored(
        ranking("q", "a"), [item("q", "a", 0)], [("q", "no_relevant", 0, 0)], "ndcg@5 judged@5 ap@5"
    )
    assert metrics["value"].to_list() == [None, None, None]
    assert metrics["null_reason"].unique().to_list() == ["no_relevant"]


def test_lost_ground_truth_is_one_more_relevant_item_that_is_never_retrieved() -> None:
    rankings, names = ranking("q", "a", "x"), "recall@2 ap@2 ndcg@2 rr@2 hit@2 r_precision"
    whole = scored(rankings, [item("q", "a", 1)], [("q", None, 1, 0)], names)
    lost = scored(
        rankings,
        [item("q", "a", 1), item("q", "lost/b", 2, kind="lost")],
        [("q", None, 2, 1)],
        names,
    )
    assert whole["value"].to_list() == [1.0] * 6
    ndcg = 1 / (2 + 1 / 1.584962500721156)  # the ideal has the lost item's grade, 2, first
    assert lost["value"].to_list() == [0.5, 0.5, pytest.approx(ndcg, abs=1e-15), 1.0, 1.0, 0.5]


def test_a_retrieved_item_that_bears_the_name_of_a_lost_one_is_not_it() -> None:
    metrics = scored(
        ranking("q", "lost/b"), [item("q", "lost/b", 1, kind="lost")], [("q", None, 1, 1)], "hit@1"
    )
    assert metrics["value"].to_list() == [0.0]


def test_a_negative_grade_counts_as_unjudged() -> None:
    labels = [item("q", "a", 1), item("q", "n", -1), item("q", "z", 0)]
    metrics = scored(ranking("q", "n", "a"), labels, [("q", None, 1, 0)], "judged@2 bpref ndcg@2")
    assert metrics["value"].to_list() == [0.5, 1.0, pytest.approx(1 / 1.584962500721156)]


def test_ranks_below_depth_are_not_looked_at() -> None:
    metrics = scored(
        ranking("q", "x", "y", "a"), [item("q", "a", 1)], [("q", None, 1, 0)], "rbp", depth=2
    )
    assert metrics["value"].to_list() == [0.0]


def test_labels_of_other_queries_and_rankings_of_unknown_queries_are_left_alone() -> None:
    metrics = scored(
        ranking("q", "a") + ranking("unknown", "a"),
        [item("p", "a", 1), item("q", "b", 1), item("unknown", "a", 1)],
        [("p", None, 1, 0), ("q", None, 1, 0)],
        "hit@1",
    )
    assert metrics["value"].to_list() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (ranking("q", "a", "b", "a"), "the ranking of query 'q' holds 'a' twice"),
        ([("q", 2, "a", "a", 1.0)], "out of order at rank 2"),
        ([("q", 1, "a", "a", 1.0), ("q", 2, "b", "b", 2.0)], "out of order at rank 2"),
        ([("q", 1, "a", "a", float("nan"))], "no score is NaN"),
    ],
)
def test_a_ranking_that_is_none_is_refused(rows: list[tuple[Any, ...]], complaint: str) -> None:
    with pytest.raises(StageError, match=complaint):
        scored(rows, [item("q", "a", 1)], [("q", None, 1, 0)], "hit@1")


def test_a_measure_that_does_not_fit_is_refused() -> None:
    with pytest.raises(MeasureError, match=r"beyond retrieval\.depth"):
        scored(ranking("q", "a"), [item("q", "a", 1)], [("q", None, 1, 0)], "hit@11")


def metrics_of(*rows: tuple[str, str, float | None, str | None]) -> pl.DataFrame:
    return frame([(query, name, 1, value, why) for query, name, value, why in rows], QUERY_METRICS)


def test_means_leave_out_what_is_null_and_count_it() -> None:
    truth = frame([("a", None, 2, 1), ("b", "no_judged", 0, 0), ("c", None, 1, 0)], TRUTH)
    metrics = metrics_of(
        ("c", "rr@5", 0.5, None), ("a", "rr@5", 1.0, None), ("b", "rr@5", None, "no_judged")
    )
    run = average_metrics(metrics, truth)
    assert run.schema == RUN_METRICS
    assert run.rows() == [("rr@5", 1, 0.75, 2, 3, 1, 0, 0.75, 0.75)]


def test_bounds_put_failed_values_at_the_ends_of_the_contracts_range() -> None:
    truth = frame([(query, None, 1, 0) for query in "abcd"], TRUTH)
    values = [("a", 0.5, None), ("b", None, "failed"), ("c", 0.5, None), ("d", None, "no_judged")]
    metrics = metrics_of(
        *((query, "qa", value, why) for query, value, why in values),
        *((query, "dcg@5", value, why) for query, value, why in values),
    )
    qa, dcg = average_metrics(metrics, truth).rows(named=True)
    assert (qa["mean"], qa["n_scored"], qa["n_failed"]) == (0.5, 2, 1)
    assert (qa["low"], qa["high"]) == (1 / 3, 2 / 3)
    assert (dcg["low"], dcg["high"]) == (1 / 3, None)  # dcg has no upper end


def test_when_everything_failed_there_is_no_mean_and_the_bounds_are_the_range() -> None:
    metrics = metrics_of(("a", "qa", None, "failed"))
    (row,) = average_metrics(metrics, frame([("a", None, 1, 0)], TRUTH)).rows(named=True)
    assert (row["mean"], row["low"], row["high"]) == (None, 0.0, 1.0)


def test_a_mean_is_summed_in_bytewise_order_of_query_ids() -> None:
    values = {"10": 1.0, "9": 1e-16, "é": 1e-16, "a": 1e-16}
    metrics = metrics_of(*((query, "rr@5", value, None) for query, value in values.items()))
    truth = frame([(query, None, 1, 0) for query in values], TRUTH)
    total = ((1.0 + 1e-16) + 1e-16) + 1e-16  # each is lost against 1.0; the other way they add up
    assert total == 1.0
    assert 1e-16 + 1e-16 + 1e-16 + 1.0 > 1.0
    assert average_metrics(metrics, truth)["mean"].to_list() == [total / 4]


TEXT = "Anna is a maid of honor. Pierre is a count. Natasha dances. Anna watches."
EDGES = [0, 24, 43, 59, 73]


def measures_for(label_method: LabelMethod) -> list[Measure]:
    """Each family that fits, with each kind of cutoff that it has."""
    found: list[Measure] = []
    for name in FAMILIES:
        for cutoff in ("", "@2", "@30chars"):
            try:
                measure = Measure.parse(name + cutoff)
                measure.check_fits(depth=4, label_method=label_method)
            except MeasureError:
                continue
            found.append(measure)
    return found


@pytest.mark.parametrize("label_method", ["answer_text", "span", "document"])
def test_a_measure_reads_no_other_column_of_chunks_than_it_says(label_method: Any) -> None:
    doc_ids = ["a", "b"]
    chunks = frame(
        [
            (f"{doc_id}#{start}-{end}", doc_id, start, end, TEXT[start:end], "Title")
            for doc_id in doc_ids
            for start, end in itertools.pairwise(EDGES)
        ],
        CHUNKS,
    )
    span = {"doc_id": "a", "start": 10, "end": 30, "quote": None, "grade": 2}
    empty: dict[str, Any] = dict.fromkeys(QUERIES)
    queries = pl.DataFrame(
        [
            empty | {"query_id": "q1", "answers": ["Anna", "count"], "spans": [span]},
            empty
            | {"query_id": "q2", "answers": ["Boris"], "qrels": [{"doc_id": "b", "grade": 1}]},
        ],
        schema=QUERIES,
    )
    labelled = label_corpus(
        frame([(doc_id, None, TEXT, "{}") for doc_id in doc_ids], DOCUMENTS),
        chunks,
        queries,
        config=Labelling(method=label_method),
        known_quotes={},
    )
    items = doc_ids if label_method == "document" else chunks["chunk_id"].to_list()[:4]
    rankings = frame(
        [
            (query, rank, item, item, -1.0)
            for query in ("q1", "q2")
            for rank, item in enumerate(items, 1)
        ],
        RANKINGS,
    )  # all of them tied
    options: dict[str, Any] = {
        "label_method": label_method,
        "min_coverage": 0.5,
        "level": 1,
        "depth": 4,
    }
    measures = measures_for(label_method)
    assert len(measures) >= 15
    values = []
    for measure in measures:
        narrow = chunks.select(columns_of_chunks([measure]))
        results = []
        for given in (chunks, narrow):
            frames = rankings, labelled.labels, labelled.truth, given, queries
            metrics = score_rankings(*frames, measures=[measure], **options)
            results.append((metrics.rows(), report_ties(*frames, measures=[measure], **options)))
        assert results[0] == results[1], str(measure)
        values += [value for *_, value, _ in results[0][0] if value]
    assert values  # not everything is 0 or NULL
    everything = set(columns_of_chunks(measures))
    assert all(set(columns_of_chunks([measure])) <= everything for measure in measures)
