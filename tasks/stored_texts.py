"""The texts of chunks, read from the artifact store a part at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from schemas.artifacts import Artifact
from tasks.artifacts import ArtifactStore
from tasks.texts import texts_of

COLUMNS = ("chunk_id", "title", "text")


@dataclass(frozen=True, slots=True)
class ChunkTexts:
    """The texts of stored CHUNKS; only a part of them is in memory."""

    store: ArtifactStore
    chunks: Artifact

    def __len__(self) -> int:
        return self.chunks.n_items

    def parts(self) -> Iterator[tuple[list[str], pl.Series]]:
        """The texts and ids of chunks, in their order."""
        for part in self.store.frames(self.chunks, columns=COLUMNS):
            yield texts_of(part), part["chunk_id"]
