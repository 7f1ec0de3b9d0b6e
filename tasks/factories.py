"""FAISS factory strings: what one makes, whether FAISS knows it, how many vectors it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from schemas.errors import StageError
from schemas.indexes import DEFAULTS, Index

ANY_DIM = 768  # to look for slips of the pen where the model's dimensions are not known
SLIPS = ("could not parse", "unbalanced")
OPQ_CENTROIDS = 256  # of the product quantiser that it learns its rotation with
BLAS_FROM = 8_192
"""Queries times dimensions from which FAISS multiplies matrices. Its own 128,000 makes 200 queries
of 256 dimensions four times slower; one query is faster without, up to so many dimensions."""
NESTED = ("index", "base_index", "quantizer", "storage", "refine_index")


@dataclass(frozen=True, slots=True)
class Centroids:
    """The most centroids that one part of an index learns: as many vectors have to be there."""

    n: int
    part: str


def make_index(config: Index, *, n_vectors: int, dim: int) -> Any:
    """An empty FAISS index for so many vectors, its seeds set.

    Raises:
        StageError: FAISS cannot make it for vectors of ``dim`` dimensions.
    """
    faiss: Any = _faiss()
    factory = config.factory(n_vectors=n_vectors, dim=dim)
    metric = faiss.METRIC_L2 if config.metric == "l2" else faiss.METRIC_INNER_PRODUCT
    try:
        index = faiss.index_factory(dim, factory, metric)
        if config.build_parameters is not None:
            faiss.ParameterSpace().set_index_parameters(index, config.build_parameters)
        if config.search_parameters is not None:
            faiss.ParameterSpace().set_index_parameters(index, config.search_parameters)
    except RuntimeError as error:
        raise StageError(
            f"index.kind = {config.kind!r}: FAISS cannot make the index {factory!r} of "
            f"{dim}-dimensional vectors with metric {config.metric!r} ({reason(error)})"
        ) from None
    if config.ef_construction is not None:
        index.hnsw.efConstruction = config.ef_construction
    for part in parts_of(index):
        if hasattr(part, "do_polysemous_training"):
            part.do_polysemous_training = False
        if config.seed is not None:
            _seed(part, config.seed)
    return index


def fault_of(config: Index, dim: int | None) -> str | None:
    """Why an index cannot be made, as far as that is known without vectors; None: it can.

    Args:
        config: the experiment's section.
        dim: dimensions of the model's vectors; None: not known yet, so only FAISS's grammar counts.
    """
    if config.kind == "ivf_pq" and config.pq_m is not None and dim is not None:
        if dim % config.pq_m:
            near = sorted((m for m in range(1, dim + 1) if dim % m == 0), key=_distance(config))
            return (
                f"index.pq_m = {config.pq_m} does not divide the {dim} dimensions of the model's "
                f"vectors into equal parts; the nearest that do are {near[0]} and {near[1]}"
            )
        return None
    if not config.is_factory:
        return None
    try:
        index = make_index(config, n_vectors=0, dim=ANY_DIM if dim is None else dim)
    except StageError as error:
        if any(slip in str(error) for slip in SLIPS):
            return (
                f"index.kind = {config.kind!r} is no factory string that FAISS knows "
                f"({str(error).rpartition(' (')[2]}. Expected one of {', '.join(DEFAULTS)}, or a "
                "string such as 'IVF256,SQ8' or 'OPQ16_64,IVF256,PQ16'"
            )
        return None if dim is None else str(error)
    if config.kind.startswith("IDMap"):
        return f"index.kind = {config.kind!r}: leave out {type(index).__name__[5:]}: rows are ids"
    return None


def check_enough(config: Index, needed: Centroids | None, n_vectors: int, n_sample: int) -> None:
    """Refuse to learn more centroids than there are vectors.

    Args:
        config: the experiment's section.
        needed: what is learnt; None: what the section itself says, before FAISS is asked.
        n_vectors: how many there are.
        n_sample: of these, how many are learnt from.

    Raises:
        StageError: says how many are needed.
    """
    if needed is None:
        lists, codes = config.n_lists or 1, 1 << (config.pq_bits or 0)
        needed = Centroids(lists, f"{lists} lists")
        if codes > lists:
            needed = Centroids(codes, _codes(codes))
    if n_sample < needed.n:
        sample = "" if n_sample == n_vectors else f" (index.train_size, of {n_vectors})"
        raise StageError(
            f"index.kind = {config.kind!r}: {needed.part} need at least {needed.n} vectors to "
            f"learn from, but there are {n_sample}{sample}. "
            "Set fewer, or kind = 'flat', which suits so few vectors"
        )


def centroids_of(index: Any) -> Centroids:
    """The part of an index that needs the most vectors to be trained."""
    most = Centroids(1, "index")
    for part in parts_of(index):
        for n, name in _centroids(part):
            if n > most.n:
                most = Centroids(n, name)
    return most


def parts_of(index: Any) -> Iterator[Any]:
    """An index and the indexes and transformations inside it, each as its own class."""
    faiss: Any = _faiss()
    index = faiss.downcast_index(index)
    yield index
    if isinstance(index, faiss.IndexPreTransform):
        for i in range(index.chain.size()):
            yield faiss.downcast_VectorTransform(index.chain.at(i))
    for name in NESTED:
        inner = getattr(index, name, None)
        if isinstance(inner, faiss.Index):
            yield from parts_of(inner)


def reserve(index: Any, n_vectors: int) -> None:
    """Make room for so many vectors at once: else an array that grows is copied, twice as large."""
    for part in parts_of(index):
        codes = getattr(part, "codes", None)
        if codes is not None and part.ntotal == 0:
            codes.resize(n_vectors * part.code_size)
            codes.clear()  # keeps the room


def is_graph(index: Any) -> bool:
    """Whether adding vectors builds a graph, whose links depend on the order that they come in."""
    return any(hasattr(part, "hnsw") or hasattr(part, "nsg") for part in parts_of(index))


def multiplies_matrices(index: Any) -> bool:
    """Whether adding vectors compares or turns them by matrix products.

    Their last bits depend on how many threads share them, and decide between near centroids.
    """
    faiss: Any = _faiss()
    return any(
        isinstance(part, (faiss.IndexIVF, faiss.LinearTransform))
        or any(getattr(part, name, None) is not None for name in ("pq", "aq"))
        for part in parts_of(index)
    )


@contextmanager
def faiss_threads(threads: int | None) -> Iterator[None]:
    """FAISS with so many threads inside the block; None: as many as it likes.

    Whatever computes distances does it in such a block, and so by one threshold: else the same
    vectors could end in an index of other bytes.
    """
    import faiss

    faiss.cvar.distance_compute_blas_threshold = BLAS_FROM
    before = faiss.omp_get_max_threads()
    if threads is not None:
        faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        if threads is not None:
            faiss.omp_set_num_threads(before)


def reason(error: RuntimeError) -> str:
    """The last line of FAISS's message, without the C++ function that raised it."""
    last = str(error).strip().splitlines()[-1]
    return re.sub(r"^.*\.(cpp|h):\d+: (Error: )?('.*?' failed: ?(?=.))?", "", last)


def _centroids(part: Any) -> Iterator[tuple[int, str]]:
    import faiss

    if isinstance(part, faiss.IndexIVF):
        yield part.nlist, f"{part.nlist} lists"
    if getattr(part, "pq", None) is not None:  # OPQ may hold one for later
        yield part.pq.ksub, _codes(part.pq.ksub)
    if isinstance(part, faiss.OPQMatrix):
        yield OPQ_CENTROIDS, f"{OPQ_CENTROIDS} centroids a part of OPQ's product quantiser"


def _codes(n: int) -> str:
    return f"{n} centroids a part of the product quantiser"


def _seed(part: Any, seed: int) -> None:
    """Set its seeds; and no warning about few vectors: what is lost is measured."""
    faiss: Any = _faiss()
    for clustering in (getattr(part, "cp", None), getattr(getattr(part, "pq", None), "cp", None)):
        if clustering is not None:
            clustering.seed = seed
            clustering.min_points_per_centroid = 1
    if hasattr(part, "hnsw"):
        part.hnsw.rng = faiss.RandomGenerator(seed)


def _distance(config: Index) -> Any:
    wanted = config.pq_m or 1
    return lambda parts: (abs(parts - wanted), parts)


def _faiss() -> Any:
    """FAISS without the types that its stubs have wrong."""
    import faiss

    return faiss
