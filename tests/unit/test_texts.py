"""Texts that are embedded: those of stored chunks are the same as those in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from schemas.artifacts import Artifact
from schemas.frames import CHUNKS
from schemas.records import Chunk
from tasks.artifacts import CHARACTERS_AT_ONCE, ROWS_AT_ONCE, ArtifactStore
from tasks.stored_texts import ChunkTexts
from tasks.texts import GivenTexts, texts_of

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


def test_stored_texts_are_those_of_the_chunks_in_their_order(stored: ChunkTexts) -> None:
    assert len(stored) == N
    assert list(stored) == TEXTS
    assert list(stored) == TEXTS  # again from the start


EDGES = [0, 499, 500, 501, 500 + ROWS_AT_ONCE, 501 + ROWS_AT_ONCE, N - 1]


@pytest.mark.parametrize(
    "rows",
    [
        np.arange(N),
        np.arange(N)[::-1],
        np.random.default_rng(0).permutation(N),
        np.random.default_rng(1).permutation(N)[:50],
        np.array(EDGES),
        np.array(EDGES[::-1]),
        np.array([N - 1]),
        np.array([501]),
        np.array([], dtype=np.int64),
    ],
    ids=["all", "backwards", "shuffled", "some", "edges", "edges back", "last", "second", "none"],
)
def test_rows_taken_come_in_the_order_asked_for_with_their_names(
    stored: ChunkTexts, rows: np.ndarray
) -> None:
    texts, names = stored.take(rows)
    assert texts == [TEXTS[row] for row in rows]
    assert names == [NAMES[row] for row in rows]
    assert GivenTexts(TEXTS, NAMES).take(rows) == (texts, names)


def test_texts_without_names_are_called_by_their_beginnings() -> None:
    given = GivenTexts(["a", "b" * 100])
    assert given.take(np.array([1, 0])) == (["b" * 100, "a"], [repr("b" * 80), "'a'"])


def test_nothing_stored_is_no_text(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path), scratch=tmp_path).prepare()
    empty = ChunkTexts(store, put_chunks(store, []))
    assert (len(empty), list(empty)) == (0, [])
