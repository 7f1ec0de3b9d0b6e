"""The one order: score descending, then id descending; what was not returned comes last."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.ordering import in_order


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
