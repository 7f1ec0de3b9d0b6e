"""Opens the warehouse file: made whole or not at all, locked by one process at a time."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import StorageError
from warehouse.files import copy_descriptor, flush, is_full, link_new

if TYPE_CHECKING:
    from types import TracebackType

    from duckdb import DuckDBPyConnection

STORAGE_VERSION = "v1.2.0"
"""So that the DuckDB inside an analyst's tool, often an older one, can read the files."""

LOCK_PATIENCE = 5.0  # seconds
_IN_THIS_PROCESS = threading.Lock()  # DuckDB's lock keeps other processes out, not threads
_RESTORE = "Restore it from a backup, or from published.duckdb beside it, which is a whole copy."
_SAFE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


class WarehouseLockedError(StorageError):
    """Another process has the file open for writing; ``holder`` says who, when known."""

    def __init__(self, path: Path, holder: str | None):
        self.holder = holder
        super().__init__(
            f"{path}: the warehouse is held by {holder or 'another process'}. "
            "Finished runs wait in the spool until it is closed; then: rankhouse warehouse load"
        )


class OpenWarehouse:
    """The file, open for writing, together with the right to copy it while it is locked.

    POSIX drops a process's locks on a file when the process closes *any* descriptor of it. So
    the descriptor for copying is opened before DuckDB takes its lock and closed after.
    """

    def __init__(self, path: Path, connection: DuckDBPyConnection, descriptor: int):
        self.path = path
        self.connection = connection
        self._descriptor = descriptor

    def __enter__(self) -> OpenWarehouse:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        try:
            self.connection.close()
        finally:
            os.close(self._descriptor)
            _IN_THIS_PROCESS.release()

    def checkpoint(self) -> None:
        """Bring everything committed into the file itself."""
        self.connection.execute("CHECKPOINT")

    def copy_to(self, target: Path) -> None:
        """Copy the file as of the last commit; flushed, but not yet known to its folder."""
        self.checkpoint()
        copy_descriptor(self._descriptor, target)


def open_warehouse(path: Path, *, patience: float = LOCK_PATIENCE) -> OpenWarehouse:
    """Open for writing, wait up to ``patience`` seconds for the lock, apply what is new.

    Raises:
        WarehouseLockedError: somebody else still has it.
        StorageError: not DuckDB, damaged, newer than this version, or not writable.
    """
    from warehouse.migrate import migrate

    if not path.exists():
        create_warehouse(path)
    deadline = time.monotonic() + patience
    if not _IN_THIS_PROCESS.acquire(timeout=max(patience, 0)):
        raise WarehouseLockedError(path, "this process")
    try:
        warehouse = _wait_for(path, deadline)
    except BaseException:
        _IN_THIS_PROCESS.release()
        raise
    try:
        migrate(warehouse)
    except BaseException:
        warehouse.close()
        raise
    return warehouse


@contextmanager
def open_to_read(path: Path, *, patience: float = LOCK_PATIENCE) -> Iterator[DuckDBPyConnection]:
    """Open the warehouse itself for reading; meanwhile nobody can write it.

    Raises:
        WarehouseLockedError: somebody has it open for writing.
        StorageError: not DuckDB, not ours, damaged, newer, or with an edited migration.
    """
    from warehouse.migrate import check_migrations

    with _connect_to_read(path, time.monotonic() + patience) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        check_length(connection, path)
        check_migrations(connection, path)
        yield connection


def _connect_to_read(path: Path, deadline: float) -> DuckDBPyConnection:
    import duckdb

    check_path(path)
    while True:
        try:
            return duckdb.connect(str(path), read_only=True, config=dict(_SAFE))
        except duckdb.Error as error:
            explained = explain(path, error)
            is_locked = isinstance(explained, WarehouseLockedError)
            if not is_locked or time.monotonic() >= deadline:
                raise explained from None
            time.sleep(random.uniform(0.02, 0.2))  # noqa: S311 - spreads the waiting


def create_warehouse(path: Path) -> None:
    """Make an empty warehouse under another name and link it into place.

    Killed half way, nothing is there; of two at once, the first one stays.
    """
    import duckdb

    from warehouse.migrate import apply_pending

    check_path(path)
    draft = path.with_name(f".{path.name}-{os.getpid()}-{random.getrandbits(32):08x}")
    try:
        connection = duckdb.connect(
            str(draft), config={**_SAFE, "storage_compatibility_version": STORAGE_VERSION}
        )
        try:
            connection.execute("SET TimeZone = 'UTC'")
            apply_pending(connection)
        finally:
            connection.close()
        flush(draft)
        link_new(draft, path)
        flush(path.parent)
    except OSError as error:
        raise StorageError(f"{path}: cannot be created ({error.strerror or error})") from None
    except duckdb.Error as error:
        raise explain(path, error) from None
    finally:
        for leftover in (draft, draft.with_name(draft.name + ".wal")):
            leftover.unlink(missing_ok=True)


def check_path(path: Path) -> None:
    """Refuse a path that DuckDB would cut: it reads what follows ``?`` as options."""
    if "?" in str(path):
        raise StorageError(
            f"{path}: DuckDB cannot use a path with a question mark; choose another home folder"
        )


def explain(path: Path, error: Exception) -> StorageError:
    """Say in our words why DuckDB could not use the file."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "onflicting lock" in text or "different configuration" in text:
        return WarehouseLockedError(path, _holder(text))
    if "not a valid DuckDB database file" in text:
        return StorageError(
            f"{path}: this is not a DuckDB file. Move it away, or set RANKHOUSE_HOME to another "
            "folder; a new warehouse is made when none is there."
        )
    if "version number" in text:
        return StorageError(
            f"{path}: written by a newer DuckDB than the one installed here. "
            f"Upgrade it: pip install -U duckdb. ({text})"
        )
    if "ermission denied" in text or "ead-only file system" in text:
        return StorageError(f"{path}: cannot be opened for writing ({text})")
    if is_full(error):
        return StorageError(f"{path}: no space is left on its disk")
    return StorageError(f"{path}: cannot be opened; it may be damaged. {_RESTORE} ({text})")


def _wait_for(path: Path, deadline: float) -> OpenWarehouse:
    while True:
        try:
            return _open_once(path)
        except WarehouseLockedError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(0.02, 0.2))  # noqa: S311 - spreads the waiting, no secret


def _open_once(path: Path) -> OpenWarehouse:
    import duckdb

    check_path(path)
    if _is_open_here(path):
        raise WarehouseLockedError(path, "this process")
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise StorageError(f"{path}: cannot be opened ({error.strerror})") from None
    try:
        connection = duckdb.connect(str(path), config=dict(_SAFE))
    except (duckdb.Error, OSError) as error:
        os.close(descriptor)
        raise explain(path, error) from None
    connection.execute("SET TimeZone = 'UTC'")
    warehouse = OpenWarehouse(path, connection, descriptor)
    try:
        check_length(connection, path)
    except BaseException:
        connection.close()
        os.close(descriptor)
        raise
    return warehouse


def check_length(connection: DuckDBPyConnection, path: Path) -> None:
    """Refuse a file that was cut: DuckDB opens it, and would write on.

    Raises:
        StorageError: it is shorter than its own bookkeeping says.
    """
    import duckdb

    from warehouse.damage import expected_bytes

    size = path.stat().st_size
    copy = path.with_name("published.duckdb")
    is_suspicious = copy.exists() and size < copy.stat().st_size
    try:
        expected = expected_bytes(connection, is_thorough=is_suspicious)
    except duckdb.Error as error:
        raise explain(path, error) from None
    if size < expected:
        raise StorageError(
            f"{path}: damaged: it has {size:,} bytes, and at least {expected:,} are expected. "
            f"{_RESTORE}"
        )


def _is_open_here(path: Path) -> bool:
    """Whether this process has the file open already (a notebook, say): its lock must stay."""
    try:
        identity = path.stat()
        descriptors = list(Path("/proc/self/fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        with suppress(OSError):
            if os.path.samestat(descriptor.stat(), identity):
                return True
    return False


def _holder(text: str) -> str | None:
    found = re.search(r"held in (?P<program>.+?) \(PID (?P<pid>\d+)\)", text)
    if found is None:
        return "this process" if "different configuration" in text else None
    return f"process {found['pid']} ({Path(found['program']).name})"
