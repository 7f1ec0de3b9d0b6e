"""Rankings are exact: checked against scores worked out pair by pair, with ties everywhere."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import IndexMismatchError, StageError
from schemas.frames import CHUNKS, RANKINGS
from schemas.indexes import Index
from schemas.retrievers import Retrieval
from tasks import searching
from tasks.indexes import open_index
from tasks.indexing import write_index
from tasks.ranked_lists import RankedLists
from tasks.rescoring import Rescorer
from tasks.retrieving import retrieve

METRICS = ("inner_product", "cosine", "l2")


def chunk_frame(chunk_ids: list[str]) -> pl.DataFrame:
    n = len(chunk_ids)
    return pl.DataFrame(
        {
            "chunk_id": chunk_ids,
            "doc_id": [chunk_id.rpartition("#")[0] for chunk_id in chunk_ids],
            "start": [0] * n,
            "end": [1] * n,
            "text": ["x"] * n,
            "title": [None] * n,
        },
        schema=CHUNKS,
    )


def search(
    folder: Path,
    queries: np.ndarray,
    vectors: np.ndarray,
    chunk_ids: list[str],
    *,
    metric: str = "cosine",
    kind: dict[str, Any] | None = None,
    label_method: Any = "span",
    query_ids: list[str] | None = None,
    threads: int = 1,
    **retrieval: Any,
) -> RankedLists:
    path = folder / "index.faiss"
    index = Index(metric=metric, **(kind or {}))
    write_index(vectors, index, path)
    return retrieve(
        path,
        queries,
        vectors,
        chunk_frame(chunk_ids),
        query_ids or [f"q{i}" for i in range(len(queries))],
        index=index,
        retrieval=Retrieval(**retrieval),
        label_method=label_method,
        threads=threads,
    )


def score(metric: str, query: np.ndarray, chunk: np.ndarray) -> float:
    """One pair in plain Python, rounded once a step."""
    q, c = [float(x) for x in query], [float(x) for x in chunk]
    if metric == "l2":
        return -math.fsum((a - b) ** 2 for a, b in zip(q, c, strict=True))
    product = math.fsum(a * b for a, b in zip(q, c, strict=True))
    if metric == "cosine":
        product /= math.sqrt(math.fsum(a * a for a in q)) * math.sqrt(math.fsum(b * b for b in c))
    return product


def expected_items(
    metric: str, query: np.ndarray, vectors: np.ndarray, chunk_ids: list[str], depth: int
) -> list[tuple[float, str]]:
    pairs = [(score(metric, query, vector), chunk_ids[i]) for i, vector in enumerate(vectors)]
    return sorted(pairs, key=lambda pair: (pair[0], pair[1].encode()), reverse=True)[:depth]


def test_rankings_are_frames_in_the_order_of_the_queries_then_by_rank(tmp_path: Path) -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.float32)
    queries = np.array([[0, 1], [1, 0]], dtype=np.float32)
    found = search(tmp_path, queries, vectors, ["a#0-1", "a#1-2", "b#0-1"], depth=2)
    assert found.rankings.schema == RANKINGS
    assert found.rankings.drop("retrieval_score").rows() == [
        ("q0", 1, "a#1-2", "a#1-2"),
        ("q0", 2, "b#0-1", "b#0-1"),
        ("q1", 1, "a#0-1", "a#0-1"),
        ("q1", 2, "b#0-1", "b#0-1"),
    ]
    expected = pytest.approx([1, math.sqrt(0.5), 1, math.sqrt(0.5)], abs=1e-15)
    assert found.rankings["retrieval_score"].to_list() == expected


def test_l2_scores_are_minus_the_squared_distance_and_zero_is_not_negative(
    tmp_path: Path,
) -> None:
    vectors = np.array([[3, 4], [0, 0]], dtype=np.float32)
    found = search(tmp_path, vectors[1:], vectors, ["a#0-1", "b#0-1"], metric="l2", depth=2)
    scores = found.rankings["retrieval_score"].to_list()
    assert scores == [0.0, -25.0]
    assert math.copysign(1, scores[0]) == 1


def test_equal_scores_are_ordered_by_id_descending_bytewise(tmp_path: Path) -> None:
    ids = ["a#0-1", "Z#0-1", "é#0-1", "\uffff#0-1", "\U0001d4b3#0-1", "a#0-10", "a#0-2"]
    vectors = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (len(ids), 1))
    found = search(tmp_path, vectors[:1], vectors, ids, depth=10)
    assert found.rankings["item_id"].to_list() == [
        "\U0001d4b3#0-1",  # four bytes in UTF-8, from f0; in UTF-16 it would come after the next
        "\uffff#0-1",
        "é#0-1",
        "a#0-2",
        "a#0-10",
        "a#0-1",
        "Z#0-1",
    ]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_equal", [30, 150, 700, 3_000])
def test_a_tie_at_the_last_rank_is_followed_until_the_score_falls(
    tmp_path: Path, metric: str, n_equal: int
) -> None:
    rng = np.random.default_rng(n_equal)
    others = rng.standard_normal((3_000, 8)).astype(np.float32)
    query = np.ones((1, 8), dtype=np.float32)
    vectors = np.concatenate([others, np.repeat(query * np.float32(1.5), n_equal, axis=0)])
    ids = [f"d{i:05}#0-1" for i in rng.permutation(len(vectors))]
    found = search(tmp_path, query, vectors, ids, metric=metric, depth=10)
    expected = expected_items(metric, query[0], vectors, ids, 10)
    assert found.rankings["item_id"].to_list() == [chunk_id for _, chunk_id in expected]
    assert found.figures["n_deepened"] == 1


@pytest.mark.parametrize("metric", METRICS)
def test_scores_closer_than_float32_can_tell_are_ordered_exactly(
    tmp_path: Path, metric: str
) -> None:
    # 2,000 vectors that differ in the last bits of one component: FAISS's scores are noise
    rng = np.random.default_rng(7)
    query = rng.standard_normal((1, 64)).astype(np.float32)
    vectors = np.repeat(query, 2_000, axis=0)
    for row in range(2_000):
        vectors[row, row % 64] += np.spacing(vectors[row, row % 64]) * (row // 64)
    ids = [f"d{i:05}#0-1" for i in range(2_000)]
    found = search(tmp_path, query, vectors, ids, metric=metric, depth=50)
    scores = found.rankings["retrieval_score"].to_list()
    exact = Rescorer(metric, query, vectors).scores(np.array([0]), np.arange(2_000)[None])[0]
    order = sorted(range(2_000), key=lambda i: (exact[i], ids[i]), reverse=True)[:50]
    assert found.rankings["item_id"].to_list() == [ids[i] for i in order]
    assert scores == exact[order].tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_a_query_gets_the_same_bits_alone_and_among_others(tmp_path: Path, metric: str) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((700, 48)).astype(np.float32)
    queries = rng.standard_normal((60, 48)).astype(np.float32)
    ids = [f"d{i % 90}#{i}-{i + 1}" for i in range(700)]
    for label_method in ("span", "document"):
        arguments: dict[str, Any] = {"metric": metric, "label_method": label_method, "depth": 20}
        together = search(tmp_path, queries, vectors, ids, **arguments).rankings
        alone = [
            search(
                tmp_path, queries[i : i + 1], vectors, ids, query_ids=[f"q{i}"], **arguments
            ).rankings
            for i in range(60)
        ]
        assert pl.concat(alone).equals(together)


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8, 16, 100, 129, 384, 1_000])
@pytest.mark.parametrize("metric", METRICS)
def test_the_bits_of_a_score_do_not_depend_on_what_is_scored_beside_it(
    metric: str, dim: int
) -> None:
    rng = np.random.default_rng(dim)
    queries = rng.standard_normal((5, dim)).astype(np.float32)
    vectors = rng.standard_normal((600, dim)).astype(np.float32)
    rows = rng.integers(0, 600, (5, 600))
    rescorer = Rescorer(metric, queries, vectors)
    together = rescorer.scores(np.arange(5), rows)
    threaded = rescorer.scores(np.arange(5), rows, threads=3)
    by_column = [
        Rescorer(metric, queries[[i]], vectors[rows[i, j]][None]).scores(
            np.array([0]), np.array([[0]])
        )[0, 0]
        for i in range(5)
        for j in range(0, 600, 37)
    ]
    shuffled = rescorer.scores(np.arange(5), rows[:, ::-1])[:, ::-1]
    assert np.array_equal(together, threaded)
    assert np.array_equal(together, shuffled)
    assert together[:, ::37].ravel().tolist() == by_column


@pytest.mark.parametrize("metric", METRICS)
def test_a_score_is_within_a_few_units_of_the_last_place_of_the_exact_one(metric: str) -> None:
    rng = np.random.default_rng(11)
    query, vectors = rng.standard_normal((1, 384)), rng.standard_normal((20, 384))
    query, vectors = query.astype(np.float32), vectors.astype(np.float32)
    found = Rescorer(metric, query, vectors).scores(np.array([0]), np.arange(20)[None])[0]
    q = [Fraction(float(x)) for x in query[0]]
    for row, value in enumerate(found):
        c = [Fraction(float(x)) for x in vectors[row]]
        exact = float(sum(a * b for a, b in zip(q, c, strict=True)))
        size = math.sqrt(float(sum(a * a for a in q)) * float(sum(b * b for b in c)))
        if metric == "cosine":
            exact, size = exact / size, 1.0
        elif metric == "l2":
            exact = size = -float(sum((a - b) ** 2 for a, b in zip(q, c, strict=True)))
        assert abs(value - exact) <= 4e-16 * abs(size)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_queries", [1, 40])  # FAISS has another code path from 20 on
@pytest.mark.parametrize(("dim", "mean"), [(100, 0.0), (4_000, 1.0)])
def test_faiss_is_never_further_off_than_the_slack(
    tmp_path: Path, metric: str, n_queries: int, dim: int, mean: float
) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.normal(mean, 1, (400, dim)) * rng.lognormal(size=(400, 1))
    vectors = vectors.astype(np.float32)
    queries = rng.normal(mean, 1, (n_queries, dim)).astype(np.float32)
    vectors[:n_queries] = queries  # where |q|² + |c|² - 2 q·c cancels
    write_index(vectors, Index(metric=metric), tmp_path / "index.faiss")
    opened = open_index(tmp_path / "index.faiss", Index(metric=metric), threads=1)
    scores, rows = opened.nearest(queries, 400)
    rescorer = Rescorer(metric, queries, vectors)
    positions = np.arange(n_queries)
    off = np.abs(scores.astype(np.float64) - rescorer.scores(positions, rows)).max(axis=1)
    assert (off <= rescorer.slack(positions)).all()


def test_fewer_chunks_than_depth_give_fewer_results(tmp_path: Path) -> None:
    vectors = np.eye(3, dtype=np.float32)
    found = search(tmp_path, vectors, vectors, ["a#0-1", "b#0-1", "c#0-1"], depth=100)
    assert found.rankings["query_id"].value_counts().sort("query_id")["count"].to_list() == [3] * 3
    assert found.figures["n_results"] == 9
    assert found.short_queries == []


DOCUMENT_IDS = ["a#0-1", "a#1-2", "a#2-3", "b#0-1", "b#1-2", "c#0-1"]
DOCUMENT_VECTORS = np.array(
    [[9, 0], [8, 0], [7, 0], [6, 0], [5, 0], [4, 0]], dtype=np.float32
)  # inner products 9 to 4 with the query
ONE = np.array([[1, 0]], dtype=np.float32)


def documents(folder: Path, **retrieval: Any) -> RankedLists:
    return search(
        folder,
        ONE,
        DOCUMENT_VECTORS,
        DOCUMENT_IDS,
        metric="inner_product",
        label_method="document",
        **retrieval,
    )


def test_a_document_stands_where_its_best_chunk_does(tmp_path: Path) -> None:
    found = documents(tmp_path, depth=3)
    assert found.rankings.rows() == [
        ("q0", 1, "a", "a#0-1", 9.0),
        ("q0", 2, "b", "b#0-1", 6.0),
        ("q0", 3, "c", "c#0-1", 4.0),
    ]
    assert found.short_queries == []


@pytest.mark.parametrize(
    ("max_chunks", "items"),
    [(3, ["a"]), (4, ["a", "b"]), (5, ["a", "b"]), (6, ["a", "b", "c"])],
)
def test_collapsing_looks_at_no_more_than_max_chunks_and_lists_what_ends_short(
    tmp_path: Path, max_chunks: int, items: list[str]
) -> None:
    found = documents(tmp_path, depth=3, max_chunks=max_chunks)
    assert found.rankings["item_id"].to_list() == items
    assert found.short_queries == ([] if len(items) == 3 else ["q0"])


def test_a_ranking_that_max_chunks_ends_is_settled_by_one_search(tmp_path: Path) -> None:
    # one document owns the 500 nearest chunks, so ten documents are nowhere near
    vectors = np.ones((1_000, 2), dtype=np.float32)
    vectors[:, 0] = np.arange(1_000, 0, -1)
    ids = [f"{'long' if i < 500 else i}#{i}-{i + 1}" for i in range(1_000)]
    arguments: dict[str, Any] = {"metric": "inner_product", "label_method": "document"}
    found = search(tmp_path, ONE, vectors, ids, depth=10, max_chunks=20, **arguments)
    assert found.rankings["item_id"].to_list() == ["long"]
    assert found.short_queries == ["q0"]
    assert found.figures["n_deepened"] == 0


def test_a_corpus_with_fewer_documents_than_depth_is_not_short(tmp_path: Path) -> None:
    found = documents(tmp_path, depth=50, max_chunks=6)
    assert found.rankings["item_id"].to_list() == ["a", "b", "c"]
    assert found.short_queries == []


def test_equal_documents_are_ordered_by_doc_id_and_equal_chunks_by_chunk_id(
    tmp_path: Path,
) -> None:
    # "a#0-1" < "a!#0-1" as chunks, "a" < "a!" as documents; within one document "#9-10" > "#10-11"
    ids = ["a#9-10", "a#10-11", "a!#0-1", "b#0-1"]
    vectors = np.repeat(ONE, 4, axis=0)
    found = search(tmp_path, ONE, vectors, ids, label_method="document", depth=2)
    assert found.rankings.select("item_id", "chunk_id").rows() == [("b", "b#0-1"), ("a!", "a!#0-1")]
    found = search(tmp_path, ONE, vectors, ids, label_method="document", depth=3)
    assert found.rankings["chunk_id"].to_list()[2] == "a#9-10"


@settings(max_examples=150, deadline=None)
@given(
    metric=st.sampled_from(METRICS),
    label_method=st.sampled_from(["span", "document"]),
    n_chunks=st.integers(1, 600),
    n_documents=st.integers(1, 60),
    depth=st.integers(1, 30),
    max_chunks=st.one_of(st.none(), st.integers(1, 80)),
    levels=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_rankings_equal_a_plain_sort_of_all_pairs(
    tmp_path_factory: pytest.TempPathFactory,
    metric: str,
    label_method: str,
    n_chunks: int,
    n_documents: int,
    depth: int,
    max_chunks: int | None,
    levels: int,
    seed: int,
) -> None:
    # few small whole components: many exact ties, and scores that plain Python gets exactly too
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-levels, levels + 1, (n_chunks, 3)).astype(np.float32)
    queries = rng.integers(-levels, levels + 1, (3, 3)).astype(np.float32)
    vectors[~vectors.any(axis=1)] = 1
    queries[~queries.any(axis=1)] = 1
    ids = [f"d{rng.integers(n_documents)}#{i}-{i + 1}" for i in range(n_chunks)]

    found = search(
        tmp_path_factory.mktemp("index"),
        queries,
        vectors,
        ids,
        metric=metric,
        label_method=label_method,
        depth=depth,
        max_chunks=max_chunks,
    )

    exact = Rescorer(metric, queries, vectors).scores(
        np.arange(3), np.tile(np.arange(n_chunks), (3, 1))
    )
    for query in range(3):
        in_order = sorted(((exact[query, i], ids[i]) for i in range(n_chunks)), reverse=True)
        if label_method == "document":
            limit = max_chunks if max_chunks is not None else 20 * depth
            best: dict[str, tuple[float, str]] = {}
            for value, chunk_id in in_order[:limit]:
                best.setdefault(chunk_id.rpartition("#")[0], (value, chunk_id))
            items = sorted(((v, doc, chunk) for doc, (v, chunk) in best.items()), reverse=True)
            n_items = len({chunk_id.rpartition("#")[0] for chunk_id in ids})
            assert (f"q{query}" in found.short_queries) == (len(best) < min(depth, n_items))
        else:
            items = [(value, chunk_id, chunk_id) for value, chunk_id in in_order]
        rows = found.rankings.filter(pl.col("query_id") == f"q{query}")
        assert rows["rank"].to_list() == list(range(1, rows.height + 1))
        assert (
            list(zip(rows["retrieval_score"], rows["item_id"], rows["chunk_id"], strict=True))
            == items[:depth]
        )


@pytest.mark.parametrize("label_method", ["span", "document"])
def test_small_blocks_and_every_way_to_go_deeper_give_the_same_rankings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label_method: str
) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.integers(-2, 3, (2_000, 3)).astype(np.float32) + np.float32(0.5)
    queries = rng.integers(-2, 3, (30, 3)).astype(np.float32) + np.float32(0.5)
    ids = [f"d{i % 60}#{i}-{i + 1}" for i in range(2_000)]
    arguments: dict[str, Any] = {"label_method": label_method, "depth": 50, "max_chunks": 150}
    plain = search(tmp_path, queries, vectors, ids, **arguments)
    for name, value in (
        ("ROUNDS_FOR_TIES", 0),
        ("PAIRS_AT_ONCE", 200),
        ("QUERIES_AT_ONCE", 7),
        ("LEAST_SPARE", 1),
    ):
        monkeypatch.setattr(searching, name, value)
        changed = search(tmp_path, queries, vectors, ids, **arguments)
        assert changed.rankings.equals(plain.rankings)
        assert changed.short_queries == plain.short_queries
    assert plain.figures["n_deepened"] > 0


APPROXIMATE: list[dict[str, Any]] = [
    {"kind": "hnsw", "m": 16, "ef_search": 16},
    {"kind": "ivf_flat", "n_lists": 8, "n_probe": 5},
    {"kind": "sq", "sq_type": "4bit"},
    {"kind": "ivf_pq", "n_lists": 4, "n_probe": 4, "pq_m": 4, "pq_bits": 4},
    {"kind": "IVF8,SQ8", "search_parameters": "nprobe=5"},
]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", APPROXIMATE, ids=lambda kind: kind["kind"])
def test_an_approximate_index_fills_rankings_of_documents_that_have_many_chunks(
    tmp_path: Path, kind: dict[str, Any], metric: str
) -> None:
    # 100 documents of 10 chunks each that lie together: the nearest 30 chunks are of few documents
    rng = np.random.default_rng(2)
    centres = np.repeat(rng.standard_normal((100, 16)), 10, axis=0)
    vectors = (centres + 0.3 * rng.standard_normal(centres.shape)).astype(np.float32)
    queries = rng.standard_normal((20, 16)).astype(np.float32)
    ids = [f"d{i // 10}#{i % 10}-99" for i in range(1_000)]
    for label_method, depth in (("document", 15), ("span", 200)):
        arguments: dict[str, Any] = {"metric": metric, "label_method": label_method}
        found = search(tmp_path, queries, vectors, ids, kind=kind, depth=depth, **arguments)
        assert found.short_queries == []
        by_query = found.rankings.group_by("query_id").agg(
            ranks="rank", n_items=pl.col("item_id").n_unique()
        )
        assert by_query["ranks"].to_list() == [list(range(1, depth + 1))] * 20
        assert by_query["n_items"].to_list() == [depth] * 20
        for (query_id,), ranked in found.rankings.group_by("query_id"):
            query = queries[int(query_id[1:])]
            exact = [score(metric, query, vectors[ids.index(name)]) for name in ranked["chunk_id"]]
            assert ranked["retrieval_score"].to_list() == pytest.approx(exact, rel=0, abs=1e-5)
            order = sorted(zip(exact, ranked["item_id"], strict=True), reverse=True)
            assert [item for _, item in order] == ranked["item_id"].to_list()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", [{"kind": "flat"}, *APPROXIMATE], ids=lambda kind: kind["kind"])
def test_any_number_of_threads_gives_the_same_rankings(
    tmp_path: Path, kind: dict[str, Any], metric: str
) -> None:
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((2_000, 64)).astype(np.float32)
    vectors[1_000:1_500] = vectors[:500] + np.float32(1e-7)  # near each other, or equal
    queries = rng.standard_normal((150, 64)).astype(np.float32)
    ids = [f"d{i}#0-1" for i in range(2_000)]
    arguments: dict[str, Any] = {"metric": metric, "kind": kind, "depth": 50}
    alone, *others = (
        search(tmp_path, queries, vectors, ids, threads=threads, **arguments).rankings
        for threads in (1, 2, 3)
    )
    assert all(other.equals(alone) for other in others)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", APPROXIMATE, ids=lambda kind: kind["kind"])
def test_equal_vectors_tie_in_an_approximate_index(
    tmp_path: Path, kind: dict[str, Any], metric: str
) -> None:
    # FAISS compares four vectors of a graph at once, and may sum them in another order than one
    rng = np.random.default_rng(3)
    vectors = np.tile(rng.standard_normal((150, 388)).astype(np.float32), (4, 1))
    queries = rng.standard_normal((20, 388)).astype(np.float32)
    ids = [f"d{i:03}#0-1" for i in rng.permutation(600)]
    found = search(tmp_path, queries, vectors, ids, metric=metric, kind=kind, depth=40)
    n_tied = 0
    for (_,), ranked in found.rankings.group_by("query_id"):
        of_vector: dict[int, list[tuple[float, str]]] = {}
        for value, name in zip(ranked["retrieval_score"], ranked["item_id"], strict=True):
            of_vector.setdefault(ids.index(name) % 150, []).append((value, name))
        for equal in of_vector.values():
            assert len({value for value, _ in equal}) == 1
            assert equal == sorted(equal, reverse=True)
            n_tied += len(equal) > 1
    assert n_tied > 20


@pytest.mark.parametrize("kind", APPROXIMATE[2:], ids=lambda kind: kind["kind"])
@pytest.mark.parametrize(("depth", "n_candidates"), [(20, None), (200, None), (20, 100)])
def test_of_an_index_that_compresses_more_are_scored_exactly_than_count(
    tmp_path: Path, kind: dict[str, Any], depth: int, n_candidates: int | None
) -> None:
    rng = np.random.default_rng(4)
    vectors = rng.standard_normal((1_000, 16)).astype(np.float32)
    queries = rng.standard_normal((20, 16)).astype(np.float32)
    ids = [f"d{i:04}#0-1" for i in range(1_000)]
    kind = kind | {"n_candidates": n_candidates}
    found = search(tmp_path, queries, vectors, ids, kind=kind, depth=depth)

    n_scored = n_candidates or depth + max(16, depth // 8)
    index = open_index(tmp_path / "index.faiss", Index(**kind).for_searching(), threads=1)
    _, rows = index.nearest(queries, n_scored)
    for query in range(20):
        scored = [(score("cosine", queries[query], vectors[row]), ids[row]) for row in rows[query]]
        expected = [chunk_id for _, chunk_id in sorted(scored, reverse=True)[:depth]]
        ranked = found.rankings.filter(pl.col("query_id") == f"q{query}")["item_id"].to_list()
        assert ranked == expected


def test_figures_say_how_fast_one_query_and_all_of_them_are(tmp_path: Path) -> None:
    vectors = np.eye(300, dtype=np.float32)
    figures = search(tmp_path, vectors, vectors, [f"d{i}#0-1" for i in range(300)], depth=5).figures
    assert figures["n_queries"] == 300
    assert figures["n_results"] == 1_500
    assert figures["n_latency"] == 100
    assert 0 < figures["latency_p50_ms"] <= figures["latency_p95_ms"]
    assert figures["queries_per_second"] > 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e20])
def test_vectors_that_cannot_be_compared_are_refused(
    tmp_path: Path, metric: str, value: float
) -> None:
    queries = np.array([[1, 1], [1, value]], dtype=np.float32)
    with pytest.raises(StageError, match="query 1"):
        search(tmp_path, queries, np.eye(2, dtype=np.float32), ["a#0-1", "b#0-1"], metric=metric)


def test_ids_that_come_twice_are_refused(tmp_path: Path) -> None:
    vectors = np.eye(2, dtype=np.float32)
    with pytest.raises(StageError, match="chunk ids come twice: 'a#0-1'"):
        search(tmp_path, vectors, vectors, ["a#0-1", "a#0-1"])
    with pytest.raises(StageError, match="query ids come twice: 'q'"):
        search(tmp_path, vectors, vectors, ["a#0-1", "b#0-1"], query_ids=["q", "q"])


def test_an_index_of_other_vectors_is_refused(tmp_path: Path) -> None:
    vectors = np.eye(3, dtype=np.float32)
    write_index(vectors, Index(), tmp_path / "index.faiss")
    ids = ["a#0-1", "b#0-1", "c#0-1"]

    def ask(queries: np.ndarray, chunks: np.ndarray, n_ids: int) -> None:
        retrieve(
            tmp_path / "index.faiss",
            queries,
            chunks,
            chunk_frame(ids[:n_ids]),
            [f"q{i}" for i in range(len(queries))],
            index=Index(),
            retrieval=Retrieval(),
            label_method="span",
            threads=1,
        )

    with pytest.raises(IndexMismatchError, match="holds 3 vectors, but there are 2 vectors"):
        ask(vectors, vectors[:2], 2)
    with pytest.raises(IndexMismatchError, match="holds 3 vectors"):
        ask(vectors, vectors, 2)
    with pytest.raises(IndexMismatchError, match=r"holds 3-dimensional .* the queries 2"):
        ask(vectors[:, :2], vectors, 3)
