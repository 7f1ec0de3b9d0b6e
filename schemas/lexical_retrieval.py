"""The sections ``[retrieval.bm25]`` and ``[retrieval.hybrid]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from schemas.sections import Section

Language = Literal[
    "ar", "ca", "cs", "da", "de", "el", "en", "eo", "es", "et", "eu", "fa", "fi", "fr", "ga", "hi",
    "hu", "hy", "id", "it", "ja", "ko", "lt", "ne", "nl", "no", "pl", "pt", "ro", "ru", "sr", "st",
    "sv", "ta", "tr", "yi", "zh", "none",
]  # fmt: skip
"""ISO 639-1; ``none``: words as they are."""

Factor = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Bm25(Section):
    """How terms are made and weighed; k1 and b are Lucene's defaults."""

    language: Language = "en"  # of stemming and stop words
    stem: bool = True
    stop_words: bool = True  # whether they are left out
    variant: Literal["lucene", "robertson", "atire"] = "lucene"
    k1: Factor = 1.2
    b: Annotated[float, Field(ge=0, le=1)] = 0.75


class Hybrid(Section):
    """How the dense and the BM25 ranking become one."""

    fusion: Literal["rrf", "weighted"] = "rrf"
    k: Factor = 60.0  # of rrf: how little the first ranks stand out
    normalisation: Literal["min_max", "z_score"] = "min_max"  # of weighted
    dense_weight: Factor = 1.0
    bm25_weight: Factor = 1.0
    dense_depth: Annotated[int | None, Field(ge=1, le=1_000_000)] = None  # None: retrieval.depth
    bm25_depth: Annotated[int | None, Field(ge=1, le=1_000_000)] = None

    @model_validator(mode="after")
    def _weighs_something(self) -> Hybrid:
        if self.dense_weight == 0 == self.bm25_weight:
            raise ValueError("dense_weight and bm25_weight are both 0; give one of them a weight")
        return self
