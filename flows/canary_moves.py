"""Whether an embedding model is still the one that bears its name: canary texts of two runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schemas.artifacts import Artifact
from schemas.errors import RankhouseError
from schemas.home import Home

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TOLERANCE = 1e-5
"""Cosine distance: far above what rounding and another batch do, far below another model."""


@dataclass(frozen=True, slots=True)
class CanaryMove:
    """A model whose vectors of the same texts are others than before."""

    model: str
    distance: float | None = None  # the largest cosine distance of a text; None: not known
    unknown_because: str | None = None

    def __str__(self) -> str:
        if self.unknown_because is not None:
            return f"canary texts: not known whether they moved: {self.unknown_because}"
        by = (
            "now have another dimension"
            if self.distance is None
            else f"moved by {self.distance:.2g}"
        )
        return (
            f"the embedding model {self.model} changed under its name: canary texts {by} (cosine "
            f"distance, at most {TOLERANCE:.0e} is expected); stored vectors are still the old ones"
        )


def find_canary_move(
    connection: DuckDBPyConnection, run_id: str, baseline_id: str, home: Home
) -> CanaryMove | None:
    """Compare the canary texts of two runs of one model.

    None: they did not move, a run has none, or the runs do not use one model under one name with
    the same settings.
    """
    ours, theirs = (_read(connection, name) for name in (run_id, baseline_id))
    if ours is None or theirs is None or ours["output"] == theirs["output"]:
        return None
    if any(ours[name] != theirs[name] for name in ("embedding", "models", "texts")):
        return None
    name = ours["models"]["name"]
    try:
        now, then = (_vectors(run, home) for run in (ours, theirs))
    except (RankhouseError, OSError) as error:  # pruned, or the store is away
        return CanaryMove(name, unknown_because=str(error))
    from tasks.canaries import cosine_distances

    distances = cosine_distances(now, then)
    if distances is None:
        return CanaryMove(name)
    largest = float(distances.max())
    return CanaryMove(name, largest) if largest > TOLERANCE else None


def _read(connection: DuckDBPyConnection, run_id: str) -> dict[str, Any] | None:
    row = connection.execute(
        "SELECT stage.output_digest, stage.figures, run.config, run.models FROM stages AS stage "
        "JOIN runs AS run ON run.run_id = stage.run_id "
        "WHERE run.run_id = ? AND stage.stage = 'embed_canaries'",
        [run_id],
    ).fetchone()
    if row is None:
        return None
    figures, config, models = (json.loads(value or "{}") for value in row[1:])
    return {
        "output": row[0],
        "texts": figures.get("texts"),
        "n_texts": figures.get("n_texts", 0),
        "embedding": config.get("embedding"),
        "models": next((model for model in models if model["role"] == "embedding"), {}),
        "store": config.get("execution", {}).get("store"),
    }


def _vectors(run: dict[str, Any], home: Home) -> Any:
    from tasks.artifacts import ArtifactStore

    store = ArtifactStore(run["store"] or str(home.artifacts), scratch=home.path / "downloads")
    bare = Artifact(
        kind="canaries", suffix=".npy", digest=run["output"], size=0, n_items=run["n_texts"]
    )
    return store.array(bare.model_copy(update={"size": store.size_of(bare.name) or 0}))
