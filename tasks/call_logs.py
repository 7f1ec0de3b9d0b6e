"""What one stage asked of LLMs: a row a call, asked or reused, kept in little memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import polars as pl

from schemas.endpoints import Endpoint, Price
from schemas.frames import LLM_CALLS
from tasks.calls import Answered, Call, Usage, to_json
from tasks.folding import fold_constants
from tasks.judging import Failure
from tasks.pricing import cost_of, price_of

ROWS_A_FRAME = 500
"""Rows are turned into a frame as they come: as Python objects they take ten times the memory."""


class CallLog:
    """Collects the rows of ``llm_calls``.

    Args:
        prices: the price table of the configuration.
    """

    def __init__(self, prices: Sequence[Price]):
        self._prices = prices
        self._rows: list[tuple[object, ...]] = []
        self._frames: list[pl.DataFrame] = []
        self.n_asked = 0
        self.n_reused = 0
        self.n_failed = 0

    def add(
        self,
        call: Call,
        endpoint: Endpoint,
        prompt_version: str,
        *,
        key: str,
        answered: Answered,
        n_tries: int,
        failure: Failure | None = None,
    ) -> None:
        """Add a call; ``n_tries`` is 0 where a stored answer was reused."""
        is_reused = failure is None and n_tries == 0
        self.n_reused += is_reused
        self.n_asked += n_tries > 0
        self.n_failed += failure is not None
        started = datetime.fromtimestamp(answered.started_at, UTC)
        price = price_of(endpoint.model, self._prices, started.date())
        usage: Usage = answered.usage
        self._rows.append(
            (
                *(key, call.subject, None, call.purpose, endpoint.base_url, endpoint.model),
                *(to_json(endpoint.identity["parameters"]), prompt_version, call.sample),
                *(is_reused, failure.status if failure else "answered"),
                *(failure.message if failure else None, n_tries),
                *(usage.prompt_tokens, usage.completion_tokens, cost_of(usage, price)),
                *(price.currency if price else None, price.since if price else None),
                *(started, answered.seconds),
            )
        )
        if len(self._rows) >= ROWS_A_FRAME:
            self._flush()

    def frame(self, queries: Mapping[str, str]) -> pl.DataFrame:
        """``LLM_CALLS``; ``queries`` names the query of a call's subject."""
        self._flush()
        found = pl.DataFrame(
            {"subject": list(queries), "found": list(queries.values())},
            schema={"subject": pl.String, "found": pl.String},
        )
        # Only the subjects are joined: the other columns keep their memory.
        parts = [
            rows.with_columns(
                query_id=rows.select("subject").join(
                    found, on="subject", how="left", maintain_order="left"
                )["found"]
            )
            for rows in self._frames
        ]
        return pl.concat([LLM_CALLS.to_frame(), *parts])

    def _flush(self) -> None:
        if self._rows:
            frame = pl.DataFrame(self._rows, schema=LLM_CALLS, orient="row")
            self._frames.append(fold_constants(frame))
            self._rows = []
