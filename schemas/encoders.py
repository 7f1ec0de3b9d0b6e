"""The section ``[embedding]``: which model turns texts into vectors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from schemas.endpoints import EmbeddingEndpoint
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
    endpoint: EmbeddingEndpoint | None = None  # in place of a model on this machine

    @model_validator(mode="before")
    @classmethod
    def _one_name(cls, value: Any) -> Any:
        """The model's name may stand in either table, and then is in both."""
        endpoint = value.get("endpoint") if isinstance(value, dict) else None
        if not isinstance(endpoint, dict):
            return value
        names = [name for name in (value.get("model"), endpoint.get("model")) if name is not None]
        if len(names) == 2 and names[0] != names[1]:
            raise ValueError(
                f"model is {names[0]!r} and endpoint.model is {names[1]!r}: name the endpoint's "
                "model once"
            )
        return (
            {**value, "model": names[0], "endpoint": {**endpoint, "model": names[0]}}
            if (names)
            else value
        )

    @model_validator(mode="after")
    def _fits_the_endpoint(self) -> Embedding:
        if self.endpoint is not None:
            if self.endpoint.model != self.model:  # the endpoint came as a model, not as a table
                raise ValueError(f"model must be that of the endpoint, {self.endpoint.model!r}")
            for name in ("revision", "deterministic"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for models on this machine, not for an endpoint")
        return self
