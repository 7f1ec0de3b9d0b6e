"""ann_recall@k against hand-worked shares, with ties and with fewer results than k."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from schemas.frames import CHUNKS
from schemas.indexes import Index
from schemas.retrievers import Retrieval
from tasks.ann_recalls import recalls_at
from tasks.indexing import write_index
from tasks.retrieving import retrieve

LOWEST = -np.inf


def chunk_frame(chunk_ids: list[str]) -> pl.DataFrame:
    columns = {
        "chunk_id": chunk_ids,
        "doc_id": [chunk_id.partition("#")[0] for chunk_id in chunk_ids],
        "start": 0,
        "end": 1,
        "text": "x",
        "title": None,
    }
    return pl.DataFrame(columns, schema=CHUNKS)


@pytest.mark.parametrize(
    ("found", "share"),
    [
        ([0.9, 0.8, 0.8, 0.5], 3 / 4),  # the fourth, 0.5, is below the exact fourth, 0.7
        ([0.9, 0.8, 0.8, 0.7], 1.0),
        ([0.8, 0.7, 0.7, 0.6], 3 / 4),  # the best is missing, two ties at the exact fourth count
        ([0.9, 0.8, LOWEST, LOWEST], 2 / 4),  # only two came back
        ([LOWEST] * 4, 0.0),
    ],
)
def test_a_chunk_counts_when_its_score_reaches_the_exact_kth(
    found: list[float], share: float
) -> None:
    exact = np.array([[0.9, 0.8, 0.8, 0.7]])
    assert recalls_at(4, np.array([found]), exact).tolist() == [share]


def test_the_share_is_of_k_and_not_of_the_depth() -> None:
    exact = np.array([[4.0, 3, 2, 1], [4.0, 3, 2, 1]])
    found = np.array([[4.0, 3, 1, 0], [3.0, 2, 1, 0]])
    assert recalls_at(2, found, exact).tolist() == [1.0, 0.5]


def test_where_fewer_than_k_pass_a_filter_the_share_is_of_these() -> None:
    exact, found = np.array([[3.0, 2, LOWEST]]), np.array([[3.0, LOWEST, LOWEST]])
    assert recalls_at(3, found, exact).tolist() == [0.5]


@pytest.mark.parametrize(("n_probe", "recalls"), [(1, (0.8, 0.625)), (2, (1.0, 1.0))])
@pytest.mark.parametrize("label_method", ["span", "document"])
def test_an_index_that_reads_one_of_two_lists_loses_what_is_in_the_other(
    tmp_path: Path, n_probe: int, recalls: tuple[float, float], label_method: Any
) -> None:
    # Ten chunks at 0, 2, … 18 degrees make one list, six at 72, 75, … 87 the other. The query at
    # 40 degrees lies 22 to 40 from the first, whose centre is nearer, and 32 to 47 from the second.
    # The exact tenth lies 36 away: with one list 8 of 10 reach it, and 10 of all 16 are found.
    angles = np.radians([*range(0, 20, 2), *range(72, 90, 3), 40])
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    vectors, query = points[:16], points[16:]
    config = Index(kind="ivf_flat", n_lists=2, n_probe=n_probe)
    write_index(vectors, config, tmp_path / "index.faiss")
    figures = retrieve(
        tmp_path / "index.faiss",
        query,
        vectors,
        chunk_frame([f"d{i // 2}#{i % 2}-9" for i in range(16)]),
        ["q"],
        index=config,
        retrieval=Retrieval(depth=16),
        label_method=label_method,
        threads=1,
    ).figures
    assert (figures["ann_recall@10"], figures["ann_recall@16"]) == recalls
    assert figures["n_ann_queries"] == 1


def test_what_a_ranking_of_documents_finds_is_what_is_counted(tmp_path: Path) -> None:
    # every document is one chunk, so that the first 50 documents are the first 50 chunks found
    rng = np.random.default_rng(6)
    vectors = rng.standard_normal((1_000, 32)).astype(np.float32)
    queries = rng.standard_normal((40, 32)).astype(np.float32)
    chunks = chunk_frame([f"d{i:03}#0-9" for i in range(1_000)])
    exact = np.argsort(-(queries @ (vectors / np.linalg.norm(vectors, axis=1)[:, None]).T), axis=1)
    recalls = []
    for label_method in ("span", "document"):
        index = Index(kind="hnsw", m=4, ef_construction=8, ef_search=16)
        write_index(vectors, index, tmp_path / "index.faiss")
        found = retrieve(
            tmp_path / "index.faiss",
            queries,
            vectors,
            chunks,
            [f"q{i}" for i in range(40)],
            index=index,
            retrieval=Retrieval(depth=50),
            label_method=label_method,
            threads=1,
        )
        items = found.rankings["item_id"].str.head(4).to_list()
        names = found.rankings["query_id"].to_list()
        nearest = {(f"q{i}", f"d{row:03}") for i in range(40) for row in exact[i, :50]}
        share = len(nearest & set(zip(names, items, strict=True))) / 2_000
        assert found.figures["ann_recall@50"] == pytest.approx(share)
        recalls.append(share)
    assert recalls[0] < recalls[1] < 1  # of documents more is asked for
