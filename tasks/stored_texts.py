"""The texts of chunks, read from the artifact store a part at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from schemas.artifacts import Artifact
from tasks.artifacts import ArtifactStore
from tasks.texts import texts_of
from tasks.vector_blocks import Ints

COLUMNS = ("chunk_id", "title", "text")


@dataclass(frozen=True, slots=True)
class ChunkTexts:
    """The texts of stored CHUNKS; only those that are taken stay in memory."""

    store: ArtifactStore
    chunks: Artifact

    def __len__(self) -> int:
        return self.chunks.n_items

    def __iter__(self) -> Iterator[str]:
        for _, part in self.store.frames(self.chunks, columns=COLUMNS):
            yield from texts_of(part)

    def take(self, rows: Ints) -> tuple[list[str], list[str]]:
        """The texts of (n,) different rows, in their order, and their names."""
        order = np.argsort(rows)
        ascending = rows[order]
        texts, names = [""] * len(rows), [""] * len(rows)
        for start, part in self.store.frames(self.chunks, columns=COLUMNS, holding=ascending):
            first, last = np.searchsorted(ascending, (start, start + part.height))
            taken = part[ascending[first:last] - start]
            for place, text, name in zip(
                order[first:last].tolist(), texts_of(taken), taken["chunk_id"], strict=True
            ):
                texts[place], names[place] = text, name
        return texts, names
