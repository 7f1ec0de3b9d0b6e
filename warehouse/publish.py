"""The read-only copy that everybody reads: replaced as a whole, never written in place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from schemas.home import Home
from warehouse.files import flush

if TYPE_CHECKING:
    from warehouse.connect import OpenWarehouse


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


def publish(warehouse: OpenWarehouse, home: Home) -> bool:
    """Put a copy of the warehouse in place of the published one, when it is behind.

    Readers that have the old copy open keep reading it; new ones open the new copy.

    Returns:
        Whether a new copy was made.
    """
    warehouse.checkpoint()
    if is_published(home):
        return False
    _sweep(home)
    draft = home.path / f".{home.published.name}-{os.getpid()}.tmp"
    warehouse.copy_to(draft)
    modified = home.warehouse.stat().st_mtime_ns
    os.utime(draft, ns=(modified, modified))
    draft.chmod(0o444)  # a tool that opens it for writing would lock the others out
    flush(draft)
    draft.replace(home.published)
    flush(home.path)
    return True


def _sweep(home: Home) -> None:
    """Drafts of publishers that were killed; only the holder of the lock makes one."""
    for leftover in home.path.glob(f".{home.published.name}-*.tmp"):
        leftover.unlink(missing_ok=True)
