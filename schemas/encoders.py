"""The section ``[embedding]``: which model turns texts into vectors."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from schemas.sections import Section


class Embedding(Section):
    """Which model turns texts into vectors, and how."""

    model: Annotated[str, Field(min_length=1)] = "all-MiniLM-L6-v2"
    revision: str | None = None
    query_prompt: str = ""
    document_prompt: str = ""
    normalize: bool = True
    batch_size: Annotated[int, Field(ge=1)] = 32
    deterministic: bool = False
