"""The read-only copy that everybody reads: replaced as a whole, never written in place."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.counting import counted
from schemas.errors import ConfigurationError, StorageError
from schemas.home import Home
from warehouse.faults import how_to_restore
from warehouse.files import flush
from warehouse.restoring import count_runs, count_runs_taken
from warehouse.texts import chunk_folders, point_view_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warehouse.connect import OpenWarehouse

MODE_VARIABLE = "RANKHOUSE_PUBLISH"
PARQUET_VARIABLE = "RANKHOUSE_PUBLISH_PARQUET"
SIZE_VARIABLE = "RANKHOUSE_PUBLISH_LARGE_MB"


@dataclass(frozen=True, slots=True)
class Publishing:
    """How the copy is kept: a switch, a limit for large files, Parquet beside it on request."""

    is_on: bool = True
    large_bytes: int = 1 << 30  # from here on a copy is refreshed at most once in `pause`
    pause: float = 60.0  # seconds
    folder_of_parquet: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Publishing:
        """Read ``RANKHOUSE_PUBLISH`` (on, off), ``…_LARGE_MB`` and ``…_PARQUET`` (a folder).

        Raises:
            ConfigurationError: a value is neither of these.
        """
        values = os.environ if environment is None else environment
        mode = values.get(MODE_VARIABLE, "on").lower()
        if mode not in ("on", "off"):
            raise ConfigurationError(f"{MODE_VARIABLE} is {mode!r}; expected on or off")
        large = values.get(SIZE_VARIABLE, "1024")
        if not large.isdecimal():
            raise ConfigurationError(f"{SIZE_VARIABLE} is {large!r}; expected a number of MB")
        parquet = values.get(PARQUET_VARIABLE)
        return cls(
            is_on=mode == "on",
            large_bytes=int(large) << 20,
            folder_of_parquet=Path(parquet).expanduser() if parquet else None,
        )


def is_published(home: Home) -> bool:
    """Whether the copy shows everything that is in the warehouse.

    The copy carries the modification time of the file that it was made from.
    """
    try:
        copy, original = home.published.stat(), home.warehouse.stat()
    except FileNotFoundError:
        return not home.warehouse.exists()
    wal = home.warehouse.with_name(f"{home.warehouse.name}.wal")
    return copy.st_mtime_ns == original.st_mtime_ns and not wal.exists()


def publish(
    warehouse: OpenWarehouse,
    home: Home,
    how: Publishing | None = None,
    *,
    is_damaged: bool = False,
) -> bool:
    """Put a copy of the warehouse in place of the published one, when it is behind.

    Readers that have the old copy open keep reading it; new ones open the new copy.

    Args:
        warehouse: open for writing.
        home: whose copy.
        how: by default as the environment says.
        is_damaged: the copy cannot be read: it is made anew whatever its time says.

    Returns:
        Whether the published copy shows everything now.

    Raises:
        StorageError: the copy holds more runs than the warehouse; it stays.
    """
    how = how or Publishing.from_environment()
    warehouse.checkpoint()
    if is_published(home) and not is_damaged:
        return True
    if not is_damaged and (not how.is_on or _is_too_soon(home, how)):
        return False
    _refuse_fewer_runs(warehouse, home)
    _sweep(home)
    draft = home.path / f".{home.published.name}-{os.getpid()}.tmp"
    try:
        _replace_copy(warehouse, home, draft)
    finally:
        draft.unlink(missing_ok=True)
    if how.folder_of_parquet is not None:
        publish_parquet(warehouse, how.folder_of_parquet)
    return True


def _replace_copy(warehouse: OpenWarehouse, home: Home, draft: Path) -> None:
    warehouse.copy_to(draft)
    modified = home.warehouse.stat().st_mtime_ns
    _open_to_texts(home, warehouse, draft)
    os.utime(draft, ns=(modified, modified))
    draft.chmod(0o444)  # a tool that opens it for writing would lock the others out
    flush(draft)
    draft.replace(home.published)
    flush(home.path)


def _refuse_fewer_runs(warehouse: OpenWarehouse, home: Home) -> None:
    """No run goes without an event: a copy with more of them is of another, better file."""
    n_published = count_runs(home.published) if home.published.exists() else None
    n_runs = count_runs_taken(warehouse.connection)
    if n_published is not None and n_published > n_runs:
        raise StorageError(
            f"{home.published} holds {counted(n_published, 'run')} and {home.warehouse} only "
            f"{n_runs:,}: the copy was not replaced. Was the warehouse lost? Move it away; then "
            f"{how_to_restore(home.warehouse)} If fewer runs are right, move the copy away and: "
            "rankhouse warehouse load"
        )


def publish_parquet(warehouse: OpenWarehouse, folder: Path) -> None:
    """Write every table as ``<folder>/<table>.parquet``, each replaced as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for (name,) in warehouse.connection.execute(
        "SELECT table_name FROM duckdb_tables() ORDER BY table_name"
    ).fetchall():
        draft = folder / f".{name}.parquet-{os.getpid()}.tmp"
        path = str(draft).replace("'", "''")
        warehouse.connection.execute(f"COPY {name} TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        flush(draft)
        draft.replace(folder / f"{name}.parquet")
    flush(folder)


def _open_to_texts(home: Home, warehouse: OpenWarehouse, draft: Path) -> None:
    """Let the copy's view of chunk texts read the artifact store."""
    import duckdb

    folders = chunk_folders(home, warehouse.connection)
    if folders:
        with duckdb.connect(str(draft)) as copy:
            point_view_at(copy, folders)


def _is_too_soon(home: Home, how: Publishing) -> bool:
    """A large file was published less than a minute ago: the next load will do it."""
    if home.warehouse.stat().st_size < how.large_bytes or not home.published.exists():
        return False
    return 0 <= time.time() - home.published.stat().st_ctime < how.pause


def _sweep(home: Home) -> None:
    """Drafts of publishers that were killed; only the holder of the lock makes one."""
    for leftover in home.path.glob(f".{home.published.name}-*.tmp*"):
        leftover.unlink(missing_ok=True)
