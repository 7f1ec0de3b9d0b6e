"""Scores do not depend on where the vectors come from: stored, or held by the index itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from schemas.errors import StageError
from schemas.frames import CHUNKS
from schemas.indexes import Index
from schemas.retrievers import Retrieval
from tasks import retrieving
from tasks.indexes import open_index
from tasks.indexing import write_index
from tasks.rescoring import Rescorer
from tasks.vector_blocks import BLOCK_ROWS, UNIT, prepared

METRICS = ("inner_product", "cosine", "l2")
HOLDING: list[dict[str, Any]] = [{"kind": "flat"}, {"kind": "hnsw", "m": 8}, {"kind": "HNSW8"}]
ROOT = Path(__file__).parents[2]


def vectors_of(n: int, dim: int, *, seed: int = 0, is_unit: bool = False) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, dim))
    if is_unit:
        vectors /= np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    return vectors.astype(np.float32)


def unaligned(vectors: np.ndarray) -> np.ndarray:
    """The same vectors at an odd address, as a mapped index may hold them."""
    content = np.frombuffer(b"\0" + vectors.tobytes(), dtype=np.uint8)[1:]
    moved = content.view(np.float32).reshape(vectors.shape)
    assert not moved.flags.aligned
    return moved


def stored_in(path: Path, vectors: np.ndarray, config: Index) -> tuple[Any, np.ndarray | None]:
    """The open index, which keeps what it holds alive, and what it holds."""
    write_index(vectors, config.for_building(), path)
    opened = open_index(path, config.for_searching(), threads=1)
    return opened, opened.stored


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("is_unit", [True, False])
@pytest.mark.parametrize("dim", [1, 3, 8, 100, 385])
def test_scores_of_vectors_that_are_not_aligned_have_the_same_bits(
    metric: str, is_unit: bool, dim: int
) -> None:
    vectors = vectors_of(700, dim, is_unit=is_unit)
    queries = vectors_of(5, dim, seed=1, is_unit=is_unit)
    rows = np.random.default_rng(2).integers(-1, 700, (5, 300))  # -1: nothing was returned
    aligned, moved = (Rescorer(metric, queries, given) for given in (vectors, unaligned(vectors)))
    positions = np.arange(5)
    expected = aligned.scores(positions, rows)
    for threads in (1, 3):
        assert moved.scores(positions, rows, threads=threads).tobytes() == expected.tobytes()
    assert moved.slack(positions).tobytes() == aligned.slack(positions).tobytes()
    assert (np.isneginf(expected) == (rows < 0)).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dim", [1, 3, 8, 100, 385])
def test_pairs_have_the_bits_of_scores_and_float32_sums_are_within_the_slack(
    metric: str, dim: int
) -> None:
    vectors, queries = vectors_of(700, dim), vectors_of(5, dim, seed=1)
    rows = np.random.default_rng(2).integers(-1, 700, (5, 300))  # -1: nothing was returned
    positions = np.arange(5)
    for given in (vectors, unaligned(vectors)):
        rescorer = Rescorer(metric, queries, given)
        exact = rescorer.scores(positions, rows)
        at, places = np.nonzero(rows >= 0)
        alone = rescorer.pairs(positions[at], rows[at, places])
        assert alone.tobytes() == exact[at, places].tobytes()
        for threads in (1, 2):
            roughly = rescorer.roughly(positions, rows, threads=threads)
            assert (np.isneginf(roughly) == (rows < 0)).all()
            with np.errstate(invalid="ignore"):
                off = np.nan_to_num(np.abs(roughly - exact))
            assert (off <= rescorer.slack(positions)[:, None]).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(20))
def test_scores_that_are_off_by_the_slack_are_settled_to_the_exact_order(
    metric: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    dim = int(rng.choice([4, 48, 384]))
    queries = vectors_of(6, dim, seed=seed, is_unit=True)
    vectors = vectors_of(300, dim, seed=seed + 100, is_unit=True)
    vectors[150:200] = vectors[:50]  # ties
    vectors[200:] = vectors[:100] + rng.choice([0, 1e-7, 1e-5], (100, 1)).astype(np.float32)
    rescorer, positions = Rescorer(metric, queries, vectors), np.arange(6)
    rows = np.array([rng.permutation(300) for _ in positions])
    rows[:, -20:] = -1
    slack = rescorer.slack(positions)[:, None]
    exact = rescorer.scores(positions, rows)
    off = exact + slack * rng.choice([-0.99, -0.5, 0, 0.5, 0.99], exact.shape)
    order = np.argsort(-off, axis=1)
    rows, off, exact = (np.take_along_axis(one, order, axis=1) for one in (rows, off, exact))

    settled = rescorer.settled(positions, rows, off)

    for query in positions:
        found, wanted = settled[query, :280], exact[query, :280]
        assert (found[:, None] < found).tolist() == (wanted[:, None] < wanted).tolist()
        assert (found[:, None] == found).tolist() == (wanted[:, None] == wanted).tolist()
    assert np.isneginf(settled[:, 280:]).all()
    settled, exact, off = settled[:, :280], exact[:, :280], off[:, :280]
    assert ((settled == exact) | (settled == off)).all()
    assert 0 < (settled == off).mean() < 1  # neither all nor none was worked out


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", HOLDING, ids=lambda kind: kind["kind"])
def test_an_index_holds_normalised_vectors_as_they_were_given(
    tmp_path: Path, kind: dict[str, Any], metric: str
) -> None:
    vectors = vectors_of(BLOCK_ROWS + 300, 12, is_unit=True)
    opened, held = stored_in(tmp_path / "index", vectors, Index(metric=metric, **kind))
    assert held is not None
    assert held.tobytes() == vectors.tobytes()
    assert retrieving._once(vectors, opened) is not vectors


@pytest.mark.parametrize("table", ["sq", "ivf_flat", "HNSW8,SQ8"])
def test_an_index_that_is_not_flat_holds_none(tmp_path: Path, table: str) -> None:
    more = {"n_lists": 4} if table == "ivf_flat" else {}
    vectors = vectors_of(300, 8, is_unit=True)
    opened, held = stored_in(tmp_path / "index", vectors, Index(kind=table, **more))
    assert held is None
    assert retrieving._once(vectors, opened) is vectors


@pytest.mark.parametrize("kind", HOLDING, ids=lambda kind: kind["kind"])
@pytest.mark.parametrize("row", [0, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 299])
def test_one_vector_that_differs_by_a_bit_is_enough_to_use_the_stored_ones(
    tmp_path: Path, kind: dict[str, Any], row: int
) -> None:
    vectors = vectors_of(BLOCK_ROWS + 300, 4, is_unit=True)
    opened, _ = stored_in(tmp_path / "index", vectors, Index(**kind))
    others = vectors.copy()
    others[row, 3] = np.nextafter(others[row, 3], np.float32(9))
    np.save(tmp_path / "others.npy", others)
    for given in (others, np.load(tmp_path / "others.npy", mmap_mode="r")):
        assert retrieving._once(given, opened) is given


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("is_unit", [True, False])
@pytest.mark.parametrize("kind", HOLDING, ids=lambda kind: kind["kind"])
@pytest.mark.parametrize("label_method", ["span", "document"])
def test_rankings_have_the_same_bits_through_the_index_and_through_the_stored_vectors(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: dict[str, Any],
    is_unit: bool,
    metric: str,
    label_method: Any,
) -> None:
    vectors = vectors_of(600, 24, is_unit=is_unit)
    vectors[100:120] = vectors[100]  # ties
    np.save(tmp_path / "vectors.npy", vectors)
    config = Index(metric=metric, **kind)
    write_index(vectors, config.for_building(), tmp_path / "index.faiss")
    chunks = pl.DataFrame(
        [(f"d{i // 4}#{i}-{i + 1}", f"d{i // 4}", i, i + 1, "x", None) for i in range(600)],
        schema=CHUNKS,
        orient="row",
    )
    used: list[bool] = []
    once = retrieving._once

    def through_the_index(given: Any, index: Any) -> Any:
        chosen = once(given, index)
        used.append(chosen is not given)
        return chosen

    rankings = []
    for choose in (through_the_index, lambda given, _: given):
        monkeypatch.setattr(retrieving, "_once", choose)
        found = retrieving.retrieve(
            tmp_path / "index.faiss",
            vectors_of(30, 24, seed=1, is_unit=is_unit),
            np.load(tmp_path / "vectors.npy", mmap_mode="r"),
            chunks,
            [f"q{i}" for i in range(30)],
            index=config.for_searching(),
            retrieval=Retrieval(depth=20),
            label_method=label_method,
            threads=1,
        )
        rankings.append(found.rankings)
    assert used == [is_unit or metric != "cosine"]
    assert rankings[0].equals(rankings[1])
    scores = [frame["retrieval_score"].to_numpy().tobytes() for frame in rankings]
    assert scores[0] == scores[1]
    assert rankings[0].height == 600


# what a model has normalised stays as it is


def lengths(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt((vectors.astype(np.longdouble) ** 2).sum(axis=1)))


def nearly_unit(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Vectors whose lengths are off by up to UNIT, some of them by nearly as much."""
    vectors = rng.standard_normal((4 * n, dim)) + rng.choice([0.0, 1.0, 5.0])
    vectors /= np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    vectors *= 1 + UNIT * rng.choice([-1, -0.9, 0, 0.9, 1], (4 * n, 1))
    rounded = vectors.astype(np.float32)
    near = np.abs(lengths(rounded) - 1) <= 0.999 * UNIT
    return np.asarray(rounded[near][:n])


@pytest.mark.parametrize("dim", [1, 2, 3, 16, 100, 384, 1_024])
@pytest.mark.parametrize("n_queries", [1, 5, 60])  # FAISS multiplies matrices from some number on
def test_the_slack_covers_lengths_that_are_nearly_1(
    tmp_path: Path, dim: int, n_queries: int
) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        vectors = nearly_unit(200, dim, rng)
        queries = vectors[rng.permutation(len(vectors))[:n_queries]]  # cosines up to 1
        opened, held = stored_in(tmp_path / f"{seed}", vectors, Index(metric="cosine"))
        assert held is not None
        assert held.tobytes() == vectors.tobytes()
        scores, rows = opened.nearest(queries, len(vectors))
        exact = queries.astype(np.longdouble) @ vectors.astype(np.longdouble).T
        exact /= lengths(queries)[:, None] * lengths(vectors)
        off = np.abs(scores - np.take_along_axis(exact, rows, axis=1)).max(axis=1)
        slack = Rescorer("cosine", queries, vectors).slack(np.arange(len(queries)))
        assert (off <= slack).all()
        assert slack.max() < (dim + 32) * 2.0**-24  # and no more than it needs


def test_a_vector_is_prepared_the_same_way_whatever_stands_beside_it() -> None:
    rng = np.random.default_rng(3)
    unit, others = nearly_unit(50, 30, rng), vectors_of(50, 30, seed=4)
    mixed = np.concatenate([unit, others])[rng.permutation(100)]
    together = prepared(mixed, "cosine")
    alone = np.concatenate([prepared(mixed[i : i + 1], "cosine") for i in range(100)])
    assert together.tobytes() == alone.tobytes()
    was_unit = np.abs(lengths(mixed) - 1) <= UNIT
    assert was_unit.sum() == 50
    assert together[was_unit].tobytes() == mixed[was_unit].tobytes()
    exact = mixed[~was_unit] / lengths(mixed[~was_unit])[:, None]
    assert (np.abs(together[~was_unit] - exact) <= 2.0**-24 * np.abs(exact)).all()


def test_a_length_that_is_further_off_than_that_is_made_1() -> None:
    vector = np.full((1, 4), 0.5, dtype=np.float32)
    for factor in (1 + 3 * UNIT, 1 - 3 * UNIT):
        given = vector * np.float32(factor)
        assert prepared(given, "cosine").tobytes() == vector.tobytes()
        assert prepared(given, "l2") is given


def test_a_vector_without_a_direction_is_named_among_unit_ones() -> None:
    vectors = vectors_of(5, 4, is_unit=True)
    vectors[3] = 0
    with pytest.raises(StageError, match=r"vector 103 has the length 0\.0"):
        prepared(vectors, "cosine", first_row=100)


BUILD = """
import json, sys
from pathlib import Path
import numpy as np
from schemas.indexes import Index
from tasks.indexing import write_index

folder = Path(sys.argv[1])
vectors = np.load(folder / "vectors.npy")
for number, table in enumerate(json.loads(sys.argv[2])):
    write_index(vectors, Index(**table), folder / f"{number}.fresh", threads=2)
"""


def test_an_index_built_after_a_search_has_the_bytes_of_a_fresh_process(tmp_path: Path) -> None:
    # vectors far from 0 and close to each other: |x|² + |c|² - 2 x·c, as FAISS multiplies matrices,
    # finds other nearest centroids than the sum of (x - c)²
    vectors = 5 + np.float32(1e-3) * vectors_of(1_500, 32)
    np.save(tmp_path / "vectors.npy", vectors)
    kinds: list[dict[str, Any]] = [
        {"kind": "flat"},
        {"kind": "hnsw", "m": 8, "ef_construction": 20},
        {"kind": "ivf_flat", "n_lists": 40},
        {"kind": "ivf_pq", "n_lists": 8, "pq_m": 4, "pq_bits": 4},
    ]
    tables = [{"metric": "l2", **kind} for kind in kinds]
    opened, _ = stored_in(tmp_path / "first", vectors, Index(metric="l2"))
    opened.nearest(vectors, 10)
    subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path), json.dumps(tables)], cwd=ROOT, check=True
    )
    for number, table in enumerate(tables):
        path = tmp_path / f"{number}.later"
        write_index(vectors, Index(**table), path, threads=1)
        assert path.read_bytes() == path.with_suffix(".fresh").read_bytes(), table
