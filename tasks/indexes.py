"""Index files opened and searched: mapped where FAISS can, scores that choose candidates.

FAISS's scores are float32 and depend on how many queries are asked at once, so they only choose;
``tasks/rescoring.py`` scores what was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from schemas.errors import IndexMismatchError, StageError
from schemas.indexes import Index
from tasks.factories import faiss_threads, reason
from tasks.vector_blocks import Ints, Singles, blocks, prepared

CLASS_OF = {
    "flat": "IndexFlat",
    "hnsw": "IndexHNSWFlat",
    "ivf_flat": "IndexIVFFlat",
    "ivf_pq": "IndexIVFPQ",
    "sq": "IndexScalarQuantizer",
}


class Searchable(Protocol):
    """What proposes the chunks nearest to a query."""

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""

    @property
    def n_vectors(self) -> int:
        """How many vectors it holds."""

    @property
    def is_exhaustive(self) -> bool:
        """Whether every vector is compared: then nothing nearer was left out, up to rounding."""

    @property
    def is_precise(self) -> bool:
        """Whether its scores are off by rounding only, and do not depend on the other queries."""

    def nearest(self, queries: Singles, depth: int) -> tuple[Singles, Ints]:
        """The (n, depth) best scores and rows, best first; row -1: nothing was returned."""

    def above(self, query: Singles, score: float) -> Ints:
        """The rows of all vectors that score more than ``score`` for one (dim,) query."""

    def within(self, rows: Ints) -> Searchable:
        """The same index, as if it held only the vectors of (n,) ascending rows, at least one."""


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An index file. Scores: higher is nearer; with L2 minus the squared distance."""

    metric: str
    threads: int | None  # None: as many as FAISS likes
    is_exhaustive: bool
    faiss: Any
    only: Only | None = None  # None: all of its vectors

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self.faiss.d)

    @property
    def n_vectors(self) -> int:
        """How many vectors it holds."""
        return int(self.faiss.ntotal) if self.only is None else len(self.only.rows)

    @property
    def is_precise(self) -> bool:
        """So are a graph's over flat vectors, and those of lists that hold them as they are."""
        import faiss

        holds_vectors = isinstance(self.faiss, faiss.IndexHNSWFlat | faiss.IndexIVFFlat)
        return holds_vectors and self.only is None

    def nearest(self, queries: Singles, depth: int) -> tuple[Singles, Ints]:
        """The (n, depth) best scores and rows, best first; row -1: nothing was returned."""
        if self.only is not None and depth >= len(self.only.rows):
            return self.only.all_of(len(queries), depth)
        with faiss_threads(self.threads):
            fitting = _fitting(queries, self.dim, self.metric)
            scores, rows = self._found(fitting, depth)
            ended = np.flatnonzero(rows[:, -1] < 0)
            if ended.size and (wider := self._wider(depth)) is not None:
                found = self.faiss.search(fitting[ended], depth, params=wider)
                scores[ended], rows[ended] = found
        return (-scores if self.metric == "l2" else scores), rows

    def above(self, query: Singles, score: float) -> Ints:
        """The rows of all vectors that score more than ``score`` for one (dim,) query."""
        bound = -score if self.metric == "l2" else score
        with faiss_threads(self.threads):
            fitting = _fitting(query[None, :], self.dim, self.metric)
            parameters = None if self.only is None else self.only.parameters
            _, _, rows = self.faiss.range_search(fitting, float(bound), params=parameters)
        return np.asarray(rows, dtype=np.int64)

    @property
    def stored(self) -> Singles | None:
        """(n, dim) the vectors that an index holds as it was given them, not always aligned.

        None: it is neither flat nor a graph over flat vectors.
        """
        import faiss

        flat: Any = self.faiss
        if isinstance(flat, faiss.IndexHNSW):
            flat = faiss.downcast_index(flat.storage)
        if not isinstance(flat, faiss.IndexFlat):
            return None
        values: Singles = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * self.dim)
        return values.reshape(-1, self.dim)

    def within(self, rows: Ints) -> OpenIndex:
        """The same index, as if it held only the vectors of (n,) ascending rows, at least one."""
        return replace(self, only=Only.of(rows, self.faiss))

    def _wider(self, depth: int) -> Any:
        """For a graph, which ends early where ``ef_search`` is less than it is asked for."""
        import faiss

        known: Any = faiss  # its stubs lack the parameters
        if not isinstance(self.faiss, faiss.IndexHNSW) or depth > self.n_vectors:
            return None
        if self.faiss.hnsw.efSearch >= depth:
            return None
        selector = None if self.only is None else self.only.parameters.sel
        return known.SearchParametersHNSW(sel=selector, efSearch=depth)

    def _found(self, queries: Singles, depth: int) -> tuple[Singles, Ints]:
        try:
            if self.only is None:
                found: tuple[Singles, Ints] = self.faiss.search(queries, depth)
                return found
            try:
                found = self.faiss.search(queries, depth, params=self.only.parameters)
                return found
            except RuntimeError:  # this class cannot search some of its vectors
                return self.only.sifted(self.faiss, queries, depth)
        except RuntimeError as error:
            raise StageError(
                f"FAISS cannot search a {type(self.faiss).__name__} for {depth} vectors "
                f"({reason(error)}). Choose another index.kind, or other parameters of it."
            ) from None


@dataclass(frozen=True, slots=True)
class Only:
    """Some of an index's vectors."""

    rows: Ints  # (n,) ascending
    parameters: Any  # FAISS's, which keep a search to them

    @classmethod
    def of(cls, rows: Ints, index: Any) -> Only:
        """For one index, whose own search parameters stay as they are."""
        import faiss

        known: Any = faiss  # its stubs do not know that a selector takes an array
        is_in = np.zeros(index.ntotal, dtype=np.bool_)
        is_in[rows] = True
        bitmap = known.IDSelectorBitmap(np.packbits(is_in, bitorder="little"))
        return cls(rows, _parameters(faiss.downcast_index(index), bitmap))

    def sifted(self, index: Any, queries: Singles, depth: int) -> tuple[Singles, Ints]:
        """(n, depth) the best of these in the order of all; row -1: there are no more."""
        is_in = np.zeros(index.ntotal + 1, dtype=np.bool_)  # the last stands for row -1
        is_in[self.rows] = True
        scores = np.zeros((len(queries), depth), dtype=np.float32)
        rows = np.full(scores.shape, -1, dtype=np.int64)
        for i in range(len(queries)):
            found, found_rows = index.search(queries[i : i + 1], index.ntotal)
            first = np.flatnonzero(is_in[found_rows[0]])[:depth]
            scores[i, : len(first)] = found[0, first]
            rows[i, : len(first)] = found_rows[0, first]
        return scores, rows

    def all_of(self, n_queries: int, depth: int) -> tuple[Singles, Ints]:
        """(n_queries, depth) every row, then -1; nothing has to be searched."""
        rows = np.full((n_queries, depth), -1, dtype=np.int64)
        rows[:, : len(self.rows)] = self.rows
        return np.zeros(rows.shape, dtype=np.float32), rows


def _parameters(index: Any, selector: Any) -> Any:
    """Search parameters of an index's class with its own settings and a selector."""
    import faiss

    known: Any = faiss  # its stubs lack some of these

    if isinstance(index, faiss.IndexPreTransform):
        inner = _parameters(faiss.downcast_index(index.index), selector)
        return known.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexRefine):
        inner = _parameters(faiss.downcast_index(index.base_index), selector)
        return known.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        return known.SearchParametersIVF(sel=selector, nprobe=index.nprobe)
    if isinstance(index, faiss.IndexHNSW):
        return known.SearchParametersHNSW(sel=selector, efSearch=index.hnsw.efSearch)
    return known.SearchParameters(sel=selector)


def open_index(path: Path, config: Index, *, threads: int | None = None) -> OpenIndex:
    """Map an index file; its content is trusted, so check its digest first.

    ``IO_FLAG_MMAP_IFC`` maps a flat index; ``IO_FLAG_MMAP`` would read it into memory.

    Raises:
        StageError: the file is no index, or has no such search parameter.
        IndexMismatchError: it is of another kind, or was built for another metric.
    """
    import faiss

    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise StageError(f"{path}: the index cannot be read ({reason(error)})") from None
    metric = faiss.METRIC_L2 if config.metric == "l2" else faiss.METRIC_INNER_PRODUCT
    wanted = faiss.Index if config.is_factory else getattr(faiss, CLASS_OF[config.kind])
    if index.metric_type != metric or not isinstance(index, wanted):
        raise IndexMismatchError(
            f"{path}: a {type(index).__name__} of metric {index.metric_type} cannot serve "
            f"index.kind = {config.kind!r} with index.metric = {config.metric!r}"
        )
    for parameters in _search_parameters(config):
        try:
            # FAISS's stubs know one of the two forms of this call only.
            faiss.ParameterSpace().set_index_parameters(index, parameters)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise StageError(
                f"index.search_parameters = {parameters!r}: not of {config.kind!r} "
                f"({reason(error)})"
            ) from None
    return OpenIndex(
        metric=config.metric, threads=threads, is_exhaustive=config.is_exhaustive, faiss=index
    )


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """The stored vectors themselves, searched exhaustively a block at a time without a copy."""

    metric: str
    threads: int | None
    vectors: Singles  # (n, dim); may be mapped

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self.vectors.shape[1])

    @property
    def n_vectors(self) -> int:
        """How many vectors there are."""
        return len(self.vectors)

    @property
    def is_exhaustive(self) -> bool:
        """Every vector is compared."""
        return True

    @property
    def is_precise(self) -> bool:
        """Many queries at once are compared as matrices, whose sums depend on their number."""
        return False

    def nearest(self, queries: Singles, depth: int) -> tuple[Singles, Ints]:
        """The (n, depth) best scores and rows, best first; row -1: there are no more."""
        best = np.full((len(queries), depth), -np.inf, dtype=np.float32)
        best_rows = np.full((len(queries), depth), -1, dtype=np.int64)
        for start, block in blocks(self.vectors, self.metric):
            scores, rows = self._index(block).nearest(queries, min(depth, len(block)))
            scores, rows = np.hstack([best, scores]), np.hstack([best_rows, rows + start])
            order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
            best = np.take_along_axis(scores, order, axis=1)
            best_rows = np.take_along_axis(rows, order, axis=1)
        return best, best_rows

    def above(self, query: Singles, score: float) -> Ints:
        """The rows of all vectors that score more than ``score`` for one (dim,) query."""
        found = [
            self._index(block).above(query, score) + start
            for start, block in blocks(self.vectors, self.metric)
        ]
        return np.concatenate(found)

    def within(self, rows: Ints) -> Subset:
        """Only the vectors of (n,) ascending rows, copied."""
        return Subset(StoredVectors(self.metric, self.threads, self.vectors[rows]), rows)

    def _index(self, block: Singles) -> OpenIndex:
        import faiss

        index = faiss.IndexFlatL2(self.dim) if self.metric == "l2" else faiss.IndexFlatIP(self.dim)
        index.add(block)
        return OpenIndex(self.metric, self.threads, is_exhaustive=True, faiss=index)


@dataclass(frozen=True, slots=True)
class Subset:
    """Vectors of their own that stand for some rows of others."""

    inner: StoredVectors
    rows: Ints  # (n,) ascending

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self.inner.dim

    @property
    def n_vectors(self) -> int:
        """How many vectors there are."""
        return len(self.rows)

    @property
    def is_exhaustive(self) -> bool:
        """Every vector is compared."""
        return True

    @property
    def is_precise(self) -> bool:
        """Many queries at once are compared as matrices, whose sums depend on their number."""
        return False

    def nearest(self, queries: Singles, depth: int) -> tuple[Singles, Ints]:
        """The (n, depth) best scores and rows, best first; row -1: there are no more."""
        scores, places = self.inner.nearest(queries, depth)
        return scores, np.where(places < 0, -1, self.rows[places])

    def above(self, query: Singles, score: float) -> Ints:
        """The rows of all vectors that score more than ``score`` for one (dim,) query."""
        return self.rows[self.inner.above(query, score)]

    def within(self, rows: Ints) -> Subset:
        """Only the vectors of (n,) ascending rows that are here."""
        places = np.flatnonzero(np.isin(self.rows, rows))
        return Subset(self.inner.within(places).inner, self.rows[places])


def compared(
    queries: Singles, vectors: Singles, rows: Ints, metric: str, *, threads: int | None
) -> Singles:
    """(n, m) q·v, with ``l2`` |q - v|², of (n, dim) queries and (n, m) rows of (k, dim) vectors.

    Sums in float32; vectors are read where they are. Of row -1: minus infinity, or infinity.
    """
    import faiss

    by_row: Any = faiss  # its stubs want its own pointers
    compare = by_row.fvec_L2sqr_by_idx if metric == "l2" else by_row.fvec_inner_products_by_idx
    found = np.empty(rows.shape, dtype=np.float32)
    given = found, np.ascontiguousarray(queries), vectors, np.ascontiguousarray(rows)
    with faiss_threads(threads):
        compare(*map(by_row.swig_ptr, given), vectors.shape[1], *rows.shape)
    return found


def _search_parameters(config: Index) -> list[str]:
    """In FAISS's words."""
    if config.search_parameters is not None:
        return [config.search_parameters]
    own = {"efSearch": config.ef_search, "nprobe": config.n_probe}
    return [f"{name}={value}" for name, value in own.items() if value is not None]


def _fitting(queries: Singles, dim: int, metric: str) -> Singles:
    if queries.shape[1] != dim:
        raise IndexMismatchError(
            f"the index holds {dim}-dimensional vectors, but the queries' have "
            f"{queries.shape[1]} dimensions: it was built with another model. "
            "Run the experiment again, or name the model the index was built with."
        )
    return prepared(queries, metric)
