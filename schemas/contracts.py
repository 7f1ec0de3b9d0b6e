"""What a family of measures promises: formula, range, edge policy, source, version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LabelMethod = Literal["answer_text", "span", "document"]

ANY: frozenset[LabelMethod] = frozenset({"answer_text", "span", "document"})
CHUNKS: frozenset[LabelMethod] = frozenset({"answer_text", "span"})
SPANS: frozenset[LabelMethod] = frozenset({"span"})
DOCUMENTS: frozenset[LabelMethod] = frozenset({"document"})


@dataclass(frozen=True, slots=True)
class Contract:
    """What a value of a measure means; stored with the results."""

    formula: str
    lowest: float
    highest: float | None  # None: unbounded above
    edge_policy: str
    source: str
    version: int = 1  # raise it whenever a value could change


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number in parentheses, such as the ``p`` of ``rbp(p=0.8)``."""

    default: float
    lowest: float
    highest: float
    is_whole: bool = False  # False: a fraction strictly between lowest and highest

    @property
    def expected(self) -> str:
        """The values that are taken, in words."""
        if self.is_whole:
            return f"a whole number from {self.lowest:g} to {self.highest:g}"
        return f"a number between {self.lowest:g} and {self.highest:g}, both excluded"


@dataclass(frozen=True, slots=True)
class Family:
    """All measures of one formula: how they are written, and where they apply."""

    contract: Contract
    cutoff: Literal["required", "optional", "none"]
    labels: frozenset[LabelMethod] = ANY  # label methods it can be computed from
    scope: Literal["both", "trec", "experiment", "summary"] = "both"
    parameters: tuple[tuple[str, Parameter], ...] = ()
    takes_characters: bool = False  # the cutoff may be written Nchars
