"""Keeping less: old attempts, events, refused parts and artifacts that nothing kept needs."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from flows.prefect_settings import records_folder
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
    records: Path | None = None  # of finished stages; None: where commands find them


def kept_of(suite: Suite, records: Path | None = None) -> Kept:
    """What a suite's nights need."""
    rules = [entry.baseline for entry in suite.entries]
    stores = {entry.experiment.execution.store for entry in suite.entries}
    return Kept(
        suite=suite.name,
        runs=tuple(rule.run for rule in rules if rule.run is not None),
        nights=max(DEFAULT_NIGHTS, *(rule.n_nights for rule in rules)),
        stores=tuple(sorted(store for store in stores if store is not None)),
        records=records,
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
    work = _Pruning(home, retention, kept, dry_run)
    if not home.warehouse.exists():
        work.done.notes.append(f"{home.warehouse}: there is no warehouse yet: nothing is pruned")
        return work.done
    needed = work.prune_warehouse()
    work.prune_spool()
    if retention.artifacts != KeepFiles():
        for url in dict.fromkeys((str(home.artifacts), *kept.stores)):
            work.prune_store(url, needed)
    return work.done


def prune_after_night(suite: Suite, home: Home) -> None:
    """Prune as the suite says; what goes wrong is logged, for the night is measured already."""
    import duckdb
    from prefect.settings import get_current_settings

    if not suite.retention.has_limits:
        return
    records = get_current_settings().results.local_storage_path  # a worker may have its own
    try:
        done = prune(home, suite.retention, kept_of(suite, records))
    except (RankhouseError, OSError, duckdb.Error) as error:
        logger.warning("not pruned: %s", error)
        return
    for note in done.notes:
        logger.warning("%s", note)


@dataclass(slots=True)
class _Pruning:
    """One pruning while it goes on."""

    home: Home
    retention: Retention
    kept: Kept
    is_dry: bool
    done: Pruned = field(default_factory=Pruned)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def prune_warehouse(self) -> Needed:
        """Old attempts and events; what the runs that stay need."""
        from warehouse.connect import open_to_read, open_warehouse
        from warehouse.load import load_parts
        from warehouse.publish import publish
        from warehouse.retaining import remove_attempts, remove_old_events

        if self.is_dry:
            with open_to_read(self.home.warehouse) as connection:
                return self._look(connection)[1]
        load_parts(self.home)  # a run that waits may need what nobody else does
        with open_warehouse(self.home.warehouse) as warehouse:
            attempts, needed = self._look(warehouse.connection)
            if self.done.gone:
                remove_attempts(warehouse.connection, attempts)
                if self.retention.events.days is not None:
                    before = self._since(self.retention.events)
                    remove_old_events(warehouse.connection, before=before)
                publish(warehouse, self.home)
        return needed

    def _look(self, connection: DuckDBPyConnection) -> tuple[list[OldAttempt], Needed]:
        from warehouse.retaining import count_old_events, find_needed, find_old_attempts

        pinned, attempts = list(_resolve(connection, self.kept.runs)), []
        if self.retention.attempts.days is not None:
            attempts = find_old_attempts(
                connection,
                before=self._since(self.retention.attempts),
                suite=self.kept.suite,
                pinned=pinned,
            )
        for attempt in attempts:
            what = f"{attempt.run_id} ({attempt.experiment}, {attempt.logical_date})"
            because = f"run {attempt.superseded_by} counts for that night"
            self.done.gone.append(Gone("attempt", what, 1, None, None, because))
        if self.retention.events.days is not None:
            counts = count_old_events(connection, before=self._since(self.retention.events))
            for kind, count in counts.items():
                self.done.gone.append(Gone("event", kind, count, None, None, "age"))
        removed = {attempt.run_id for attempt in attempts}
        return attempts, find_needed(
            connection, nights=self.kept.nights, without=removed, pinned=pinned
        )

    def prune_spool(self) -> None:
        """Refused parts only: whatever else is in the spool is still needed."""
        from warehouse.spool import REFUSED

        keep = self.retention.spool
        folders = _folders(self.home.spool / REFUSED)
        parts = sorted((_modified(folder), _size(folder), folder) for folder in folders)
        left = sum(size for _, size, _ in parts)
        for modified, size, folder in parts:
            is_old = keep.days is not None and modified < self._since(keep)
            is_beyond = keep.gigabytes is not None and left > keep.gigabytes * 1e9
            if not (is_old or is_beyond):
                continue
            left -= size
            because = "age" if is_old else "size"
            self.done.gone.append(Gone("refused part", folder.name, 1, size, modified, because))
            if not self.is_dry:
                shutil.rmtree(folder)

    def prune_store(self, url: str, needed: Needed) -> None:
        """Artifacts of one store, and the records of stages that made them."""
        from tasks.artifacts import ArtifactStore
        from tasks.pruning import find_holders, plan_pruning
        from tasks.stage_records import read_records

        keep = self.retention.artifacts
        store = ArtifactStore(url, scratch=self.home.path / "downloads")
        stored = dict(store.names())
        records = read_records(self.kept.records or records_folder(self.home))
        plan = plan_pruning(
            find_holders(records, store, stored),
            stored,
            unused_since=None if keep.days is None else self._since(keep),
            max_bytes=None if keep.gigabytes is None else int(keep.gigabytes * 1e9),
            before=min(self.now - GRACE, _oldest_start(self.home, self.now)),
            stage_keys=needed.stage_keys,
            digests=needed.digests,
        )
        if not self.is_dry:
            plan.carry_out(store)
        self.done.gone += [
            Gone("artifact", item.name, 1, item.n_bytes, item.used_at, item.because)
            for item in plan.artifacts
        ]
        self.done.notes += list(_beyond(url, keep, plan))

    def _since(self, keep: Keep) -> datetime:
        return self.now - timedelta(days=keep.days or 0)


def _resolve(connection: DuckDBPyConnection, names: Iterable[str]) -> Iterator[str]:
    """Whole ids; what names no run is left to the night, which is refused for it."""
    from schemas.errors import UsageError
    from warehouse.finding import resolve_run

    for name in names:
        with suppress(UsageError):
            yield resolve_run(connection, name)


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


def _folders(folder: Path) -> Collection[Path]:
    with suppress(FileNotFoundError):
        return [entry for entry in folder.iterdir() if entry.is_dir()]
    return []


def _modified(folder: Path) -> datetime:
    newest = max(entry.stat().st_mtime for entry in (folder, *folder.rglob("*")))
    return datetime.fromtimestamp(newest, UTC)


def _size(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())
