"""The loader: takes every ready part into the warehouse, one transaction each, then publishes."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import StorageError
from schemas.home import Home
from warehouse.connect import (
    LOCK_PATIENCE,
    OpenWarehouse,
    open_warehouse,
)
from warehouse.crashes import record_crashes
from warehouse.faults import WarehouseLockedError
from warehouse.files import is_full
from warehouse.insert import insert_part
from warehouse.migrate import schema_version
from warehouse.parts import READY, Part, PartRefusedError, read_part, write_json
from warehouse.publish import is_published, publish
from warehouse.refusing import free_name
from warehouse.requests import has_requests, make_comparisons
from warehouse.spool import REFUSED
from warehouse.sweeping import TRASH, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warehouse.comparisons import Comparison


@dataclass(slots=True)
class LoadReport:
    """What a load did; ``is_locked`` or ``problem``: what is left waits for the next one."""

    loaded: list[str] = field(default_factory=list)  # run ids, or ids of parts of events
    crashed: list[str] = field(default_factory=list)  # run ids of starts found dead
    refused: list[str] = field(default_factory=list)  # "<run_id>: reason"
    compared: list[Comparison] = field(default_factory=list)  # that nights had asked for
    waiting: list[str] = field(default_factory=list)  # still in the spool
    is_locked: bool = False
    holder: str | None = None  # who has the file, when known
    problem: str | None = None  # the disk is full, say
    is_published: bool = False  # the read-only copy shows everything that is loaded

    def has_landed(self, run_id: str) -> bool:
        """Whether a finished run is in the warehouse, whoever loaded it."""
        is_refused = any(reason.startswith(f"{run_id}:") for reason in self.refused)
        return run_id not in self.waiting and not is_refused


def load_parts(
    home: Home, *, patience: float = LOCK_PATIENCE, is_copy_damaged: bool = False
) -> LoadReport:
    """Take every ready part; a file that is locked or a full disk leaves them where they are.

    Args:
        home: whose spool and warehouse.
        patience: seconds to wait for the lock.
        is_copy_damaged: make the published copy anew, whatever its time says.

    Raises:
        StorageError: the warehouse is not DuckDB, damaged, newer than this version, or missing
            while there is a published copy of it.
    """
    report = LoadReport()
    if not is_copy_damaged and not _has_work(home):
        report.is_published = True
        return report
    try:
        with open_warehouse(home.warehouse, patience=patience) as warehouse:
            _load_into(warehouse, home, report, is_copy_damaged)
    except WarehouseLockedError as error:
        report.is_locked, report.holder = True, error.holder
    report.waiting = [ready.parent.name for ready in _ready_parts(home.spool)]
    return report


def _load_into(
    warehouse: OpenWarehouse, home: Home, report: LoadReport, is_copy_damaged: bool
) -> None:
    import duckdb

    try:
        sweep(home)
        for ready in _until_none_is_left(home.spool):
            _take(warehouse, ready, report)
        report.crashed = record_crashes(warehouse.connection, home.spool)
        _compare(warehouse, home, report)
        report.is_published = publish(warehouse, home, is_damaged=is_copy_damaged)
    except (duckdb.Error, OSError, StorageError) as error:
        report.problem = (
            f"{home.path}: no space is left on its disk" if is_full(error) else str(error)
        )


def _compare(warehouse: OpenWarehouse, home: Home, report: LoadReport) -> None:
    """Make the comparisons that nights wait for; what goes wrong with one keeps no run out."""
    import duckdb

    if not has_requests(home):
        return
    try:
        report.compared.extend(make_comparisons(warehouse.connection, home))
    except (duckdb.Error, OSError):
        raise
    except Exception as error:
        report.problem = f"a comparison could not be made: {type(error).__name__}: {error}"


def retry_refused(home: Home) -> list[str]:
    """Put refused parts back for the next load, after an upgrade; the ids that went back."""
    returned = []
    with suppress(FileNotFoundError):
        for folder in sorted((home.spool / REFUSED).iterdir()):
            target = home.spool / folder.name.partition(".")[0]
            if (folder / READY).is_dir() and not target.exists():
                (folder / "reasons.json").unlink(missing_ok=True)
                folder.rename(target)
                returned.append(target.name)
    return returned


def _has_work(home: Home) -> bool:
    """Whether there is a part, a start, a copy to bring up to date, or a warehouse to miss."""
    with suppress(FileNotFoundError):
        if any(entry.name != REFUSED for entry in home.spool.iterdir()):
            return True
    if has_requests(home):
        return True
    is_lost = home.published.exists() and not home.warehouse.exists()
    return is_lost or not is_published(home)


def _ready_parts(spool: Path) -> list[Path]:
    """In order of their ids, so that attempts count up in the order of the runs."""
    with suppress(FileNotFoundError):
        return sorted(
            entry / READY
            for entry in spool.iterdir()
            if not entry.name.startswith(".") and (entry / READY).is_dir()
        )
    return []


def _until_none_is_left(spool: Path) -> Iterator[Path]:
    """Also those that land meanwhile, whose own loader found the file locked; each once."""
    seen: set[Path] = set()
    while found := [ready for ready in _ready_parts(spool) if ready not in seen]:
        for ready in found:
            seen.add(ready)
            yield ready


def _take(warehouse: OpenWarehouse, ready: Path, report: LoadReport) -> None:
    part_id = ready.parent.name
    try:
        part = read_part(ready)
        _check_version(part)
        if insert_part(warehouse.connection, part):
            report.loaded.append(part_id)
    except PartRefusedError as error:
        _refuse(ready.parent, str(error))
        report.refused.append(f"{part_id}: {error}")
    else:
        _remove(ready.parent)


def _check_version(part: Part) -> None:
    known = schema_version()
    if part.schema_version > known:
        raise PartRefusedError(
            f"written for version {part.schema_version} of the tables, and this Rankhouse knows "
            f"{known}: upgrade it, then: rankhouse warehouse load --refused"
        )


def _refuse(folder: Path, reason: str) -> None:
    target = free_name(folder.parent / REFUSED / folder.name)
    target.parent.mkdir(exist_ok=True)
    folder.rename(target)
    write_json(target / "reasons.json", {"run_id": folder.name, "reasons": [{"rule": reason}]})


def _remove(folder: Path) -> None:
    """Away in one step: half a part must never look like one."""
    trash = folder.with_name(f"{TRASH}{folder.name}")
    if trash.exists():
        shutil.rmtree(trash, ignore_errors=True)
    folder.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)
