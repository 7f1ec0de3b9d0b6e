"""Two rankings become one: worked by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from schemas.frames import LATENCIES, RANKINGS
from schemas.lexical_retrieval import Hybrid
from tasks.fusing import fuse
from tasks.ranked_lists import RankedLists


def ranking(*items: tuple[str, float], query: str = "q") -> pl.DataFrame:
    rows = [
        (query, rank, item, f"{item}#0-{round(score * 10)}", score)
        for rank, (item, score) in enumerate(items, start=1)
    ]
    return pl.DataFrame(rows, schema=RANKINGS, orient="row")


def times(milliseconds: float, *queries: str) -> pl.DataFrame:
    return pl.DataFrame([(query, milliseconds) for query in queries], LATENCIES, orient="row")


def fused(
    dense: pl.DataFrame, bm25: pl.DataFrame, *, depth: int = 10, **settings: Any
) -> RankedLists:
    latencies = [times(2.0, "q"), times(3.0, "q")]
    return fuse(dense, bm25, latencies, ["q"], Hybrid(**settings), depth=depth)


def scores(result: RankedLists) -> dict[str, float]:
    return dict(result.rankings.select("item_id", "retrieval_score").iter_rows())


DENSE = ranking(("a", 0.9), ("b", 0.8), ("c", 0.1))
BM25 = ranking(("c", 7.0), ("d", 5.0), ("a", 3.0))


def test_reciprocal_rank_fusion_sums_reciprocal_ranks() -> None:
    result = fused(DENSE, BM25)
    # a: ranks 1 and 3, c: 3 and 1: a tie, which the id decides; b and d: 2 and none
    assert scores(result) == pytest.approx(
        {"c": 1 / 63 + 1 / 61, "a": 1 / 61 + 1 / 63, "d": 1 / 62, "b": 1 / 62}, abs=1e-15
    )
    assert result.rankings["item_id"].to_list() == ["c", "a", "d", "b"]
    assert result.rankings["rank"].to_list() == [1, 2, 3, 4]


def test_k_and_weights_of_reciprocal_rank_fusion() -> None:
    result = fused(DENSE, BM25, k=0, dense_weight=2)
    assert scores(result) == pytest.approx({"a": 2 + 1 / 3, "c": 2 / 3 + 1, "b": 1, "d": 1 / 2})


def test_weighted_min_max_sums_scores_between_0_and_1() -> None:
    result = fused(DENSE, BM25, fusion="weighted", dense_weight=0.5, bm25_weight=0.25)
    # dense: 1, 0.875, 0; BM25: c 1, d 0.5, a 0
    assert scores(result) == pytest.approx({"a": 0.5, "b": 0.4375, "c": 0.25, "d": 0.125})


def test_weighted_z_scores_give_what_a_list_lacks_its_lowest() -> None:
    dense, bm25 = ranking(("a", 3.0), ("b", 1.0)), ranking(("b", 9.0), ("c", 5.0))
    # each list: +1 and -1 standard deviation (2 and 1, of all)
    result = fused(dense, bm25, fusion="weighted", normalisation="z_score")
    assert scores(result) == {"b": 0.0, "a": 0.0, "c": -2.0}
    assert result.rankings["item_id"].to_list() == ["b", "a", "c"]


def test_a_list_of_equal_scores_counts_1_or_0() -> None:
    flat = ranking(("a", 4.0), ("b", 4.0))
    nothing = RANKINGS.to_frame()
    assert scores(fused(flat, nothing, fusion="weighted")) == {"a": 1.0, "b": 1.0}
    z = fused(flat, nothing, fusion="weighted", normalisation="z_score")
    assert scores(z) == {"a": 0.0, "b": 0.0}


def test_depth_cuts_after_fusing() -> None:
    assert fused(DENSE, BM25, depth=1).rankings["item_id"].to_list() == ["c"]


def test_a_list_of_weight_0_is_left_out() -> None:
    assert list(scores(fused(DENSE, BM25, bm25_weight=0))) == ["a", "b", "c"]


def test_a_document_stands_for_its_chunk_in_the_list_that_ranks_it_higher() -> None:
    chunk = dict(fused(DENSE, BM25).rankings.select("item_id", "chunk_id").iter_rows())
    assert chunk == {"a": "a#0-9", "b": "b#0-8", "c": "c#0-70", "d": "d#0-50"}


def test_latencies_are_those_of_the_whole_path() -> None:
    result = fused(DENSE, BM25)
    assert result.latencies["milliseconds"][0] > 5.0
    assert result.figures["latency_p50_ms"] > 5.0


def test_queries_keep_their_order_and_one_without_results_has_none() -> None:
    dense = pl.concat([ranking(("a", 1.0), query="z"), ranking(("b", 1.0), query="y")])
    latencies = [times(1.0, "z", "y", "x")] * 2
    result = fuse(dense, RANKINGS.to_frame(), latencies, ["z", "y", "x"], Hybrid(), depth=3)
    assert result.rankings["query_id"].to_list() == ["z", "y"]


def test_two_weights_of_0_are_refused() -> None:
    with pytest.raises(ValueError, match="both 0"):
        Hybrid(dense_weight=0, bm25_weight=0)
