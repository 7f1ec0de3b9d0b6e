"""A server as an experiment file names it: where it answers, what it is sent, what it costs.

The key itself never stands here: ``api_key_env`` names the environment variable that holds it.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from schemas.sections import Section

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"
VARIABLE_PATTERN = r"[A-Z_][A-Z0-9_]{0,63}"


class Connection(Section):
    """How a server is asked over HTTP: with what key, and how hard to try.

    None of it decides what it answers.
    """

    api_key_env: str | None = None
    max_concurrency: Annotated[int, Field(ge=1, le=1024)] = 32
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 60.0  # seconds a call
    attempts: Annotated[int, Field(ge=1, le=50)] = 6

    @field_validator("api_key_env")
    @classmethod
    def _variable_not_key(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(VARIABLE_PATTERN, value):
            raise ValueError(
                "api_key_env is the name of an environment variable, such as OPENAI_API_KEY, in "
                "capitals; the key itself must never stand in a file"
            )
        return value

    @property
    def key_variable(self) -> str | None:
        """The environment variable with the key; None: no key is sent."""
        return self.api_key_env

    @property
    def shown(self) -> str:
        """What messages call the server."""
        raise NotImplementedError


class ModelConnection(Connection):
    """One model behind an OpenAI-compatible endpoint."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    base_url: str = OPENAI_URL
    api_key_env: str | None = None  # None: OPENAI_API_KEY for OpenAI's own endpoint, else no key

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, value: str) -> str:
        return plain_url(value, "base_url", "http://localhost:11434/v1").rstrip("/")

    @property
    def key_variable(self) -> str | None:
        """The environment variable with the key; None: no key is sent."""
        if self.api_key_env is not None:
            return self.api_key_env
        return OPENAI_KEY_VARIABLE if self.base_url == OPENAI_URL else None

    @property
    def shown(self) -> str:
        """What messages call the model."""
        return f"{self.model} at {self.base_url}"


class Endpoint(ModelConnection):
    """An LLM behind any OpenAI-compatible endpoint."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0  # left out where the model takes none
    seed: int | None = 0  # likewise
    reasoning_effort: Annotated[str | None, Field(pattern=r"^[a-z]{1,20}$")] = None
    max_output_tokens: Annotated[int, Field(ge=16, le=1_000_000)] = 2048

    @property
    def identity(self) -> dict[str, Any]:
        """What decides its answers beside the messages: in keys of calls, stages and results."""
        parameters = {
            "temperature": self.temperature,
            "seed": self.seed,
            "reasoning_effort": self.reasoning_effort,
            "max_output_tokens": self.max_output_tokens,
        }
        return {"endpoint": self.base_url, "model": self.model, "parameters": parameters}


class EmbeddingEndpoint(ModelConnection):
    """An embedding model behind any OpenAI-compatible endpoint."""

    dimensions: Annotated[int | None, Field(ge=1, le=100_000)] = None  # None: the model's own
    batch_size: Annotated[int, Field(ge=1, le=2048)] = 64  # texts a call
    max_concurrency: Annotated[int, Field(ge=1, le=1024)] = 8
    deadline: Annotated[float, Field(gt=0)] = 3600.0  # seconds a stage
    # What a million tokens cost; it decides no vector.
    price: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"

    @property
    def identity(self) -> dict[str, Any]:
        """What decides its vectors beside the texts: in keys of vectors, stages and results."""
        return {"endpoint": self.base_url, "model": self.model, "dimensions": self.dimensions}


def plain_url(value: str, name: str, example: str) -> str:
    """A URL as it may stand in a file and a log: nothing secret in it, and none is repeated here.

    Raises:
        ValueError: it is no URL, or holds a user, password, query or fragment.
    """
    try:
        url = urlsplit(value)
        _ = url.port  # raises where it is no number up to 65535
        host, has_user = url.hostname, url.username is not None or url.password is not None
    except ValueError:
        raise ValueError(
            f"{name} is not a URL with a host and, if any, a port up to 65535, such as {example}"
        ) from None
    if not value.isprintable():  # nor has a host name any such character
        raise ValueError(f"{name} holds a control character; expected a URL such as {example}")
    if url.scheme not in ("http", "https") or not host or re.search(r"\s", value):
        raise ValueError(
            f"{name} must begin with http:// or https:// and name a host, such as {example}"
        )
    if has_user or "@" in url.netloc:
        raise ValueError(
            f"{name} holds a user name or password, which would be logged; take it out, and "
            "name the environment variable with the key as api_key_env"
        )
    if url.query or url.fragment:
        raise ValueError(
            f"{name} holds a query or fragment, which would be logged; keep only the path, "
            "and name the environment variable with the key as api_key_env"
        )
    return value


class Price(Section):
    """What a model costs from a day on, in money a million tokens."""

    model: Annotated[str, Field(min_length=1)]
    since: date
    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cached_input: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"


class Budget(Section):
    """The most that one run may spend on LLM calls; what is reached first stops it."""

    calls: Annotated[int | None, Field(ge=1)] = None
    tokens: Annotated[int | None, Field(ge=1)] = None
    money: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None

    @property
    def label(self) -> str:
        """What it is called where it was reached."""
        return "summary.budget"

    @model_validator(mode="after")
    def _limits_something(self) -> Budget:
        if self.calls is None and self.tokens is None and self.money is None:
            raise ValueError("a budget names calls, tokens or money, such as budget.calls = 500")
        return self
