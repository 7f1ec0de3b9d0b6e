"""The section ``[retrieval.rerank]``: which CrossEncoder reads the first items anew."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from schemas.sections import Section


class Rerank(Section):
    """Which CrossEncoder orders the first items of each ranking."""

    model: Annotated[str, Field(min_length=1)]
    revision: str | None = None
    depth: Annotated[int, Field(ge=1)] = 50  # items that are read; the others stay below them
    batch_size: Annotated[int, Field(ge=1)] = 32
    max_length: Annotated[int | None, Field(ge=8)] = None  # tokens of a pair; None: the model's
