"""A gate: a measure that decides about a night, and how much of a loss matters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from schemas.measures import Measure
from schemas.sections import Section

ALPHA = 0.01
"""Chance of a false alarm that a gate allows, a night and a family of gates."""


class Gate(Section):
    """What is tested of one measure: a loss of ``delta`` or more, at the level ``alpha``."""

    measure: str
    direction: Literal["higher", "lower"] = "higher"  # which way is better
    delta: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]  # in units of the measure
    alpha: Annotated[float, Field(gt=0, lt=0.5, allow_inf_nan=False)] = ALPHA

    @field_validator("measure")
    @classmethod
    def _is_a_measure(cls, value: str) -> str:
        """The canonical name, under which values are stored."""
        return str(Measure.parse(value))
