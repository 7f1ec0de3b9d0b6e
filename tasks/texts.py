"""The texts that are embedded, in an order that their vectors keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from tasks.vector_blocks import Ints


class Texts(Protocol):
    """Texts in a fixed order, and what an error calls each of them."""

    def __len__(self) -> int:
        """How many there are."""

    def __iter__(self) -> Iterator[str]:
        """Each text."""

    def take(self, rows: Ints) -> tuple[list[str], list[str]]:
        """The texts of (n,) different rows, in their order, and their names."""


@dataclass(frozen=True, slots=True)
class GivenTexts:
    """Texts in memory; without names a text is called by its beginning."""

    texts: Sequence[str]
    names: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def take(self, rows: Ints) -> tuple[list[str], list[str]]:
        """The texts of (n,) rows, in their order, and their names."""
        texts = [self.texts[row] for row in rows]
        if self.names is None:
            return texts, [repr(text[:80]) for text in texts]
        return texts, [self.names[row] for row in rows]


def texts_of(chunks: pl.DataFrame) -> list[str]:
    """What stands for each chunk: its title, if it is used, on a line of its own, and its text."""
    texts = chunks.select(
        pl.when(pl.col("title").is_null())
        .then(pl.col("text"))
        .otherwise(pl.concat_str("title", "text", separator="\n"))
    )
    return texts.to_series().to_list()
