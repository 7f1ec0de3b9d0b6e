"""Reranking without a model: order, tail, store, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from schemas.errors import StageError
from schemas.frames import LATENCIES, RANKINGS
from schemas.rerankers import Rerank
from tasks.models import ResolvedModel
from tasks.ranked_lists import RankedLists
from tasks.reranking import rerank

MODEL = ResolvedModel("tiny", Path("tiny"), None, "0" * 64, None, None)
TEXTS = {"a": "1", "b": "5", "c": "3", "d": "9", "e": "9"}
QUERIES = {"q2": "two", "q1": "one"}


@dataclass
class NumberScorer:
    """Scores a text by the number that it is."""

    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    worst: float = 0.0

    def scores(self, query: str, texts: list[str]) -> np.ndarray[Any, Any]:
        self.asked.append((query, texts))
        return np.array([float(text) + self.worst for text in texts])

    def are_truncated(self, query: str, texts: list[str]) -> np.ndarray[Any, Any]:
        return np.array([text == "9" for text in texts])


def rankings(**items: str) -> pl.DataFrame:
    rows = [
        (query, rank, f"item-{name}", name, 1 / rank)
        for query, names in items.items()
        for rank, name in enumerate(names, start=1)
    ]
    return pl.DataFrame(rows, schema=RANKINGS, orient="row")


def reranked(
    found: pl.DataFrame, tmp_path: Path, scorer: Any = None, *, depth: int = 3
) -> RankedLists:
    def load(*_: Any, **__: Any) -> Any:
        assert scorer is not None, "no model is loaded when every pair is known"
        return scorer

    return rerank(
        found,
        pl.DataFrame({"query_id": ["q2", "q1"], "milliseconds": [100.0, 100.0]}, LATENCIES),
        TEXTS,
        QUERIES,
        MODEL,
        Rerank(model="tiny", depth=depth),
        items=tmp_path,
        threads=1,
        device="cpu",
        load=load,
    )


def rows(result: RankedLists, query: str) -> list[tuple[str, float]]:
    of_query = result.rankings.filter(pl.col("query_id") == query)
    assert of_query["rank"].to_list() == list(range(1, of_query.height + 1))
    return list(of_query.select("chunk_id", "retrieval_score").iter_rows())


def test_the_first_items_are_ordered_anew_and_the_others_stay_below_them(tmp_path: Path) -> None:
    result = reranked(rankings(q2="abced"), tmp_path, NumberScorer())
    assert rows(result, "q2") == [("b", 5.0), ("c", 3.0), ("a", 1.0), ("e", 0.0), ("d", -1.0)]


def test_equal_scores_stand_by_id_descending(tmp_path: Path) -> None:
    result = reranked(rankings(q2="dea"), tmp_path, NumberScorer())
    assert [name for name, _ in rows(result, "q2")] == ["e", "d", "a"]


def test_the_order_below_holds_for_scores_of_any_size(tmp_path: Path) -> None:
    result = reranked(rankings(q2="abcde"), tmp_path, NumberScorer(worst=-1e30), depth=1)
    scores = [score for _, score in rows(result, "q2")]
    assert [name for name, _ in rows(result, "q2")] == list("abcde")
    assert scores == sorted(set(scores), reverse=True)


def test_a_pair_is_scored_once_and_read_from_then_on(tmp_path: Path) -> None:
    scorer = NumberScorer()
    first = reranked(rankings(q2="abc", q1="ab"), tmp_path, scorer)
    assert first.figures["n_scored"] == first.figures["n_pairs"] == 5
    again = reranked(rankings(q2="abc", q1="ab"), tmp_path)
    assert again.rankings.equals(first.rankings)
    assert again.latencies.equals(first.latencies)
    assert (again.figures["n_scored"], again.figures["n_reused"]) == (0, 5)
    deeper = reranked(rankings(q2="abc", q1="abc"), tmp_path, scorer := NumberScorer())
    assert deeper.figures["n_scored"] == 1
    assert scorer.asked[-1] == ("one", ["3"])


def test_queries_keep_their_order_and_what_was_cut_off_is_counted(tmp_path: Path) -> None:
    result = reranked(rankings(q1="ad", q2="ab"), tmp_path, NumberScorer())
    assert result.rankings["query_id"].to_list() == ["q2", "q2", "q1", "q1"]
    assert result.figures["n_truncated"] == 1


def test_latencies_are_those_of_the_whole_path(tmp_path: Path) -> None:
    result = reranked(rankings(q2="abc"), tmp_path, NumberScorer())
    milliseconds = dict(result.latencies.iter_rows())
    assert milliseconds["q2"] > 100.0
    assert milliseconds["q1"] == 100.0  # nothing was retrieved for it


def test_nothing_retrieved_is_nothing_reranked(tmp_path: Path) -> None:
    assert reranked(RANKINGS.to_frame(), tmp_path).rankings.height == 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_are_refused_and_not_stored(tmp_path: Path, bad: float) -> None:
    with pytest.raises(StageError, match=r"tiny gave 2 NaN or infinite scores among 2.*'two'"):
        reranked(rankings(q2="ab"), tmp_path, NumberScorer(worst=bad))
    assert reranked(rankings(q2="ab"), tmp_path, NumberScorer()).figures["n_scored"] == 2
