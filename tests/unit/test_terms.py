"""BM25 by hand, against bm25s called bare, and in the one order."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import polars as pl
import pytest

from schemas.frames import BENCHMARK, CHUNKS
from schemas.lexical_retrieval import Bm25
from schemas.retrievers import Retrieval
from tasks.ranked_lists import RankedLists
from tasks.term_retrieving import retrieve_terms
from tasks.terms import TermSearch, index_terms
from tasks.tokenizing import Tokenizer

PLAIN = Bm25(language="none")


def chunks_of(texts: list[str], doc_ids: list[str] | None = None) -> pl.DataFrame:
    doc_ids = doc_ids or [f"d{i}" for i in range(len(texts))]
    rows = [
        {"chunk_id": f"{doc_id}#{i}-{i + 1}", "doc_id": doc_id, "start": i, "end": i + 1}
        | {"text": text, "title": None}
        for i, (doc_id, text) in enumerate(zip(doc_ids, texts, strict=True))
    ]
    return pl.DataFrame(rows, schema=CHUNKS)


def queries_of(*texts: str) -> pl.DataFrame:
    rows = [{"query_id": f"q{i}", "text": text} for i, text in enumerate(texts)]
    return pl.DataFrame(rows, schema={name: BENCHMARK[name] for name in ("query_id", "text")})


def retrieve(
    texts: list[str],
    *queries: str,
    config: Bm25 = PLAIN,
    doc_ids: list[str] | None = None,
    **settings: Any,
) -> RankedLists:
    return retrieve_terms(
        index_terms(texts, config),
        chunks_of(texts, doc_ids),
        queries_of(*queries),
        config=config,
        retrieval=Retrieval(**settings),
        ranks_documents=doc_ids is not None,
    )


def test_scores_are_those_of_the_formula_worked_by_hand() -> None:
    # "cat mat" over lengths 2, 4, 1 (mean 7/3). idf(cat) = ln(1 + 1.5/2.5) = 0.470004 and
    # idf(mat) = ln(1 + 2.5/1.5) = 0.980829; 1.2 (0.25 + 0.75 |c| 3/7) = 1.071429 and 1.842857:
    # 0.470004 1/2.071429 and 0.470004 2/3.842857 + 0.980829 1/2.842857
    texts = ["cat sat", "cat cat mat rug", "dog"]
    scores = TermSearch(index_terms(texts, PLAIN), PLAIN).scores("cat mat")
    assert scores == pytest.approx([0.226898, 0.589627, 0.0], abs=1e-6)
    exact = log(1.6) * 2 / (2 + 1.2 * (0.25 + 9 / 7)) + log(8 / 3) / (1 + 1.2 * (0.25 + 9 / 7))
    assert scores[1] == pytest.approx(exact, abs=1e-15)


def test_a_term_that_is_asked_twice_counts_twice() -> None:
    search = TermSearch(index_terms(["cat sat", "dog"], PLAIN), PLAIN)
    assert search.scores("cat cat")[0] == 2 * search.scores("cat")[0] > 0


def test_rankings_are_those_of_bm25s_called_bare() -> None:
    import bm25s

    random = np.random.default_rng(7)
    words = [f"w{i}" for i in range(300)]
    weights = 1 / np.arange(1, 301)
    texts = [
        " ".join(random.choice(words, size=random.integers(5, 60), p=weights / weights.sum()))
        for _ in range(400)
    ]
    asked = [" ".join(random.choice(words, size=4)) for _ in range(25)]
    config = Bm25()  # our tokenizer with stemming and stop words, before both
    cut = Tokenizer(config)
    bare = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    bare.index([cut(text) for text in texts], show_progress=False)
    found = retrieve(texts, *asked, config=config, depth=20).rankings
    for row, query in enumerate(asked):
        ours = found.filter(pl.col("query_id") == f"q{row}")
        scores = bare.get_scores(cut(query))
        best = np.sort(scores)[::-1][: ours.height]
        assert ours["retrieval_score"].to_numpy() == pytest.approx(best, rel=1e-5)
        rows = [int(item[1:].partition("#")[0]) for item in ours["item_id"]]
        if len(np.unique(np.round(best, 5))) == len(best):  # no near tie of float32
            documents, _ = bare.retrieve([cut(query)], k=len(rows), show_progress=False)
            assert rows == documents[0].tolist()


def test_what_shares_no_term_is_no_result_and_depth_is_capped_at_the_corpus() -> None:
    found = retrieve(["cat sat", "cat", "dog"], "cat", "bird", depth=1_000)
    assert found.rankings.group_by("query_id").len().rows() == [("q0", 2)]
    assert found.figures["n_unmatched"] == 1
    assert found.latencies.height == 2


def test_ties_stand_by_id_descending_also_at_the_cut() -> None:
    found = retrieve(["cat"] * 12, "cat", depth=3)
    assert found.rankings["item_id"].to_list() == ["d9#9-10", "d8#8-9", "d7#7-8"]


def test_documents_stand_where_their_best_chunk_does() -> None:
    texts = ["cat dog bird", "cat", "cat dog", "dog"]
    found = retrieve(texts, "cat", doc_ids=["a", "b", "a", "c"], depth=5).rankings
    assert found["item_id"].to_list() == ["b", "a"]
    assert found["chunk_id"].to_list() == ["b#1-2", "a#2-3"]


def test_a_ranking_of_documents_that_ends_at_the_chunk_limit_is_named() -> None:
    texts, doc_ids = ["cat", "cat", "cat dog"], ["a", "a", "b"]
    found = retrieve(texts, "cat", doc_ids=doc_ids, depth=2, max_chunks=2)
    assert found.rankings["item_id"].to_list() == ["a"]
    assert found.short_queries == ["q0"]
    assert retrieve(texts, "cat", doc_ids=doc_ids, depth=2).short_queries == []


def test_texts_without_any_word_match_nothing() -> None:
    assert retrieve(["…", "!"], "cat").rankings.height == 0
    assert retrieve(["…", "cat"], "cat").rankings.height == 1
