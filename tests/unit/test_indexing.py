"""An index file: the same bytes for the same vectors, mapped, and refused where it does not fit."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from schemas.errors import IndexMismatchError, StageError
from schemas.indexes import Index
from tasks.indexes import open_index
from tasks.indexing import write_index

VECTORS = np.array([[1, 0], [0, 2], [3, 4], [-1, 0]], dtype=np.float32)
QUERY = np.array([[2, 0]], dtype=np.float32)


def write(path: Path, metric: str, vectors: np.ndarray = VECTORS) -> Path:
    write_index(vectors, Index(metric=metric), path / f"{metric}.faiss")
    return path / f"{metric}.faiss"


@pytest.mark.parametrize(
    ("metric", "rows", "scores"),
    [
        ("inner_product", [2, 0, 1, 3], [6, 2, 0, -2]),
        ("cosine", [0, 2, 1, 3], [1, 0.6, 0, -1]),
        ("l2", [0, 1, 3, 2], [-1, -8, -9, -17]),
    ],
)
def test_scores_are_the_metrics_and_the_nearest_comes_first(
    tmp_path: Path, metric: str, rows: list[int], scores: list[float]
) -> None:
    index = open_index(write(tmp_path, metric), Index(metric=metric), threads=1)
    found_scores, found_rows = index.nearest(QUERY, 4)
    assert found_rows.tolist() == [rows]
    np.testing.assert_allclose(found_scores, [scores], rtol=1e-6)


@pytest.mark.parametrize(
    ("metric", "bound", "rows"),
    [("inner_product", 1.5, [0, 2]), ("cosine", -0.5, [0, 1, 2]), ("l2", -8.5, [0, 1])],
)
def test_everything_above_a_score_is_found(
    tmp_path: Path, metric: str, bound: float, rows: list[int]
) -> None:
    index = open_index(write(tmp_path, metric), Index(metric=metric), threads=1)
    assert sorted(index.above(QUERY[0], bound).tolist()) == rows


def test_more_than_there_is_comes_back_as_minus_one(tmp_path: Path) -> None:
    index = open_index(write(tmp_path, "cosine"), Index(metric="cosine"), threads=1)
    assert index.nearest(QUERY, 6)[1][0, 4:].tolist() == [-1, -1]


@pytest.mark.parametrize("metric", ["inner_product", "cosine", "l2"])
def test_the_same_vectors_give_the_same_bytes(tmp_path: Path, metric: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((40_000, 4), dtype=np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    first = write(tmp_path, metric, vectors).read_bytes()
    again = write(tmp_path, metric, np.load(tmp_path / "vectors.npy", mmap_mode="r")).read_bytes()
    assert first == again


def test_an_opened_index_is_mapped_and_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, "cosine")
    index = open_index(path, Index(metric="cosine"), threads=1)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("the system does not list its maps")
    assert str(path) in maps.read_text()
    assert index.n_vectors == 4


def test_queries_of_another_dimension_are_refused_with_both_numbers(tmp_path: Path) -> None:
    index = open_index(write(tmp_path, "cosine"), Index(metric="cosine"), threads=1)
    with pytest.raises(IndexMismatchError, match=r"holds 2-dimensional .* have 3 dimensions"):
        index.nearest(np.ones((1, 3), dtype=np.float32), 1)


def test_an_index_of_another_metric_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "l2")
    with pytest.raises(IndexMismatchError, match="'cosine'"):
        open_index(path, Index(metric="cosine"))


def test_an_index_of_another_kind_is_refused(tmp_path: Path) -> None:
    index = faiss.IndexHNSWFlat(2, 4, faiss.METRIC_INNER_PRODUCT)
    faiss.write_index(index, str(tmp_path / "hnsw.faiss"))
    with pytest.raises(IndexMismatchError, match="IndexHNSWFlat"):
        open_index(tmp_path / "hnsw.faiss", Index(metric="cosine"))


def test_a_file_that_is_no_index_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not an index at all")
    for name in ("notes.txt", "missing.faiss"):
        with pytest.raises(StageError, match=name):
            open_index(tmp_path / name, Index())


def test_a_zero_vector_has_no_cosine_and_is_named_by_its_row(tmp_path: Path) -> None:
    vectors = np.ones((20_000, 2), dtype=np.float32)
    vectors[17_000] = 0
    with pytest.raises(StageError, match=r"vector 17000 has the length 0\.0"):
        write(tmp_path, "cosine", vectors)


def test_nothing_to_index_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="nothing to index"):
        write(tmp_path, "cosine", np.zeros((0, 2), dtype=np.float32))


def test_threads_are_given_back(tmp_path: Path) -> None:
    before = faiss.omp_get_max_threads()
    open_index(write(tmp_path, "cosine"), Index(metric="cosine"), threads=before + 1).nearest(
        QUERY, 1
    )
    assert faiss.omp_get_max_threads() == before
