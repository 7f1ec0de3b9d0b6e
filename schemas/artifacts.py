"""References to what stages make: tasks pass these, never frames or matrices."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue


class Artifact(BaseModel):
    """A stored file, named by the sha256 of its content."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str  # what it holds: documents, chunks, vectors, index, rankings, …
    suffix: str  # .parquet, .npy, .faiss
    digest: str  # sha256 of the bytes, hexadecimal
    size: int  # bytes
    n_items: int

    @property
    def name(self) -> str:
        """The path below the store's root."""
        return f"{self.kind}/{self.digest[:2]}/{self.digest}{self.suffix}"


class StageOutput(BaseModel):
    """What one stage made; Prefect's record of a task holds this and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    artifacts: dict[str, Artifact]
    figures: dict[str, JsonValue] = {}  # sizes, latencies, counts; never part of a key
    seconds: float = 0.0  # wall time of the run that made it
    peak_memory: int = 0  # bytes, of the whole process, at the stage's end
    is_reusable: bool = True  # False: it holds failed values; stored, never reused
