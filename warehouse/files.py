"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from schemas.errors import FailedError, StorageError


def copy_descriptor(source: int, target: Path) -> None:
    """Copy a whole open file to a new one and flush it; file systems that share blocks do."""
    size = os.fstat(source).st_size
    with target.open("wb") as out:
        copied = 0
        while copied < size:
            copied += _copy_some(source, out.fileno(), copied, size - copied)
        out.flush()
        os.fsync(out.fileno())


def _copy_some(source: int, target: int, offset: int, n_bytes: int) -> int:
    if hasattr(os, "copy_file_range"):
        with suppress(OSError):
            copied = os.copy_file_range(source, target, n_bytes, offset, offset)
            if copied:
                return copied
    block = os.pread(source, min(n_bytes, 1 << 24), offset)
    if not block:
        raise OSError(f"the file ended {n_bytes} bytes early")
    return os.pwrite(target, block, offset)


def flush(path: Path) -> None:
    """Make a file's content, or a folder's names, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LEAST_ROOM = 1 << 20  # bytes: what a failed write may have left
_FULL = re.compile(
    "no space left|no space is left|quota exceeded|not enough space"
    # a short write, as DuckDB, Rust (Polars) and Arrow say it
    "|could not write (all|sufficient) bytes|failed to write whole buffer|short write",
    re.IGNORECASE,
)


def is_full(error: BaseException) -> bool:
    """Whether the disk is the trouble, whichever library says so."""
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return True
    return _FULL.search(str(error)) is not None


def has_no_room(folder: Path) -> bool:
    """Whether its disk is full: for libraries whose error does not say why they failed."""
    return shutil.disk_usage(folder).free < LEAST_ROOM


def why_unwritten(path: Path, error: Exception) -> FailedError | StorageError:
    """In our words why a file or folder could not be written."""
    if is_full(error):
        return FailedError(f"{path}: no space is left on its disk; make room, and try again")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StorageError(f"{path}: cannot be written ({reason})")


def link_new(draft: Path, path: Path) -> None:
    """Give the finished file its name, unless somebody was faster."""
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        if not path.exists():
            draft.rename(path)
