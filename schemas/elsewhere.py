"""Retrievers from elsewhere, as the section ``[retrieval]`` names them."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import Field, JsonValue, field_validator, model_validator

from schemas.endpoints import VARIABLE_PATTERN, Connection, plain_url
from schemas.sections import PLUGIN_PATTERN, Section


class HttpRetriever(Connection):
    """A retriever that is asked over HTTP; README, "Somebody else's retriever", has the form."""

    url: str
    headers_env: dict[str, str] = Field(default_factory=dict)  # header: variable with its value
    max_concurrency: Annotated[int, Field(ge=1, le=1024)] = 8
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 30.0  # seconds a request
    attempts: Annotated[int, Field(ge=1, le=50)] = 4
    deadline: Annotated[float, Field(gt=0)] = 3600.0  # seconds a stage
    max_failed: Annotated[float, Field(ge=0, le=1)] = 0.5  # share of the queries; above: no result
    version: str | None = None  # answers hold as long as it is the same; None: for one night

    @field_validator("url")
    @classmethod
    def _plain_url(cls, value: str) -> str:
        return plain_url(value, "url", "http://localhost:8000/retrieve")

    @field_validator("headers_env")
    @classmethod
    def _variables_not_values(cls, value: dict[str, str]) -> dict[str, str]:
        for header, variable in value.items():
            if not re.fullmatch(r"[A-Za-z0-9-]+", header) or not re.fullmatch(
                VARIABLE_PATTERN, variable
            ):
                raise ValueError(
                    "headers_env names for each header the environment variable that holds its "
                    'value, in capitals, such as { X-Api-Key = "SEARCH_KEY" }'
                )
        return value

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.url


class Elsewhere(Section):
    """At most one retriever from elsewhere, in place of ``retrieval.method``."""

    plugin: Annotated[str | None, Field(pattern=PLUGIN_PATTERN)] = None
    http: HttpRetriever | None = None
    run_file: Annotated[str | None, Field(min_length=1)] = None  # a TREC run
    # Handed to the plug-in, or posted with every query.
    options: dict[str, JsonValue] = Field(default_factory=dict)

    @field_validator("options")
    @classmethod
    def _finite_options(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise ValueError("options hold NaN or infinity, which JSON has no word for") from None
        return value

    @property
    def elsewhere(self) -> str | None:
        """``plugin``, ``http`` or ``run_file``; None: retrieval happens here."""
        named = (name for name in ("plugin", "http", "run_file") if getattr(self, name) is not None)
        return next(named, None)

    @model_validator(mode="after")
    def _one_source(self) -> Elsewhere:
        named = [n for n in ("plugin", "http", "run_file") if getattr(self, n) is not None]
        if len(named) > 1:
            raise ValueError(f"{' and '.join(named)} are given; name one retriever")
        method: Any = getattr(self, "method", "dense")
        if named and method != "dense":
            raise ValueError(f"method is {method!r} and {named[0]} is given; name one retriever")
        if self.options and (not named or named == ["run_file"]):
            raise ValueError("options are for a plug-in or an HTTP retriever, and none is named")
        return self
