"""The records of finished stages as files: what is stored, what is still usable, what may go."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from schemas.artifacts import StageOutput


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One finished stage, as Prefect keeps it."""

    key: str
    path: Path
    used_at: datetime
    output: StageOutput | None  # None: the file cannot be read


def read_records(folder: Path) -> Iterator[StageRecord]:
    """The records in a folder of Prefect results, by key."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_file() and "-" in path.name and not path.name.startswith("."):
            used_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            yield StageRecord(path.name, path, used_at, _output(path))


def touch_record(folder: Path, key: str) -> None:
    """Note that a record was used just now."""
    path = folder / key
    if path.exists():
        os.utime(path)


def _output(path: Path) -> StageOutput | None:
    """Parse a record; Prefect wraps the result as JSON text inside a JSON object."""
    try:
        return StageOutput.model_validate(json.loads(json.loads(path.read_bytes())["result"]))
    except (ValueError, KeyError, TypeError, ValidationError):
        return None
