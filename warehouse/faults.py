"""What can be wrong with a database file, in our words."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import StorageError
from warehouse.damage import expected_bytes
from warehouse.files import is_full

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PUBLISHED = "published.duckdb"


class WarehouseLockedError(StorageError):
    """Another process has the file open for writing; ``holder`` says who, when known."""

    def __init__(self, path: Path, holder: str | None):
        self.holder = holder
        super().__init__(
            f"{path}: the warehouse is held by {holder or 'another process'}. "
            "Finished runs wait in the spool until it is closed; then: rankhouse warehouse load"
        )


def check_path(path: Path) -> None:
    """Refuse a path that DuckDB would cut: it reads what follows ``?`` as options."""
    if "?" in str(path):
        raise StorageError(
            f"{path}: DuckDB cannot use a path with a question mark; choose another home folder"
        )


def check_length(connection: DuckDBPyConnection, path: Path) -> None:
    """Refuse a file that was cut: DuckDB opens it, and would write on.

    Raises:
        StorageError: it is shorter than its own bookkeeping says.
    """
    import duckdb

    size = path.stat().st_size
    copy = path.with_name(PUBLISHED)
    is_suspicious = copy.exists() and size < copy.stat().st_size
    try:
        expected = expected_bytes(connection, is_thorough=is_suspicious)
    except duckdb.Error as error:
        raise explain(path, error) from None
    if size < expected:
        raise StorageError(
            f"{path}: damaged: it has {size:,} bytes, and at least {expected:,} are expected. "
            f"{how_to_restore(path)}"
        )


def explain(path: Path, error: Exception) -> StorageError:
    """Say in our words why DuckDB could not use the file."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "onflicting lock" in text or "different configuration" in text:
        return WarehouseLockedError(path, _holder(text))
    if "not a valid DuckDB database file" in text and path.name != PUBLISHED:
        return StorageError(f"{path}: this is not a DuckDB file. {_instead_of_foreign(path)}")
    if "version number" in text:
        return StorageError(
            f"{path}: written by a newer DuckDB than the one installed here. "
            f"Upgrade it: pip install -U duckdb. ({text})"
        )
    if "ermission denied" in text or "ead-only file system" in text:
        return StorageError(f"{path}: cannot be opened for writing ({text})")
    if is_full(error):
        return StorageError(f"{path}: no space is left on its disk")
    fault = "damaged" if path.name == PUBLISHED else "cannot be opened; it may be damaged"
    return StorageError(f"{path}: {fault}. {how_to_restore(path)} ({text})")


def how_to_restore(path: Path) -> str:
    """What to do about a database file that is damaged or gone."""
    if path.name == PUBLISHED:
        return "`rankhouse warehouse load` makes it anew from the warehouse."
    copy = path.with_name(PUBLISHED)
    if not copy.exists():
        return "Restore it from a backup."
    command = shlex.join(["install", "-m", "644", str(copy), str(path)])
    return f"{copy.name} is a whole copy; restore it, while nothing runs, with: {command}"


def _instead_of_foreign(path: Path) -> str:
    if path.with_name(PUBLISHED).exists():
        return how_to_restore(path)
    return (
        "Move it away, or set RANKHOUSE_HOME to another folder; a new warehouse is made when none "
        "is there."
    )


def _holder(text: str) -> str | None:
    found = re.search(r"held in (?P<program>.+?) \(PID (?P<pid>\d+)\)", text)
    if found is None:
        return "this process" if "different configuration" in text else None
    return f"process {found['pid']} ({Path(found['program']).name})"
