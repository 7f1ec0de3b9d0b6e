"""Texts that are embedded: those of stored chunks are the same as those in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from schemas.artifacts import Artifact
from schemas.frames import CHUNKS
from schemas.records import Chunk
from tasks.artifacts import CHARACTERS_AT_ONCE, ROWS_AT_ONCE, ArtifactStore
from tasks.stored_texts import ChunkTexts
from tasks.texts import GivenTexts, Texts, texts_of

N = 2 * ROWS_AT_ONCE + 100
LONG = "é" * (CHARACTERS_AT_ONCE - 1)  # ends its part before there are ROWS_AT_ONCE rows
CHUNKS_STORED = [
    Chunk(f"d{i}", i, i + 9, f"text {i} é\n", [None, "", "Title"][i % 3]) for i in range(N - 1)
]
CHUNKS_STORED.insert(500, Chunk("long", 0, len(LONG), LONG))
TEXTS = [chunk.embedded_text for chunk in CHUNKS_STORED]
NAMES = [chunk.chunk_id for chunk in CHUNKS_STORED]


def put_chunks(store: ArtifactStore, chunks: Sequence[Chunk]) -> Artifact:
    rows = [(c.chunk_id, c.doc_id, c.start, c.end, c.text, c.title) for c in chunks]
    return store.put_rows("chunks", rows, CHUNKS)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> ChunkTexts:
    folder = tmp_path_factory.mktemp("store")
    store = ArtifactStore(str(folder), scratch=folder).prepare()
    return ChunkTexts(store, put_chunks(store, CHUNKS_STORED))


def test_a_title_stands_on_a_line_of_its_own_also_an_empty_one() -> None:
    rows = [("a#0-1", "a", 0, 1, "x", title) for title in (None, "", "T\n", "é")]
    frame = pl.DataFrame(rows, schema=CHUNKS, orient="row")
    assert texts_of(frame) == ["x", "\nx", "T\n\nx", "é\nx"]


def read(texts: Texts) -> tuple[list[str], list[str]]:
    parts = [(part, part if names is None else list(names)) for part, names in texts.parts()]
    return [text for part, _ in parts for text in part], [name for _, of in parts for name in of]


def test_stored_texts_are_those_of_the_chunks_in_their_order(stored: ChunkTexts) -> None:
    assert len(stored) == N
    assert read(stored) == (TEXTS, NAMES)
    assert read(stored) == (TEXTS, NAMES)  # again from the start
    assert read(GivenTexts(TEXTS, NAMES)) == (TEXTS, NAMES)


def test_a_part_of_stored_texts_is_small(stored: ChunkTexts) -> None:
    assert [len(part) for part, _ in stored.parts()] == [501, ROWS_AT_ONCE, N - 501 - ROWS_AT_ONCE]


def test_nothing_stored_is_no_text(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path), scratch=tmp_path).prepare()
    empty = ChunkTexts(store, put_chunks(store, []))
    assert (len(empty), read(empty)) == (0, ([], []))
