"""BM25: a matrix of terms and chunks, made by bm25s, and the rankings that it gives.

The only module that knows bm25s. It works in float64, so that scores are those of the formula; a
chunk whose score is 0 shares no term with the query (or only terms that weigh nothing) and is no
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.lexical_retrieval import Bm25
from tasks.rescoring import Floats
from tasks.tokenizing import Tokenizer

Int32s = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TermIndex:
    """The BM25 weight of each term in each chunk, column by column (CSC)."""

    terms: list[str]  # (n_terms,) bytewise ascending
    starts: NDArray[np.int64]  # (n_terms + 1,) where each term's entries begin
    chunks: Int32s  # (n_entries,) row of the chunk, ascending within a term
    weights: Floats  # (n_entries,)
    n_chunks: int


def index_terms(texts: Sequence[str], config: Bm25) -> TermIndex:
    """Weigh the terms of (n_chunks,) texts.

    ``lucene``: idf(t) tf / (tf + k1 (1 - b + b |c| / avg |c|)) with idf(t) = ln(1 + (N - n_t + 0.5)
    / (n_t + 0.5)); the variants are those of Kamphuis et al. (2020),
    doi:10.1007/978-3-030-45442-5_4.

    Args:
        texts: of chunks, as they are.
        config: the experiment's section.
    """
    tokenize = Tokenizer(config)
    tokens = [tokenize(text) for text in texts]
    terms = sorted({term for of_text in tokens for term in of_text}, key=str.encode)
    if not terms:
        return TermIndex([], np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0), len(texts))
    numbers = {term: number for number, term in enumerate(terms)}
    engine = _engine(config)
    engine.index(
        ([[numbers[term] for term in of_text] for of_text in tokens], dict(numbers)),
        create_empty_token=False,
        show_progress=False,
    )
    return TermIndex(
        terms,
        np.asarray(engine.scores["indptr"], dtype=np.int64),
        np.asarray(engine.scores["indices"], dtype=np.int32),
        np.asarray(engine.scores["data"], dtype=np.float64),
        len(texts),
    )


class TermSearch:
    """Scores all chunks for a query.

    Args:
        index: of the chunks.
        config: the section that the index was made with.
    """

    def __init__(self, index: TermIndex, config: Bm25):
        self._index = index
        self._tokenize = Tokenizer(config)
        self._numbers = {term: number for number, term in enumerate(index.terms)}
        self._engine = _engine(config)
        self._engine.scores = {
            "data": index.weights,
            "indices": index.chunks,
            "indptr": index.starts,
            "num_docs": index.n_chunks,
        }
        self._engine.nonoccurrence_array = None  # of variants that are not offered

    def scores(self, query: str) -> Floats:
        """(n_chunks,) the sum of the weights of the query's terms, each as often as it is asked."""
        numbers = [self._numbers[t] for t in self._tokenize(query) if t in self._numbers]
        if not numbers:
            return np.zeros(self._index.n_chunks)
        return np.asarray(self._engine.get_scores_from_ids(numbers), dtype=np.float64)


def _engine(config: Bm25) -> Any:
    import bm25s

    return bm25s.BM25(
        k1=config.k1, b=config.b, method=config.variant, dtype="float64", backend="numpy"
    )
