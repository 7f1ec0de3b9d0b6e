"""The texts that are embedded, in an order that their vectors keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl


class Texts(Protocol):
    """Texts in a fixed order, and what an error calls each of them."""

    def __len__(self) -> int:
        """How many there are."""

    def parts(self) -> Iterator[tuple[list[str], Sequence[str] | pl.Series | None]]:
        """Some texts after the other, with their names; None: they are called by how they begin."""


@dataclass(frozen=True, slots=True)
class GivenTexts:
    """Texts in memory; without names a text is called by its beginning."""

    texts: Sequence[str]
    names: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def parts(self) -> Iterator[tuple[list[str], Sequence[str] | None]]:
        """All of them at once."""
        yield list(self.texts), self.names


def texts_of(chunks: pl.DataFrame) -> list[str]:
    """What stands for each chunk: its title, if it is used, on a line of its own, and its text."""
    texts = chunks.select(
        pl.when(pl.col("title").is_null())
        .then(pl.col("text"))
        .otherwise(pl.concat_str("title", "text", separator="\n"))
    )
    return texts.to_series().to_list()
