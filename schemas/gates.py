"""A gate: a measure that decides about a night, and how much of a loss matters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from schemas.errors import UsageError
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

    @model_validator(mode="after")
    def _delta_is_a_possible_loss(self) -> Gate:
        """A gate that no night can fail, such as 2 for two percent, would call every loss same."""
        contract = Measure.parse(self.measure).contract
        if contract.highest is not None and self.delta >= contract.highest - contract.lowest:
            raise ValueError(
                f"delta is {self.delta:g}, and {self.measure} lies between {contract.lowest:g} and "
                f"{contract.highest:g}: no loss could be that large; name the smallest that "
                "matters, such as 0.02"
            )
        return self


def parse_gate(text: str) -> Gate:
    """Read a gate as it is written on a command line: ``ndcg@10:0.02`` or ``ndcg@10:0.02:0.05``.

    Raises:
        UsageError: it is not so written, the measure is none, or a number is out of range.
    """
    measure, *numbers = (part.strip() for part in text.split(":"))
    expected = "expected MEASURE:DELTA or MEASURE:DELTA:ALPHA, such as ndcg@10:0.02"
    try:
        values = dict(zip(("delta", "alpha"), map(float, numbers), strict=False))
    except ValueError:
        raise UsageError(f"gate {text!r}: {expected}") from None
    if not 1 <= len(numbers) <= 2:
        raise UsageError(
            f"gate {text!r}: {expected}, where DELTA is the smallest loss that matters"
        )
    try:
        return Gate(measure=measure, **values)
    except ValidationError as error:
        fault = error.errors()[0]
        name = "".join(f"{part}: " for part in fault["loc"])
        said = fault["msg"].removeprefix("Value error, ")
        raise UsageError(f"gate {text!r}: {name}{said[:1].lower()}{said[1:]}") from None
