"""Index kinds beside FAISS called bare: what building and searching cost, and what is found.

For each kind: our ``write_index`` and ``Search.rank`` against the same factory string, parameters,
sample and threads given to FAISS by hand, in turn, in one process; CPU seconds, since other work
shares the machine. Vectors are clustered in 48 of 384 dimensions, as those of texts are; random
ones have no neighbours to find. Bare FAISS leaves out what ours adds: the one order, exact where
scores are near, and the query's ties. What compresses vectors proposes candidates that are scored
by the vectors themselves: there the bare calls are those of ``IndexRefine``, which does that, with
as many candidates; the search alone is compared too.

    PYTHONPATH=. python tests/benchmarks/bench_indexing.py [--kinds flat hnsw ivf_flat ivf_pq sq]
"""

from __future__ import annotations

import argparse
import gc
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import faiss
import numpy as np

from schemas.indexes import Index
from tasks.ann_recalls import ann_recalls
from tasks.factories import faiss_threads, is_graph, make_index
from tasks.filtered_searching import FilteredSearch
from tasks.indexes import open_index
from tasks.indexing import write_index
from tasks.ordering import Items
from tasks.rescoring import Rescorer
from tasks.searching import LEAST_SPARE, Search
from tasks.vector_blocks import sample_rows

LATENT = 48
TABLES: dict[str, dict[str, Any]] = {
    "flat": {},
    "hnsw": {},
    "ivf_flat": {"n_lists": 1024},
    "ivf_pq": {"n_lists": 1024, "pq_m": 48, "train_size": 16_384},
    "sq": {},
}


def clustered_vectors(n: int, dim: int, seed: int) -> np.ndarray:
    """(n, dim) unit vectors around 1,000 centres, all close to one subspace of 48 dimensions."""
    world = np.random.default_rng(0)
    centres = world.standard_normal((1_000, LATENT), dtype=np.float32)
    plane = world.standard_normal((LATENT, dim), dtype=np.float32) / np.sqrt(np.float32(dim))
    rng = np.random.default_rng(seed)
    latent = centres[rng.integers(0, len(centres), n)]
    latent += 0.7 * rng.standard_normal((n, LATENT), dtype=np.float32)
    vectors = latent @ plane
    vectors += 0.03 * rng.standard_normal((n, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def build_bare(vectors: np.ndarray, config: Index, n_trained: int, path: Path) -> None:
    """The same index by FAISS's calls alone."""
    index = make_index(config, n_vectors=len(vectors), dim=vectors.shape[1])
    with faiss_threads(1):
        if not index.is_trained:
            index.train(vectors[sample_rows(len(vectors), n_trained, seed=config.seed or 0)])
    with faiss_threads(1):
        index.add(vectors)
    faiss.write_index(index, str(path))


def timed(function: Any, *arguments: Any, **named: Any) -> tuple[Any, float, float]:
    """What it returned, CPU seconds, wall seconds."""
    gc.collect()
    wall, cpu = perf_counter(), process_time()
    result = function(*arguments, **named)
    return result, process_time() - cpu, perf_counter() - wall


def compare(kind: str, options: argparse.Namespace, folder: Path) -> None:
    config = Index(kind=kind, metric="inner_product", **TABLES.get(kind, {}))
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    queries = np.load(folder / "queries.npy")
    path = folder / "ours.faiss"
    builds, searches = [], []
    for _ in range(options.builds):
        built, ours, _ = timed(write_index, vectors, config, path, threads=1)
        in_memory = np.array(vectors)
        _, bare, _ = timed(build_bare, in_memory, config, built.n_trained, folder / "bare.faiss")
        del in_memory
        builds.append((ours / bare, ours, bare))
    opened = open_index(path, config, threads=1)
    places = np.arange(len(vectors))
    search = Search(
        index=opened,
        rescorer=Rescorer(
            config.metric, queries, vectors if opened.stored is None else opened.stored
        ),
        items=Items(places, places, len(vectors), are_documents=False),
        depth=options.depth,
        limit=options.depth,
        threads=1,
        is_rough=config.is_rough,
    )
    bare_index = opened.faiss
    if config.is_rough:
        held = faiss.IndexFlatIP(options.dim)
        held.add(np.array(vectors))
        bare_index = faiss.IndexRefine(opened.faiss, held)
        bare_index.k_factor = 1 + max(LEAST_SPARE / options.depth, 1 / 8)
    rows = np.arange(len(queries))
    with faiss_threads(1):
        bare_index.search(queries[:64], options.depth)
        search.rank(rows[:64])
        for _ in range(options.pairs):
            _, ours, _ = timed(search.rank, rows)
            _, bare, _ = timed(bare_index.search, queries, options.depth)
            _, alone, _ = timed(opened.faiss.search, queries, options.depth)
            searches.append((ours / bare, ours, bare, ours / alone))
    recalls = (
        {} if opened.is_exhaustive else ann_recalls(FilteredSearch(search, None), len(queries))
    )
    build, found = (
        tuple(median(column) for column in zip(*rows, strict=True)) for rows in (builds, searches)
    )
    graph = " (graph)" if is_graph(opened.faiss) else ""
    alone = f", {found[3]:.2f} x the search alone" if config.is_rough else ""
    print(
        f"{kind} {built.factory}{graph}: build {build[1]:.1f} s CPU, {build[0]:.2f} x bare "
        f"({built.train_seconds:.1f} s training); search {1e3 * found[1] / len(queries):.2f} ms a "
        f"query, {found[0]:.2f} x bare{alone}; {path.stat().st_size / 1e6:.0f} MB; {recalls}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=list(TABLES))
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--builds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/vectors.npy", clustered_vectors(options.vectors, options.dim, seed=1))
        np.save(f"{folder}/queries.npy", clustered_vectors(options.queries, options.dim, seed=2))
        for kind in options.kinds:
            compare(kind, options, Path(folder))


if __name__ == "__main__":
    main()
