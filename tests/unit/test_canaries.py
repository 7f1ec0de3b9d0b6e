"""Canary texts: whether a model that changed under its name is seen, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from flows.canary_moves import CanaryMove, find_canary_move
from flows.explaining import explain
from schemas.home import Home
from tasks.artifacts import ArtifactStore
from tasks.canaries import CANARIES, cosine_distances
from tests.data.sample_runs import digest
from tests.data.stored_runs import frames_of, run_id, store
from warehouse.rows import StageRow, stages_frame

VECTORS = np.eye(len(CANARIES), 8, dtype=np.float32)
MODEL = [{"role": "embedding", "name": "m", "endpoint": "http://127.0.0.1/v1"}]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def turned(angle: float) -> np.ndarray[Any, Any]:
    """The first text's vector, turned: its cosine distance is 1 - cos(angle)."""
    vectors = VECTORS.copy()
    vectors[0, :2] = np.cos(angle), np.sin(angle)
    return vectors


def two_nights(
    home: Home, now: Any, then: Any = VECTORS, *, texts: str = "t", **changes: Any
) -> duckdb.DuckDBPyConnection:
    kept = ArtifactStore(str(home.artifacts), scratch=home.path)
    frames = []
    for number, vectors, known in ((1, then, "t"), (2, now, texts)):
        more = {"models": MODEL, **(changes if number == 2 else {})}
        frames.append(frames_of(number, {"hit@1": [1.0]}, **more))
        gone = digest("pruned")
        output = gone if vectors is None else kept.put_array("canaries", vectors).digest
        stage = StageRow(
            run_id=run_id(number),
            position=1,
            stage="embed_canaries",
            cached=False,
            output_digest=output,
            figures={"texts": known, "n_texts": len(CANARIES)},
        )
        frames[-1]["stages"] = stages_frame([stage])
    return store(*frames)


def move_of(connection: duckdb.DuckDBPyConnection, home: Home) -> CanaryMove | None:
    return find_canary_move(connection, run_id(2), run_id(1), home)


def test_a_distance_is_one_minus_the_cosine_whatever_the_lengths() -> None:
    found = cosine_distances(3 * turned(0.1), VECTORS)
    assert found is not None
    np.testing.assert_allclose(found, [1 - np.cos(0.1), 0, 0, 0, 0, 0], atol=1e-7)
    assert cosine_distances(VECTORS, VECTORS[:, :4]) is None


def test_a_model_that_changed_under_its_name_is_said_first(home: Home) -> None:
    connection = two_nights(home, turned(0.1))
    why = explain(connection, run_id(2), run_id(1), home)
    assert why.lines[0].startswith(
        "the embedding model m changed under its name: canary texts moved by 0.005 (cosine"
    )
    assert why.alarms == why.lines[:1]
    assert not [line for line in why.lines if "embed_canaries" in line]


def test_rounding_is_no_change(home: Home) -> None:
    assert move_of(two_nights(home, turned(0.004)), home) is None  # distance 8e-6
    assert move_of(two_nights(home, turned(0.005)), home) is not None  # 1.25e-5


def test_another_dimension_is_a_change(home: Home) -> None:
    move = move_of(two_nights(home, np.ones((len(CANARIES), 4), dtype=np.float32)), home)
    assert "now have another dimension" in str(move)


@pytest.mark.parametrize(
    "changes",
    [
        {"models": [{**MODEL[0], "name": "n"}]},
        {"config": {"embedding": {"normalize": False}}},
        {"texts": "of another version"},
    ],
)
def test_what_was_changed_on_purpose_is_no_alarm(home: Home, changes: dict[str, Any]) -> None:
    assert move_of(two_nights(home, turned(0.5), **changes), home) is None


def test_vectors_that_are_gone_are_said_to_be_gone(home: Home) -> None:
    why = explain(two_nights(home, VECTORS, None), run_id(2), run_id(1), home)
    assert why.lines[0].startswith("canary texts: not known whether they moved: artifact canaries/")
    assert why.alarms == []
