"""The section ``[retrieval]``: what is retrieved for each query, and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from schemas.elsewhere import Elsewhere
from schemas.lexical_retrieval import Bm25, Hybrid
from schemas.rerankers import Rerank


class Retrieval(Elsewhere):
    """What is retrieved for each query."""

    method: Literal["dense", "bm25", "hybrid"] = "dense"
    depth: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    max_chunks: Annotated[int | None, Field(ge=1)] = None  # document labels; None: 20 x depth
    bm25: Bm25 = Bm25()
    hybrid: Hybrid = Hybrid()
    rerank: Rerank | None = None  # the section absent: no reranking

    @property
    def needs_vectors(self) -> bool:
        """Whether chunks and queries are embedded."""
        return self.elsewhere is None and self.method in ("dense", "hybrid")

    @property
    def needs_terms(self) -> bool:
        """Whether chunks and queries are cut into terms."""
        return self.elsewhere is None and self.method in ("bm25", "hybrid")

    @property
    def chunk_limit(self) -> int:
        """The most chunks that are looked at for one query's document ranking."""
        return self.max_chunks if self.max_chunks is not None else 20 * self.depth

    def of_list(self, depth: int | None) -> Retrieval:
        """What decides one list of items: two methods that need the same list share its stage."""
        return Retrieval(depth=depth or self.depth, max_chunks=self.max_chunks)

    @model_validator(mode="after")
    def _reranks_what_is_there(self) -> Retrieval:
        if self.rerank is not None and self.rerank.depth > self.depth:
            raise ValueError(
                f"rerank.depth is {self.rerank.depth} and depth is {self.depth}: only what was "
                "retrieved can be reranked; raise depth, or lower rerank.depth"
            )
        return self
