"""Scores in float64 whose bits depend on the two vectors alone, and how far FAISS can be off.

A flat search's float32 scores depend on how many queries are asked at once. Here a pair's products
are exact (24 + 24 bits in 53) and NumPy sums them along one contiguous row, in an order that only
the number of dimensions decides (``einsum`` is not BLAS), so no batch, no number of threads and no
BLAS changes the result.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schemas.errors import StageError
from tasks.vector_blocks import FEW_ROWS, Ints, Singles, lengths_of, rows_of

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

PAIRS = 128  # rescored at once: they stay in a core's cache
LONGEST = 1e15  # squares of longer vectors come near the end of float32
UNIT_ROUNDOFF = 2.0**-24  # float32
SMALLEST_NORMAL = 2.0**-126  # what FAISS may round to zero


@dataclass(frozen=True, slots=True)
class Rescorer:
    """The exact scores of queries and chunks, by their row.

    ``inner_product``: q·c. ``cosine``: q·c / (|q| |c|). ``l2``: -|q - c|².

    Args:
        metric: ``index.metric``.
        queries: (n_queries, dim), as they are stored.
        chunks: (n_chunks, dim), as they are stored; may be mapped, and not aligned.
    """

    metric: str
    queries: Singles
    chunks: Singles
    rows: Bytes = field(init=False)  # of chunks; of floats that are not aligned NumPy copies all
    query_norms: Floats = field(init=False)
    chunk_norms: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.chunks.view(np.uint8))
        object.__setattr__(self, "query_norms", _norms(self.queries, self.metric, "query"))
        object.__setattr__(self, "chunk_norms", _norms(self.chunks, self.metric, "chunk"))

    def scores(self, queries: Ints, rows: Ints, *, threads: int = 1) -> Floats:
        """(n, m) the scores of (n,) queries, each with its own row of (n, m) chunks.

        Where a row is -1 the score is minus infinity.
        """
        scores = np.empty(rows.shape, dtype=np.float64)
        parts = np.array_split(np.arange(len(queries)), max(1, min(threads, len(queries))))

        def score(part: Ints) -> None:
            scratch = _Scratch(self.queries.shape[1])
            for i in part:
                self._score(int(queries[i]), rows[i], scores[i], scratch)

        if len(parts) == 1:
            score(parts[0])
        else:
            with ThreadPoolExecutor(len(parts)) as pool:
                list(pool.map(score, parts))
        scores[rows < 0] = -np.inf
        return scores

    def slack(self, queries: Ints) -> Floats:
        """(n,) an upper bound of |FAISS's score - the score here| over all chunks.

        An inner product of d terms is off by at most d u / (1 - d u) times the lengths, whatever
        the order of the sum (Higham, Accuracy and Stability of Numerical Algorithms, §3.1);
        |q|² + |c|² - 2 q·c by as much of (|q| + |c|)². Sixteen more terms cover the lengths of the
        vectors that ``cosine`` took for normalised, their rounding, the sums and this bound itself.
        """
        dim = self.queries.shape[1]
        longest = float(self.chunk_norms.max(initial=0.0))
        terms = (dim + 16) * UNIT_ROUNDOFF
        if self.metric == "cosine":
            size = np.ones(len(queries))
        elif self.metric == "l2":
            size = (self.query_norms[queries] + longest) ** 2
        else:
            size = self.query_norms[queries] * longest
        return np.asarray(terms / (1 - terms) * size + dim * SMALLEST_NORMAL, dtype=np.float64)

    def _score(self, query: int, rows: Ints, out: Floats, scratch: _Scratch) -> None:
        vector = self.queries[query].astype(np.float64)
        for start in range(0, len(rows), PAIRS):
            part = rows[start : start + PAIRS]
            wide = scratch.wide[: len(part)]
            np.take(self.rows, part, axis=0, out=scratch.rows[: len(part)], mode="wrap")
            wide[:] = scratch.chunks[: len(part)]
            if self.metric == "l2":
                np.subtract(wide, vector, out=wide)
                np.square(wide, out=wide)
                wide.sum(axis=1, out=out[start : start + PAIRS])  # pairwise: all terms add up
            else:
                np.einsum("ij,j->i", wide, vector, out=out[start : start + PAIRS])
        if self.metric == "cosine":
            out /= self.query_norms[query] * self.chunk_norms[rows]
        elif self.metric == "l2":
            np.subtract(0.0, out, out=out)  # not negated: -0.0 would be another string


class _Scratch:
    """The buffers of one thread."""

    def __init__(self, dim: int):
        self.chunks = np.empty((PAIRS, dim), dtype=np.float32)
        self.rows = self.chunks.view(np.uint8)
        self.wide = np.empty((PAIRS, dim), dtype=np.float64)


def _norms(vectors: Singles, metric: str, kind: str) -> Floats:
    """(n,) lengths in float64; refuses what cannot be compared."""
    norms = np.empty(len(vectors), dtype=np.float64)
    for start in range(0, len(vectors), FEW_ROWS):
        norms[start : start + FEW_ROWS] = lengths_of(rows_of(vectors, start, size=FEW_ROWS))
    useless = np.flatnonzero(~(norms <= LONGEST) | ((norms == 0) & (metric == "cosine")))
    if useless.size:
        raise StageError(
            f"the vector of {kind} {useless[0]} (of {len(vectors)}, from 0) has the length "
            f"{norms[useless[0]]}; index.metric = {metric!r} needs finite vectors up to {LONGEST:g}"
            f"{', longer than 0' if metric == 'cosine' else ''}"
        )
    return norms
