"""Dense retrieval under filters: only what passes, and of that exactly the best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from schemas.frames import CHUNKS
from schemas.indexes import Index
from schemas.retrievers import Retrieval
from tasks.filtering import Filters
from tasks.indexes import StoredVectors
from tasks.indexing import write_index
from tasks.ranked_lists import RankedLists
from tasks.retrieving import retrieve

N, DIM, COLOURS = 600, 8, ("red", "green", "blue")


def vectors_and_queries(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    drawn = random.standard_normal((N + 6, DIM)).astype(np.float32)
    drawn[30:60] = drawn[:30]  # ties across colours
    return drawn[:N], drawn[N:]


VECTORS, QUERIES = vectors_and_queries()
DOC_IDS = [f"d{i // 2}" for i in range(N)]  # two chunks each
CHUNK_FRAME = pl.DataFrame(
    [
        dict.fromkeys(CHUNKS) | {"chunk_id": f"{doc_id}#{i}", "doc_id": doc_id}
        for i, doc_id in enumerate(DOC_IDS)
    ],
    schema=CHUNKS,
)
DOCUMENTS = pl.DataFrame(
    {
        "doc_id": [f"d{i}" for i in range(N // 2)],
        "metadata": [json.dumps({"colour": COLOURS[i % 3], "rare": i < 3}) for i in range(N // 2)],
    }
)
ASKED: list[dict[str, Any] | None] = [
    {"colour": "red"},
    None,
    {"colour": ["red", "blue"]},
    {"colour": "red"},
    {"rare": True},
    {"colour": "red", "rare": False},
]


def run(folder: Path, label_method: Any = "span", depth: int = 10, **index: Any) -> RankedLists:
    texts = [None if one is None else json.dumps(one) for one in ASKED]
    queries = pl.DataFrame({"filter": pl.Series(texts, dtype=pl.String)})
    config = Index(**index)
    write_index(VECTORS, config, folder / "index.faiss", threads=1)
    return retrieve(
        folder / "index.faiss",
        QUERIES,
        VECTORS,
        CHUNK_FRAME,
        [f"q{i}" for i in range(len(ASKED))],
        index=config,
        retrieval=Retrieval(depth=depth),
        label_method=label_method,
        threads=1,
        filters=Filters.of(DOCUMENTS, CHUNK_FRAME, queries),
    )


def passes(row: int, wanted: dict[str, Any] | None) -> bool:
    document = row // 2
    has = {"colour": COLOURS[document % 3], "rare": document < 3}
    asked = (wanted or {}).items()
    return all(has[key] in (value if isinstance(value, list) else [value]) for key, value in asked)


def expected(query: int, depth: int) -> list[str]:
    cosines = VECTORS.astype(float) @ QUERIES[query].astype(float)
    cosines /= np.linalg.norm(VECTORS.astype(float), axis=1)
    rows = [row for row in range(N) if passes(row, ASKED[query])]
    names = CHUNK_FRAME["chunk_id"].to_list()
    ordered = sorted(rows, key=lambda row: (round(cosines[row], 12), names[row]), reverse=True)
    return [names[row] for row in ordered[:depth]]


def test_a_flat_index_gives_exactly_the_best_that_pass(tmp_path: Path) -> None:
    found = run(tmp_path).rankings
    for query in range(len(ASKED)):
        ids = found.filter(pl.col("query_id") == f"q{query}")["item_id"].to_list()
        assert ids == expected(query, 10)
    assert found["query_id"].unique(maintain_order=True).to_list() == [f"q{i}" for i in range(6)]


def test_fewer_that_pass_than_the_depth_are_all_that_come_back_and_none_is_short(
    tmp_path: Path,
) -> None:
    found = run(tmp_path, depth=50)
    assert found.rankings.filter(pl.col("query_id") == "q4").height == 6
    assert found.short_queries == []


def test_documents_are_collapsed_under_filters(tmp_path: Path) -> None:
    found = run(tmp_path, "document", depth=5).rankings
    for query in range(len(ASKED)):
        chunks = expected(query, N)
        documents = list(dict.fromkeys(name.partition("#")[0] for name in chunks))[:5]
        of_query = found.filter(pl.col("query_id") == f"q{query}")
        assert set(of_query["item_id"]) == set(documents)


@pytest.mark.parametrize(
    ("index", "least"),
    [
        ({"kind": "hnsw", "metric": "l2"}, 0.8),
        ({"kind": "ivf_flat", "n_lists": 8, "n_probe": 8}, 1.0),
        ({"kind": "ivf_pq", "n_lists": 4, "n_probe": 4, "pq_m": 4, "pq_bits": 4}, 0.2),
        ({"kind": "sq"}, 0.9),
        ({"kind": "PCA6,Flat"}, 0.3),
        ({"kind": "IVF4,Flat", "search_parameters": "nprobe=4"}, 1.0),
        ({"kind": "SQ4,RFlat"}, 0.7),
        ({"kind": "PQ4x4"}, 0.4),  # FAISS cannot search some of its vectors
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_every_kind_gives_only_what_passes(
    tmp_path: Path, index: dict[str, Any], least: float
) -> None:
    flat = run(tmp_path, metric=index.get("metric", "cosine")).rankings
    found = run(tmp_path, **index).rankings
    rows = dict(zip(CHUNK_FRAME["chunk_id"].to_list(), range(N), strict=True))
    for query, item in found.select("query_id", "item_id").iter_rows():
        assert passes(rows[item], ASKED[int(query[1:])])
    shared = found.join(flat, on=["query_id", "item_id"], how="semi").height
    assert shared / flat.height >= least


def test_stored_vectors_can_be_kept_to_some_rows() -> None:
    rows = np.arange(1, N, 7)
    stored = StoredVectors("l2", 1, VECTORS).within(rows)
    scores, found = stored.nearest(QUERIES[:1], 5)
    distances = -((VECTORS[rows] - QUERIES[0]) ** 2).sum(axis=1)
    assert found[0].tolist() == rows[np.argsort(-distances)[:5]].tolist()
    assert set(stored.above(QUERIES[0], float(scores[0, 2]) - 1e-4)) == set(found[0, :3].tolist())
    again = stored.within(rows[:3])
    assert set(again.nearest(QUERIES[:1], 4)[1][0].tolist()) == {*rows[:3].tolist(), -1}
