"""The one order: score descending, then id descending; what was not returned comes last."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tasks.ordering import Items, PlacesOfIds, in_order


@pytest.mark.parametrize("n_scores", [1, 3, 10**9])
def test_equal_scores_stand_by_id_descending(n_scores: int) -> None:
    rng = np.random.default_rng(n_scores)
    places = rng.permutation(50)
    rows = np.stack([rng.choice(50, 20, replace=False) for _ in range(30)])
    scores = rng.integers(0, n_scores, rows.shape).astype(np.float64)
    rows[::2, 5:9] = -1
    scores[rows < 0] = -np.inf
    found_scores, found = in_order(scores, rows, places)
    for i in range(len(rows)):
        pairs = zip(scores[i].tolist(), rows[i].tolist(), strict=True)
        expected = sorted(
            pairs, key=lambda pair: (-pair[0], -places[pair[1]] if pair[1] >= 0 else 1)
        )
        assert list(zip(found_scores[i].tolist(), found[i].tolist(), strict=True)) == expected


HOSTILE_IDS = ["a", "a\0", "a#0-9", "a#0-10", "A", "é", "e\u0301", "\uffff", "😀", "儿童", "", " "]


def test_ids_are_compared_by_their_bytes_among_those_that_tie() -> None:
    rng = np.random.default_rng(0)
    ids = [HOSTILE_IDS[i] for i in rng.permutation(len(HOSTILE_IDS))]
    places = PlacesOfIds(pl.Series(ids))
    for n in (1, 5, 12):
        rows = rng.choice(12, (3, n))
        found = places[rows]
        names = [[ids[row].encode() for row in line] for line in rows]
        assert found.shape == rows.shape
        for line, line_names in zip(found, names, strict=True):
            by_place = [name for _, name in sorted(zip(line, line_names, strict=True))]
            assert by_place == sorted(line_names)
    _, found = in_order(np.zeros((1, 12)), rng.permutation(12)[None, :], places)
    assert [ids[row].encode() for row in found[0]] == sorted(map(str.encode, ids), reverse=True)


def test_documents_are_numbered_by_their_bytes() -> None:
    docs = [*HOSTILE_IDS[::-1], *HOSTILE_IDS]
    chunks = pl.DataFrame({"chunk_id": [f"{i}" for i in range(24)], "doc_id": docs})
    items = Items.of(chunks, are_documents=True)
    expected = sorted(map(str.encode, HOSTILE_IDS))
    assert items.of_chunk.tolist() == [expected.index(doc.encode()) for doc in docs]
    assert items.n_items == 12
    assert Items.of(chunks, are_documents=False).n_items == 24
