"""Model of the table about LLM calls."""

from __future__ import annotations

from typing import Annotated

import pandera.polars as pa
import polars as pl

from schemas.table_rules import JSON_OBJECT_PATTERN, UUID_PATTERN, Table

PURPOSES = ("summary", "key_phrases", "questions", "answers", "anchor")
CALL_STATUSES = (
    "answered",
    "no_key_phrases",
    "no_questions",
    "empty_response",
    "truncated",
    "refused",
    "timeout",
    "rate_limited",
    "invalid_reply",
    "over_budget",
)


class LlmCalls(Table):
    """One question to an LLM, asked by a run or reused by it; one may be reused several times."""

    run_id: str = pa.Field(str_matches=UUID_PATTERN)
    call_key: str = pa.Field(str_matches=r"^[0-9a-f]{64}$")
    query_id: str = pa.Field(nullable=True)
    purpose: str = pa.Field(isin=PURPOSES)
    endpoint: str = pa.Field(str_matches=r"^https?://[^@?#]+$")  # never with credentials
    model: str
    parameters: str = pa.Field(str_matches=JSON_OBJECT_PATTERN, nullable=True)
    prompt_version: str = pa.Field(nullable=True)
    sample: str
    is_reused: bool
    status: str = pa.Field(isin=CALL_STATUSES)
    message: str = pa.Field(nullable=True)
    n_tries: int = pa.Field(ge=0)  # 0: reused, or never sent
    prompt_tokens: int = pa.Field(ge=0, nullable=True)
    completion_tokens: int = pa.Field(ge=0, nullable=True)
    cost: float = pa.Field(ge=0, nullable=True)  # NULL: price or tokens are not known
    currency: str = pa.Field(nullable=True)
    prices_of: pl.Date = pa.Field(nullable=True)
    started_at: Annotated[pl.Datetime, "us", "UTC"] = pa.Field(nullable=True)
    seconds: float = pa.Field(ge=0, nullable=True)

    @pa.dataframe_check
    @classmethod
    def message_unless_answered(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A call without an answer says why."""
        is_answered = pl.col("status") == "answered"
        return data.lazyframe.select(is_answered == pl.col("message").is_null())

    @pa.dataframe_check
    @classmethod
    def reused_calls_are_answered_and_not_sent(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """What was reused was answered before and cost nothing now."""
        fits = (pl.col("status") == "answered") & (pl.col("n_tries") == 0)
        return data.lazyframe.select(~pl.col("is_reused") | fits)
