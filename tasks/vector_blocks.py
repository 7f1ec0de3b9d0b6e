"""Vectors a block at a time, as an index takes them: one metric, float32, nothing useless."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import StageError

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

BLOCK_ROWS = 4_096
FEW_ROWS = 256  # in float64 they stay in a core's cache
LONGEST = 1e15  # squares of longer vectors come near the end of float32
UNIT = 2.0**-22  # the length of a vector that was normalised in float32 is as near to 1


def blocks(vectors: Singles, metric: str) -> Iterator[tuple[int, Singles]]:
    """The first row of each block of (n, dim) vectors, which may be mapped, and the block.

    Raises:
        StageError: a vector is not finite or too long, or with ``cosine`` has no direction.
    """
    for start in range(0, len(vectors), BLOCK_ROWS):
        yield start, prepared(rows_of(vectors, start), metric, first_row=start)


def rows_of(vectors: Singles, start: int, *, size: int = BLOCK_ROWS) -> Singles:
    """A block of (n, dim) vectors from row ``start``; of a mapped array it is read.

    Mapped pages stay, and count as memory of the process, for as long as the array does.
    """
    n = min(size, len(vectors) - start)
    mapped: Any = vectors  # a slice of a mapped array has another base, and its file's offset
    if not isinstance(vectors, np.memmap) or not isinstance(mapped.base, mmap.mmap):
        return vectors[start : start + n]
    if mapped.filename is None or not mapped.flags.c_contiguous:
        return vectors[start : start + n]
    dim = mapped.shape[1]
    offset = mapped.offset + start * dim * mapped.itemsize
    read = np.fromfile(mapped.filename, mapped.dtype, count=n * dim, offset=offset)
    return read.reshape(n, dim)


def release(vectors: Singles) -> None:
    """Let go of the pages of a mapped array, which else count as memory of the process."""
    pages = vectors.base
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def sample_rows(n_vectors: int, size: int, *, seed: int) -> Ints:
    """(size,) different rows in ascending order, the same for the same seed; all, if so many."""
    if size >= n_vectors:
        return np.arange(n_vectors)
    rows = np.random.default_rng(seed).choice(n_vectors, size, replace=False, shuffle=False)
    return np.sort(rows).astype(np.int64)


def gathered(vectors: Singles, rows: Ints, metric: str) -> Singles:
    """(size, dim) the vectors of ascending rows, as an index takes them."""
    taken = np.empty((len(rows), vectors.shape[1]), dtype=np.float32)
    for start in range(0, len(rows), BLOCK_ROWS):
        part = rows[start : start + BLOCK_ROWS]
        taken[start : start + BLOCK_ROWS] = prepared(vectors[part], metric, rows=part)
    return taken


def lengths_of(vectors: Singles) -> NDArray[np.float64]:
    """(n,) the Euclidean length of each of (n, dim) vectors, in float64."""
    lengths = np.empty(len(vectors), dtype=np.float64)
    for start in range(0, len(vectors), FEW_ROWS):
        squares = np.square(vectors[start : start + FEW_ROWS], dtype=np.float64)
        lengths[start : start + FEW_ROWS] = np.sqrt(squares.sum(axis=1))
    return lengths


def prepared(
    vectors: Singles, metric: str, *, first_row: int = 0, rows: Ints | None = None
) -> Singles:
    """Contiguous float32; with ``cosine`` of length 1, worked out in float64 and rounded once.

    What its model has normalised stays as it is: then a flat index holds the stored vectors.

    Args:
        vectors: (n, dim).
        metric: ``index.metric``.
        first_row: what an error calls the first of them.
        rows: what an error calls each of them; None: they follow the first.
    """

    def called(place: int) -> str:
        return f"vector {first_row + place if rows is None else rows[place]}"

    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if metric != "cosine":
        every = vectors.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.dot(every, every)  # the fastest look at all of them
        if not squares <= LONGEST**2:
            refuse_useless(lengths_of(vectors), metric, called)
        return vectors
    norms = lengths_of(vectors)
    refuse_useless(norms, metric, called)
    is_unit = np.abs(norms - 1) <= UNIT
    if is_unit.all():
        return vectors
    normalized: Singles = np.divide(vectors, norms[:, None], dtype=np.float64).astype(np.float32)
    normalized[is_unit] = vectors[is_unit]
    return normalized


def refuse_useless(norms: NDArray[np.float64], metric: str, called: Callable[[int], str]) -> None:
    """Refuse what cannot be compared, and makes FAISS end the whole process.

    Args:
        norms: (n,) lengths of vectors.
        metric: ``index.metric``.
        called: what an error calls one of them.

    Raises:
        StageError: a length is not finite or too long, or 0 where there has to be a direction.
    """
    useless = np.flatnonzero(~(norms <= LONGEST) | ((norms == 0) & (metric == "cosine")))
    if useless.size:
        raise StageError(
            f"{called(int(useless[0]))} has the length {norms[useless[0]]}; index.metric = "
            f"{metric!r} needs finite vectors up to {LONGEST:g}"
            f"{', longer than 0' if metric == 'cosine' else ''}"
        )
