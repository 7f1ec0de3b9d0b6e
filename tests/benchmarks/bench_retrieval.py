"""How much rescoring, the one order and the frame add to FAISS's own search.

Paired runs in one process on random normalised vectors: each pair searches the same queries with
``retrieve`` and with bare ``index.search`` calls at ``depth``: one of all queries, then as many of
a single query as ``retrieve`` measured latencies of.

    PYTHONPATH=. python tests/benchmarks/bench_retrieval.py [--pairs 3] [--labels document]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import polars as pl

from schemas.frames import CHUNKS
from schemas.indexes import Index
from schemas.retrievers import Retrieval
from tasks.indexes import open_index
from tasks.indexing import write_index
from tasks.ranked_lists import RankedLists
from tasks.retrieving import retrieve


def unit_vectors(n: int, dim: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((n, dim), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def chunk_frame(n: int) -> pl.DataFrame:
    documents = [f"handbook/part-{i // 8:06}.md" for i in range(n)]
    return pl.DataFrame(
        {
            "chunk_id": [f"{d}#{i % 8 * 500}-{i % 8 * 500 + 500}" for i, d in enumerate(documents)],
            "doc_id": documents,
            "start": [0] * n,
            "end": [500] * n,
            "text": [""] * n,
            "title": [None] * n,
        },
        schema=CHUNKS,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--labels", default="answer_text", choices=("answer_text", "document"))
    options = parser.parse_args()

    queries = unit_vectors(options.queries, options.dim, seed=1)
    chunks = chunk_frame(options.chunks)
    query_ids = [f"q{i}" for i in range(options.queries)]
    index = Index(metric="cosine")
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/vectors.npy", unit_vectors(options.chunks, options.dim, seed=0))
        vectors = np.load(f"{folder}/vectors.npy", mmap_mode="r")
        path = Path(folder) / "index.faiss"
        write_index(vectors, index, path)
        flat = open_index(path, index, threads=options.threads)

        def ours() -> RankedLists:
            return retrieve(
                path,
                queries,
                vectors,
                chunks,
                query_ids,
                index=index,
                retrieval=Retrieval(depth=options.depth),
                label_method=options.labels,
                threads=options.threads,
            )

        def bare(n_single: int) -> tuple[float, float, float]:
            wall, cpu = perf_counter(), process_time()
            flat.nearest(queries, options.depth)
            batch = perf_counter() - wall
            for query in range(n_single):
                flat.nearest(queries[query : query + 1], options.depth)
            return perf_counter() - wall, process_time() - cpu, batch

        ratios: dict[str, list[float]] = {"wall": [], "CPU": [], "batch alone": []}
        for _ in range(options.pairs):
            wall, cpu = perf_counter(), process_time()
            figures = ours().figures
            wall, cpu = perf_counter() - wall, process_time() - cpu
            bare_wall, bare_cpu, bare_batch = bare(int(figures["n_latency"]))
            batch = figures["n_queries"] / figures["queries_per_second"]
            ratios["wall"].append(wall / bare_wall)
            ratios["CPU"].append(cpu / bare_cpu)
            ratios["batch alone"].append(batch / bare_batch)
            print(f"retrieve {wall:.2f} s, FAISS {bare_wall:.2f} s, {figures}", flush=True)
    summary = ", ".join(f"{name} {median(values):.3f}" for name, values in ratios.items())
    print(f"retrieve / bare FAISS calls, medians of {options.pairs} pairs: {summary}")


if __name__ == "__main__":
    main()
