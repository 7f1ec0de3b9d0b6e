"""Where a run's code came from, what it ran on, and how Prefect shows it."""

from __future__ import annotations

import functools
import os
import platform
import socket
import subprocess
from pathlib import Path

from schemas.experiment import Experiment
from tasks.fingerprints import library_versions

DECIDING_LIBRARIES = (
    "duckdb",
    "faiss-cpu",
    "numpy",
    "pandera",
    "polars",
    "prefect",
    "semantic-text-splitter",
    "sentence-transformers",
    "sentencex",
    "tokenizers",
    "torch",
    "trafilatura",
    "transformers",
)


@functools.cache
def git_state(folder: Path | None = None) -> tuple[str | None, bool | None]:
    """The commit that the code stands at and whether it differs; (None, None) outside of git."""
    where = folder or Path(__file__).resolve().parent
    commit = _git(where, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    changes = _git(where, "status", "--porcelain", "--untracked-files=no")
    return commit, bool(changes)


def versions() -> dict[str, str]:
    """The versions of the libraries that decide results."""
    return library_versions(DECIDING_LIBRARIES)


def machine() -> dict[str, str | int]:
    """The machine: names and sizes that explain a latency."""
    import psutil

    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processor": platform.machine(),
        "n_cores": os.cpu_count() or 0,
        "memory_bytes": psutil.virtual_memory().total,
    }


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        result = subprocess.run(  # noqa: S603 - fixed words
            ["git", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def tags_of(experiment: Experiment) -> list[str]:
    """How a run is found in Prefect: experiment, retrieval method and, if any, models."""
    retrieval = experiment.retrieval
    models = [experiment.embedding.model] if retrieval.needs_vectors else []
    if retrieval.rerank is not None:
        models.append(retrieval.rerank.model)
    return [experiment.name, retrieval.elsewhere or retrieval.method, *models]
