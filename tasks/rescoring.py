"""Scores in float64 whose bits depend on the two vectors alone, and how far FAISS can be off.

A flat search's float32 scores depend on how many queries are asked at once. Here a pair's products
are exact (24 + 24 bits in 53) and NumPy sums them along one contiguous row, in an order that only
the number of dimensions decides (``einsum`` is not BLAS), so no batch, no number of threads and no
BLAS changes the result.

An approximate search of a large index is nearly as fast as scoring what it found that way. Its
chunks get the order of these scores, and equal ones tie, but a score that no other comes near
stays the sum of float32 products that it is (``settled``).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tasks.indexes import compared
from tasks.vector_blocks import FEW_ROWS, Ints, Singles, lengths_of, refuse_useless, rows_of

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

PAIRS = 128  # rescored at once: they stay in a core's cache
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
    longest: float = field(init=False)  # of the chunk_norms

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.chunks.view(np.uint8))
        object.__setattr__(self, "query_norms", _norms(self.queries, self.metric, "query"))
        object.__setattr__(self, "chunk_norms", _norms(self.chunks, self.metric, "chunk"))
        object.__setattr__(self, "longest", float(self.chunk_norms.max(initial=0.0)))

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

    def pairs(self, queries: Ints, rows: Ints) -> Floats:
        """(n,) the scores of (n,) queries, each with one of (n,) chunks: the bits of ``scores``."""
        scores = np.empty(len(rows), dtype=np.float64)
        scratch = _Scratch(self.queries.shape[1])
        for start in range(0, len(rows), PAIRS):
            part = slice(start, start + PAIRS)
            vectors = self.queries[queries[part]].astype(np.float64)
            self._compare(vectors, rows[part], scores[part], scratch)
        return self._finished(scores, self.query_norms[queries], rows)

    def roughly(self, queries: Ints, rows: Ints, *, threads: int = 1) -> Floats:
        """(n, m) what ``scores`` gives, summed in float32: off by ``slack`` at most."""
        vectors = self.queries[queries]
        found = compared(vectors, self.chunks, rows, self.metric, threads=threads)
        return self._finished(found.astype(np.float64), self.query_norms[queries][:, None], rows)

    def settled(self, queries: Ints, rows: Ints, roughly: Floats) -> Floats:
        """(n, m) scores that order chunks as ``scores`` does, for less.

        Exact are those that rounding may have put in another order, and those that tie. The others
        stay: each is nearer to its exact score than to any other one.

        Args:
            queries: (n,).
            rows: (n, m) of chunks; -1: none, which comes last.
            roughly: (n, m) their scores, best first, off by ``slack`` at most.
        """
        scores = np.where(rows < 0, -np.inf, roughly)
        with np.errstate(invalid="ignore"):  # the difference of two infinities is not near
            is_near = scores[:, :-1] - scores[:, 1:] <= 2 * self.slack(queries)[:, None]
        is_open = np.zeros(rows.shape, dtype=np.bool_)
        is_open[:, :-1] |= is_near
        is_open[:, 1:] |= is_near
        at, places = np.nonzero(is_open)
        scores[at, places] = self.pairs(queries[at], rows[at, places])
        return scores

    def slack(self, queries: Ints) -> Floats:
        """(n,) an upper bound of |FAISS's score - the score here| over all chunks.

        An inner product of d terms is off by at most d u / (1 - d u) times the lengths, whatever
        the order of the sum (Higham, Accuracy and Stability of Numerical Algorithms, §3.1);
        |q|² + |c|² - 2 q·c by as much of (|q| + |c|)². Sixteen more terms cover the lengths of the
        vectors that ``cosine`` took for normalised, their rounding, the sums and this bound itself.
        """
        dim = self.queries.shape[1]
        terms = (dim + 16) * UNIT_ROUNDOFF
        if self.metric == "cosine":
            size = np.ones(len(queries))
        elif self.metric == "l2":
            size = (self.query_norms[queries] + self.longest) ** 2
        else:
            size = self.query_norms[queries] * self.longest
        return np.asarray(terms / (1 - terms) * size + dim * SMALLEST_NORMAL, dtype=np.float64)

    def _score(self, query: int, rows: Ints, out: Floats, scratch: _Scratch) -> None:
        vector = self.queries[query].astype(np.float64)
        for start in range(0, len(rows), PAIRS):
            part = slice(start, start + PAIRS)
            self._compare(vector, rows[part], out[part], scratch)
        self._finished(out, self.query_norms[query], rows)

    def _compare(self, queries: Floats, rows: Ints, out: Floats, scratch: _Scratch) -> None:
        """One (dim,) query, or (n, dim) of them, with (n,) chunks: q·c or |q - c|²."""
        wide = scratch.wide[: len(rows)]
        np.take(self.rows, rows, axis=0, out=scratch.rows[: len(rows)], mode="wrap")
        wide[:] = scratch.chunks[: len(rows)]
        if self.metric == "l2":
            np.subtract(wide, queries, out=wide)
            np.square(wide, out=wide)
            wide.sum(axis=1, out=out)  # pairwise: all terms add up
        else:
            np.einsum("ij,j->i" if queries.ndim == 1 else "ij,ij->i", wide, queries, out=out)

    def _finished(self, out: Floats, query_norms: Floats, rows: Ints) -> Floats:
        if self.metric == "cosine":
            out /= query_norms * self.chunk_norms[rows]
        elif self.metric == "l2":
            np.subtract(0.0, out, out=out)  # not negated: -0.0 would be another string
        return out


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
    refuse_useless(
        norms, metric, lambda row: f"the vector of {kind} {row} (of {len(norms)}, from 0)"
    )
    return norms
