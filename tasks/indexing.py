"""FAISS indexes: built from vectors, kept as files, mapped when they are read.

The only module that knows FAISS. Its scores are float32 and depend on how many queries are asked at
once, so they choose candidates; ``tasks/rescoring.py`` scores them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import IndexMismatchError, StageError
from schemas.retrievers import Index

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

BLOCK_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class FlatIndex:
    """An exhaustive index. Scores: higher is nearer; with L2 minus the squared distance."""

    metric: str
    threads: int | None  # None: as many as FAISS likes
    faiss: Any

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self.faiss.d)

    @property
    def n_vectors(self) -> int:
        """How many vectors it holds."""
        return int(self.faiss.ntotal)

    def nearest(self, queries: Singles, depth: int) -> tuple[Singles, Ints]:
        """The (n, depth) best scores and rows, best first; row -1: nothing was returned."""
        with _faiss_threads(self.threads):
            scores, rows = self.faiss.search(self._prepare(queries), depth)
        return (-scores if self.metric == "l2" else scores), rows

    def above(self, query: Singles, score: float) -> Ints:
        """The rows of all vectors that score more than ``score`` for one (dim,) query."""
        bound = -score if self.metric == "l2" else score
        with _faiss_threads(self.threads):
            _, _, rows = self.faiss.range_search(self._prepare(query[None, :]), float(bound))
        return np.asarray(rows, dtype=np.int64)

    def _prepare(self, queries: Singles) -> Singles:
        if queries.shape[1] != self.dim:
            raise IndexMismatchError(
                f"the index holds {self.dim}-dimensional vectors, but the queries' have "
                f"{queries.shape[1]} dimensions: it was built with another model. "
                "Run the experiment again, or name the model the index was built with."
            )
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        return _normalized(queries, first_row=0) if self.metric == "cosine" else queries


def write_index(vectors: Singles, config: Index, path: Path) -> None:
    """Build the index of (n, dim) vectors, which may be mapped, and write it to ``path``.

    The same vectors give the same bytes. Memory: one copy of the vectors.

    Raises:
        StageError: there are no vectors, or with ``cosine`` one that has no direction.
    """
    import faiss

    n, dim = vectors.shape
    if n == 0 or dim == 0:
        raise StageError(f"there is nothing to index: {n} vectors of {dim} dimensions")
    index = faiss.IndexFlatL2(dim) if config.metric == "l2" else faiss.IndexFlatIP(dim)
    for start in range(0, n, BLOCK_ROWS):
        block = np.ascontiguousarray(vectors[start : start + BLOCK_ROWS], dtype=np.float32)
        index.add(_normalized(block, first_row=start) if config.metric == "cosine" else block)
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:
        raise StageError(f"{path}: the index cannot be written ({_reason(error)})") from None


def open_index(path: Path, config: Index, *, threads: int | None = None) -> FlatIndex:
    """Map an index file; its content is trusted, so check its digest first.

    ``IO_FLAG_MMAP_IFC`` maps a flat index; ``IO_FLAG_MMAP`` would read it into memory.

    Raises:
        StageError: the file is no index.
        IndexMismatchError: it was built for another metric.
    """
    import faiss

    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise StageError(f"{path}: the index cannot be read ({_reason(error)})") from None
    expected = faiss.METRIC_L2 if config.metric == "l2" else faiss.METRIC_INNER_PRODUCT
    if index.metric_type != expected or not isinstance(index, faiss.IndexFlat):
        raise IndexMismatchError(
            f"{path}: a {type(index).__name__} of metric {index.metric_type} cannot serve "
            f"index.kind = {config.kind!r} with index.metric = {config.metric!r}"
        )
    return FlatIndex(metric=config.metric, threads=threads, faiss=index)


def _normalized(vectors: Singles, *, first_row: int) -> Singles:
    """A copy with length 1, worked out in float64 and rounded once."""
    norms = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1))
    useless = np.flatnonzero(~(norms > 0) | ~np.isfinite(norms))
    if useless.size:
        raise StageError(
            f"vector {first_row + useless[0]} has the length {norms[useless[0]]}, so it has no "
            "direction that index.metric = 'cosine' could compare"
        )
    normalized: Singles = np.divide(vectors, norms[:, None], dtype=np.float64).astype(np.float32)
    return normalized


@contextmanager
def _faiss_threads(threads: int | None) -> Iterator[None]:
    import faiss

    before = faiss.omp_get_max_threads()
    if threads is not None:
        faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        if threads is not None:
            faiss.omp_set_num_threads(before)


def _reason(error: RuntimeError) -> str:
    """The last line of FAISS's message, without the C++ function that raised it."""
    return str(error).strip().splitlines()[-1].rpartition("Error: ")[2]
