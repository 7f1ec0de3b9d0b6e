"""What on-call would otherwise miss: runs that did not come, parts that wait, disks that fill."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.counting import counted
from schemas.errors import StorageError
from schemas.home import Home
from warehouse.crashes import find_starts
from warehouse.incidents import find_untold
from warehouse.inspecting import fault_of_copy, fault_of_warehouse
from warehouse.parts import READY
from warehouse.publish import is_published
from warehouse.spool import REFUSED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ROOM = 3  # a disk should hold this many more copies of the warehouse
LEAST_ROOM = 1 << 30  # bytes

LAST_GOOD = """
SELECT kind, name, max(good_at), max_by(good_run, good_at), max_by(status, started_at)
FROM (
    SELECT 'experiment' AS kind, experiment AS name, status, started_at,
        CASE WHEN status <> 'failed' THEN ended_at END AS good_at, run_id AS good_run
    FROM runs
    UNION ALL
    SELECT 'suite', suite, status, started_at,
        CASE WHEN status <> 'failed' THEN ended_at END, run_id
    FROM runs WHERE suite IS NOT NULL
)
GROUP BY kind, name
ORDER BY kind DESC, name
"""
LAST_CRASH = """
SELECT experiment, max(occurred_at), max_by(stage, occurred_at)
FROM (
    SELECT details ->> '$.experiment' AS experiment, occurred_at, stage, run_id
    FROM events
    WHERE kind = 'crashed' AND run_id NOT IN (SELECT run_id FROM runs)
) AS crash
WHERE NOT EXISTS (
    SELECT 1 FROM runs
    WHERE status <> 'failed' AND runs.run_id > crash.run_id
        AND runs.experiment = coalesce(crash.experiment, runs.experiment)
)
GROUP BY experiment
ORDER BY experiment
"""  # of the crashes that no good run of the experiment has followed


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the status; everything but ``ok`` is something to look at."""

    what: str  # suite, experiment, spool, warehouse, published, notification, disk
    name: str
    state: str  # ok, stale, crashed, failed, refused, behind, missing, unusable, damaged, held, low
    detail: str
    run_id: str | None = None  # the last good one

    @property
    def is_ok(self) -> bool:
        """Whether nobody has to look."""
        return self.state == "ok"


def find_health(
    home: Home,
    *,
    max_age: timedelta,
    experiments: tuple[str, ...] = (),
    suites: tuple[str, ...] = (),
) -> list[Finding]:
    """Look at runs, spool, copies and disk.

    Args:
        home: the home folder.
        max_age: a last good run, a waiting part or a copy that is behind may be this old.
        experiments: only these, when given; one without runs is stale.
        suites: likewise.
    """
    now = datetime.now(UTC)
    return [
        *_runs(home, now, max_age, experiments, suites),
        *_spool(home, now, max_age),
        *_files(home, now, max_age),
        *_disk(home),
    ]


def _runs(
    home: Home,
    now: datetime,
    max_age: timedelta,
    experiments: tuple[str, ...],
    suites: tuple[str, ...],
) -> Iterator[Finding]:
    faults, rows, crashes = _read_copy(home, now)
    yield from faults
    asked = {"experiment": experiments, "suite": suites}
    known: set[tuple[str, str]] = set()
    is_filtered = bool(experiments or suites)
    for kind, name, *last in rows:
        known.add((kind, name))
        crash = crashes.pop(name, None) if kind == "experiment" else None
        if not is_filtered or name in asked[kind]:
            yield _last_run(kind, name, last, crash, now, max_age)
    for crashed, (at, stage) in crashes.items():  # experiments without any run
        known.add(("experiment", crashed))
        if not is_filtered or crashed in experiments:
            detail = f"no good run; one crashed in stage {stage or 'unknown'} {_ago(now - at)} ago"
            yield Finding("experiment", crashed, "crashed", detail)
    for kind, names in asked.items():
        for name in names:
            if (kind, name) not in known:
                yield Finding(kind, name, "stale", "no runs yet")


def _read_copy(
    home: Home, now: datetime
) -> tuple[list[Finding], list[Any], dict[str, tuple[datetime, str | None]]]:
    """What is to be said of the copy itself, its last good runs, and its open crashes."""
    from warehouse.reading import open_published

    name = home.published.name
    if not home.published.exists():
        return [Finding("published", name, "missing", "no runs yet")], [], {}
    fault = fault_of_copy(home)
    if fault is not None:
        return [Finding("published", name, "damaged", fault)], [], {}
    try:
        with open_published(home) as connection:
            rows = connection.execute(LAST_GOOD).fetchall()
            found = connection.execute(LAST_CRASH).fetchall()
            findings = [*_last_load(connection, now), *_untold(connection, now)]
    except StorageError as error:
        return [Finding("published", name, "held", str(error))], [], {}
    return findings, rows, {crashed or "unknown": (at, stage) for crashed, at, stage in found}


def _last_run(
    kind: str,
    name: str,
    last: list[Any],
    crash: tuple[datetime, str | None] | None,
    now: datetime,
    max_age: timedelta,
) -> Finding:
    good_at, run_id, newest_status = last
    if good_at is None:
        return Finding(kind, name, "stale", f"no good run; the last one {newest_status}")
    detail, state = f"last good run {_ago(now - good_at)} ago", "ok"
    if now - good_at > max_age:
        state, detail = "stale", f"{detail}; at most {_ago(max_age)} is expected"
    elif crash is not None:
        crashed_at, stage = crash
        when = f"{_ago(now - crashed_at)} ago"
        state = "crashed"
        detail = f"{detail}; a later one crashed in stage {stage or 'unknown'} {when}"
    elif newest_status == "failed":
        state, detail = "failed", f"{detail}; a later one failed"
    return Finding(kind, name, state, detail, run_id)


def _last_load(connection: DuckDBPyConnection, now: datetime) -> Iterator[Finding]:
    row = connection.execute("SELECT max(loaded_at), count(*) FROM runs").fetchone()
    if row is not None and row[0] is not None:
        detail = f"last load {_ago(now - row[0])} ago, {counted(row[1], 'run')}"
        yield Finding("warehouse", "last load", "ok", detail)


def _untold(connection: DuckDBPyConnection, now: datetime) -> Iterator[Finding]:
    for suite, experiment, at, message in find_untold(connection):
        detail = f"nobody was reached {_ago(now - at)} ago: {message}"
        yield Finding("notification", f"{suite}, {experiment}", "failed", detail)


def _spool(home: Home, now: datetime, max_age: timedelta) -> Iterator[Finding]:
    for found in find_starts(home.spool):
        stage = found.start.stage if found.start else "unknown"
        name = found.start.experiment if found.start else found.folder.name
        state = "crashed" if found.is_crashed else "ok"
        verb = "ended" if found.is_crashed else "running"
        detail = f"{verb} in stage {stage}, last sign of life {_ago(found.age)} ago"
        yield Finding("spool", name, state, detail)
    for ready in sorted(home.spool.glob(f"*/{READY}")):
        with suppress(FileNotFoundError):
            age = now - datetime.fromtimestamp(ready.stat().st_mtime, UTC)
            state = "stale" if age > max_age else "ok"
            yield Finding("spool", ready.parent.name, state, f"waits to be loaded, {_ago(age)}")
    for folder in sorted(home.spool.glob(f"{REFUSED}/*")):
        yield Finding("spool", folder.name, "refused", _reason(folder))


def _files(home: Home, now: datetime, max_age: timedelta) -> Iterator[Finding]:
    fault = fault_of_warehouse(home)
    if fault is not None:
        yield Finding("warehouse", home.warehouse.name, *fault)
    for path in (home.warehouse, home.published):
        if path == home.warehouse and fault is not None:
            continue
        with suppress(FileNotFoundError):
            detail = f"{path.stat().st_size / 2**20:,.1f} MB"
            yield Finding("file", path.name, "ok", detail)
    with suppress(FileNotFoundError):
        if not is_published(home):
            age = now - datetime.fromtimestamp(home.published.stat().st_ctime, UTC)
            state = "behind" if age > max_age else "ok"
            detail = f"does not show the last load; refreshed {_ago(age)} ago"
            yield Finding("published", home.published.name, state, detail)


def _disk(home: Home) -> Iterator[Finding]:
    try:
        room = shutil.disk_usage(home.path).free
        size = home.warehouse.stat().st_size if home.warehouse.exists() else 0
    except OSError as error:
        detail = f"{error.strerror}: {home.path}"
        yield Finding("disk", home.path.name, "missing", detail)
        return
    needed = max(LEAST_ROOM, ROOM * size)
    is_low = room < needed
    expected = f", {needed / 2**30:,.1f} GB are expected" if is_low else ""
    detail = f"{room / 2**30:,.1f} GB free{expected}; {home.path}"
    yield Finding("disk", home.path.name, "low" if is_low else "ok", detail)


def _reason(folder: Path) -> str:
    try:
        reasons = json.loads((folder / "reasons.json").read_text("utf-8"))["reasons"]
        first = reasons[0]
        return f"{first.get('table', 'part')}: {first['rule']} ({len(reasons)} in all)"
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return "no reasons are kept"


def _ago(age: timedelta) -> str:
    """A time span in its largest two units."""
    seconds = max(0, int(age.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"
    if hours:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{minutes} min"
