"""Keeping less: old attempts, events, refused parts and artifacts that nothing kept needs."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import RankhouseError
from schemas.home import Home
from schemas.suites import DEFAULT_NIGHTS, Keep, KeepFiles, Retention, Suite

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from tasks.pruning import PruningPlan
    from warehouse.retaining import Needed, OldAttempt

logger = logging.getLogger("rankhouse")

GRACE = timedelta(hours=1)
"""What a run under way has just made is named by no record yet."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept beyond what the warehouse says by itself."""

    suite: str | None = None  # only its attempts go; None: those of all
    runs: tuple[str, ...] = ()  # as a suite's file names them, such as a pinned baseline
    nights: int = DEFAULT_NIGHTS  # the last good runs of each experiment, kept whole
    stores: tuple[str, ...] = ()  # artifact stores beside the home's own


def kept_of(suite: Suite) -> Kept:
    """What a suite's nights need."""
    rules = [entry.baseline for entry in suite.entries]
    stores = {entry.experiment.execution.store for entry in suite.entries}
    return Kept(
        suite=suite.name,
        runs=tuple(rule.run for rule in rules if rule.run is not None),
        nights=max(DEFAULT_NIGHTS, *(rule.n_nights for rule in rules)),
        stores=tuple(sorted(store for store in stores if store is not None)),
    )


@dataclass(frozen=True, slots=True)
class Gone:
    """One thing that goes, or one kind of many small ones."""

    kind: str  # attempt, event, artifact, refused part
    what: str
    n: int
    n_bytes: int | None
    last_used: datetime | None
    because: str


@dataclass(slots=True)
class Pruned:
    """What went, or in a dry run would."""

    gone: list[Gone] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # sentences for people


def prune(home: Home, retention: Retention, kept: Kept, *, dry_run: bool = False) -> Pruned:
    """Prune a home.

    Args:
        home: whose warehouse, spool and artifacts.
        retention: how long, and how much.
        kept: what has to stay.
        dry_run: look, delete nothing.

    Raises:
        WarehouseLockedError: somebody has the warehouse open; nothing was deleted.
        StorageError: it cannot be used.
        duckdb.Error: it could not be written, on a full disk say; no run was deleted.
    """
    done = Pruned()
    now = datetime.now(UTC)
    if not home.warehouse.exists():
        done.notes.append(f"{home.warehouse}: there is no warehouse yet, so nothing is pruned")
        return done
    needed = _prune_warehouse(home, retention, kept, now, dry_run, done)
    _prune_spool(home, retention.spool, now, dry_run, done)
    if retention.artifacts != KeepFiles():
        for url in dict.fromkeys((str(home.artifacts), *kept.stores)):
            _prune_store(url, home, retention.artifacts, needed, now, dry_run, done)
    return done


def prune_after_night(suite: Suite, home: Home) -> None:
    """Prune as the suite says; what goes wrong is logged, for the night is measured already."""
    import duckdb

    if not suite.retention.has_limits:
        return
    try:
        done = prune(home, suite.retention, kept_of(suite))
    except (RankhouseError, OSError, duckdb.Error) as error:
        logger.warning("not pruned: %s", error)
        return
    for note in done.notes:
        logger.warning("%s", note)


def _prune_warehouse(
    home: Home, retention: Retention, kept: Kept, now: datetime, dry_run: bool, done: Pruned
) -> Needed:
    from warehouse.connect import open_to_read, open_warehouse
    from warehouse.load import load_parts
    from warehouse.publish import publish
    from warehouse.retaining import remove_attempts, remove_old_events

    if dry_run:
        with open_to_read(home.warehouse) as connection:
            _, needed = _look(connection, retention, kept, now, done)
            return needed
    load_parts(home)  # a run that waits may need what nobody else does
    with open_warehouse(home.warehouse) as warehouse:
        attempts, needed = _look(warehouse.connection, retention, kept, now, done)
        if not done.gone:
            return needed
        remove_attempts(warehouse.connection, attempts)
        if retention.events.days is not None:
            remove_old_events(warehouse.connection, before=_since(retention.events, now))
        publish(warehouse, home)
    return needed


def _look(
    connection: DuckDBPyConnection, retention: Retention, kept: Kept, now: datetime, done: Pruned
) -> tuple[list[OldAttempt], Needed]:
    from schemas.errors import UsageError
    from warehouse.finding import resolve_run
    from warehouse.retaining import count_old_events, find_needed, find_old_attempts

    pinned = []
    for name in kept.runs:
        with suppress(UsageError):  # the suite is refused for it when a night begins
            pinned.append(resolve_run(connection, name))
    attempts: list[OldAttempt] = []
    if retention.attempts.days is not None:
        attempts = find_old_attempts(
            connection,
            before=_since(retention.attempts, now),
            suite=kept.suite,
            pinned=pinned,
        )
    for attempt in attempts:
        night = f"{attempt.experiment}, {attempt.logical_date}"
        because = f"run {attempt.superseded_by} counts for that night"
        done.gone.append(Gone("attempt", f"{attempt.run_id} ({night})", 1, None, None, because))
    if retention.events.days is not None:
        counts = count_old_events(connection, before=_since(retention.events, now))
        for kind, count in counts.items():
            done.gone.append(Gone("event", kind, count, None, None, "age"))
    removed = {attempt.run_id for attempt in attempts}
    return attempts, find_needed(connection, nights=kept.nights, without=removed, pinned=pinned)


def _prune_spool(home: Home, keep: KeepFiles, now: datetime, dry_run: bool, done: Pruned) -> None:
    """Refused parts only: whatever else is in the spool is still needed."""
    from warehouse.spool import REFUSED

    parts = sorted(
        ((_modified(folder), _size(folder), folder) for folder in _folders(home.spool / REFUSED)),
    )
    left = sum(size for _, size, _ in parts)
    for modified, size, folder in parts:
        is_old = keep.days is not None and modified < _since(keep, now)
        is_beyond = keep.gigabytes is not None and left > keep.gigabytes * 1e9
        if not (is_old or is_beyond):
            continue
        left -= size
        because = "age" if is_old else "size"
        done.gone.append(Gone("refused part", folder.name, 1, size, modified, because))
        if not dry_run:
            shutil.rmtree(folder)


def _prune_store(
    url: str,
    home: Home,
    keep: KeepFiles,
    needed: Needed,
    now: datetime,
    dry_run: bool,
    done: Pruned,
) -> None:
    from tasks.artifacts import ArtifactStore
    from tasks.pruning import find_holders, plan_pruning
    from tasks.stage_records import read_records, records_folder

    store = ArtifactStore(url, scratch=home.path / "downloads")
    stored = dict(store.names())
    plan = plan_pruning(
        find_holders(read_records(records_folder(home)), store, stored),
        stored,
        unused_since=None if keep.days is None else _since(keep, now),
        max_bytes=None if keep.gigabytes is None else int(keep.gigabytes * 1e9),
        before=min(now - GRACE, _oldest_start(home, now)),
        stage_keys=needed.stage_keys,
        digests=needed.digests,
    )
    if not dry_run:
        plan.carry_out(store)
    done.gone += [
        Gone("artifact", item.name, 1, item.n_bytes, item.used_at, item.because)
        for item in plan.artifacts
    ]
    done.notes += list(_beyond(url, keep, plan))


def _beyond(url: str, keep: KeepFiles, plan: PruningPlan) -> Iterator[str]:
    if keep.gigabytes is not None and plan.n_bytes_left > keep.gigabytes * 1e9:
        yield (
            f"{url}: {plan.n_bytes_left / 1e9:,.3f} GB stay, beyond the limit of "
            f"{keep.gigabytes:g}: kept runs need them, or they were made within the hour"
        )


def _oldest_start(home: Home, now: datetime) -> datetime:
    """When the oldest run that is still under way began; now: none is."""
    from warehouse.crashes import find_starts

    begun = [
        datetime.fromisoformat(found.start.started_at)
        for found in find_starts(home.spool)
        if found.start is not None and not found.is_crashed
    ]
    return min([now, *begun])


def _since(keep: Keep, now: datetime) -> datetime:
    return now - timedelta(days=keep.days or 0)


def _folders(folder: Path) -> Collection[Path]:
    with suppress(FileNotFoundError):
        return [entry for entry in folder.iterdir() if entry.is_dir()]
    return []


def _modified(folder: Path) -> datetime:
    newest = max(entry.stat().st_mtime for entry in (folder, *folder.rglob("*")))
    return datetime.fromtimestamp(newest, UTC)


def _size(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
