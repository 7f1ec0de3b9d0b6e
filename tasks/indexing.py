"""FAISS indexes built from vectors and written to files: the same vectors give the same bytes.

Whatever is learnt is learnt by one thread from a seeded sample, since sums that several threads
share out end in other bits; a graph is built by one thread, since its links depend on the order,
and so are lists and codes, since a vector between two centroids goes where the last bit says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from schemas.errors import StageError
from schemas.indexes import Index
from tasks.factories import (
    centroids_of,
    check_enough,
    faiss_threads,
    is_graph,
    make_index,
    multiplies_matrices,
    reason,
    reserve,
)
from tasks.vector_blocks import Singles, blocks, gathered, sample_rows

LEAST_SAMPLE = 65_536  # vectors that are learnt from, where there are so many
SAMPLE_PER_CENTROID = 64


@dataclass(frozen=True, slots=True)
class Built:
    """What building an index took."""

    factory: str  # as FAISS calls it
    n_trained: int  # vectors that were learnt from
    train_seconds: float
    build_seconds: float  # adding the vectors and writing the file

    @property
    def figures(self) -> dict[str, str | int | float]:
        """For the stage's row."""
        return {
            "factory": self.factory,
            "n_trained": self.n_trained,
            "train_seconds": round(self.train_seconds, 3),
            "build_seconds": round(self.build_seconds, 3),
        }


def write_index(
    vectors: Singles, config: Index, path: Path, *, threads: int | None = None
) -> Built:
    """Build the index of (n, dim) vectors, which may be mapped, and write it to ``path``.

    The same vectors give the same bytes. Memory: the index, which is one copy of the vectors or
    less for kinds that compress, and while it learns the sample.

    Args:
        vectors: (n, dim) as stored; with ``cosine`` they are normalised on the way.
        config: the experiment's section.
        path: a new file.
        threads: of FAISS, where they cannot change a bit; None: as many as it likes.

    Raises:
        StageError: there are no vectors, fewer than have to be learnt from, or some that cannot be
            compared (see ``blocks``).
    """
    import faiss

    n, dim = vectors.shape
    if n == 0 or dim == 0:
        raise StageError(f"there is nothing to index: {n} vectors of {dim} dimensions")
    index = make_index(config, n_vectors=n, dim=dim)
    started = perf_counter()
    n_trained = 0 if index.is_trained else _train(index, vectors, config)
    trained = perf_counter()
    reserve(index, n)
    with faiss_threads(1 if is_graph(index) or multiplies_matrices(index) else threads):
        for _, block in blocks(vectors, config.metric):
            try:
                index.add(block)
            except RuntimeError as error:
                raise StageError(
                    f"index.kind = {config.kind!r}: FAISS cannot add {n} vectors of {dim} "
                    f"dimensions ({reason(error)})"
                ) from None
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:
        raise StageError(f"{path}: the index cannot be written ({reason(error)})") from None
    return Built(
        factory=config.factory(n_vectors=n, dim=dim),
        n_trained=n_trained,
        train_seconds=trained - started,
        build_seconds=perf_counter() - trained,
    )


def _train(index: Any, vectors: Singles, config: Index) -> int:
    """Let an index learn from a sample; returns how many vectors that were."""
    needed = centroids_of(index)
    size = config.train_size or max(LEAST_SAMPLE, SAMPLE_PER_CENTROID * needed.n)
    rows = sample_rows(len(vectors), size, seed=config.seed or 0)
    check_enough(config, needed, len(vectors), len(rows))
    with faiss_threads(1):
        try:
            index.train(gathered(vectors, rows, config.metric))
        except RuntimeError as error:
            raise StageError(
                f"index.kind = {config.kind!r}: FAISS cannot learn from {len(rows)} vectors of "
                f"{vectors.shape[1]} dimensions ({reason(error)})"
            ) from None
    return len(rows)
