"""What a night checks beside its experiments: whether its models are still what they were."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from schemas.sections import Section


class Anchor(Section):
    """Fixed responses and questions that an LLM judge is asked anew each night."""

    enabled: bool = True
    path: Annotated[str | None, Field(min_length=1)] = None  # JSONL; None: the built-in set
    alpha: Annotated[float, Field(gt=0, le=0.2)] = 0.01  # chance to call a steady judge moved


class Checks(Section):
    """Which of them a suite has."""

    # Whose fixed texts are embedded anew: a local model's weights are in every key already.
    canaries: Literal["endpoints", "all", "none"] = "endpoints"
    anchor: Anchor = Anchor()
    noise_runs: Annotated[int, Field(ge=0, le=20)] = 0  # how often the judge is asked again
