"""Starts that never ended become events; what they leave is cleared once they are surely dead."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.liveness import Process
from warehouse.parts import READY
from warehouse.spool import STARTED, Start

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

STALE_AFTER = timedelta(minutes=10)
FORGET_AFTER = timedelta(days=7)  # a start of another machine that never came back


@dataclass(frozen=True, slots=True)
class FoundStart:
    """A start in the spool without results."""

    folder: Path
    start: Start | None  # None: started.json cannot be read
    renewed_at: datetime

    @property
    def age(self) -> timedelta:
        """Since the last sign of life."""
        return datetime.now(UTC) - self.renewed_at

    @property
    def is_gone(self) -> bool:
        """Whether its process has certainly ended, or it said so itself."""
        return self.start is not None and (
            self.start.error is not None or self.start.process.is_gone()
        )

    @property
    def is_crashed(self) -> bool:
        """Whether it counts as crashed; should it land after all, the run wins."""
        return self.is_gone or self.age > STALE_AFTER


def find_starts(spool: Path) -> list[FoundStart]:
    """Every start without results, oldest id first."""
    starts = []
    with suppress(FileNotFoundError):
        for folder in sorted(spool.iterdir()):
            if (folder / STARTED).is_file() and not (folder / READY).exists():
                with suppress(FileNotFoundError):
                    starts.append(_read_start(folder))
    return starts


def record_crashes(connection: DuckDBPyConnection, spool: Path) -> list[str]:
    """Store an event ``crashed`` for each dead start, once.

    Returns:
        The run ids whose event is new.
    """
    recorded = []
    for found in find_starts(spool):
        if not found.is_crashed:
            continue
        run_id = found.folder.name
        if not _has_run(connection, run_id) and _insert_event(connection, run_id, found):
            recorded.append(run_id)
        # A process on another machine may only be slow; its folder waits for it.
        if found.is_gone or found.age > FORGET_AFTER:
            shutil.rmtree(found.folder, ignore_errors=True)
    return recorded


def _read_start(folder: Path) -> FoundStart:
    path = folder / STARTED
    modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    try:
        value = json.loads(path.read_text("utf-8"))
        start = Start(
            run_id=str(value["run_id"]),
            experiment=str(value["experiment"]),
            stage=str(value["stage"]),
            started_at=str(value["started_at"]),
            renewed_at=str(value["renewed_at"]),
            process=Process.from_json(value["process"]),
            error=value.get("error"),
        )
        renewed_at = datetime.fromisoformat(start.renewed_at).astimezone(UTC)
    except (ValueError, KeyError, TypeError):
        return FoundStart(folder, None, modified)
    return FoundStart(folder, start, renewed_at)


def _has_run(connection: DuckDBPyConnection, run_id: str) -> bool:
    row = connection.execute("SELECT 1 FROM runs WHERE run_id = ?", [run_id]).fetchone()
    return row is not None


def _insert_event(connection: DuckDBPyConnection, run_id: str, found: FoundStart) -> bool:
    event_id = f"crashed/{run_id}"
    known = connection.execute("SELECT 1 FROM events WHERE event_id = ?", [event_id]).fetchone()
    if known is not None:
        return False
    start = found.start
    stage = start.stage if start else None
    details = {
        "experiment": start.experiment if start else None,
        "started_at": start.started_at if start else None,
        "pid": start.process.pid if start else None,
        "error": start.error if start else None,
    }
    connection.execute(
        "INSERT INTO events (event_id, run_id, kind, occurred_at, stage, host, message, details) "
        "VALUES (?, ?, 'crashed', ?, ?, ?, ?, ?)",
        [
            event_id,
            run_id,
            found.renewed_at,
            stage,
            start.process.host if start else None,
            _message(found),
            json.dumps(details, ensure_ascii=False),
        ],
    )
    return True


def _message(found: FoundStart) -> str:
    if found.start is None:
        return f"{STARTED} cannot be read"
    stage = found.start.stage
    if found.start.error is not None:
        return f"ended in stage {stage}: {found.start.error}"
    if found.is_gone:
        return f"its process ended in stage {stage} without results"
    return f"no sign of life from stage {stage} for more than {STALE_AFTER.seconds // 60} minutes"
