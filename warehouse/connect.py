"""Opens the warehouse file: made whole or not at all, locked by one process at a time."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import StorageError
from warehouse.faults import WarehouseLockedError, check_length, check_path, explain
from warehouse.files import copy_descriptor, flush, link_new

if TYPE_CHECKING:
    from types import TracebackType

    from duckdb import DuckDBPyConnection

STORAGE_VERSION = "v1.2.0"
"""So that the DuckDB inside an analyst's tool, often an older one, can read the files."""

LOCK_PATIENCE = 5.0  # seconds
_IN_THIS_PROCESS = threading.Lock()  # DuckDB's lock keeps other processes out, not threads
_SAFE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


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
        StorageError: not DuckDB, damaged, newer than this version, not writable, or missing while
            there is a published copy of it.
    """
    from warehouse.migrate import migrate
    from warehouse.restoring import refuse_lost

    if not path.exists():
        refuse_lost(path)
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
