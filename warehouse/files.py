"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


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


def is_full(error: Exception) -> bool:
    """Whether the disk is the trouble."""
    import errno

    text = str(error)
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or (
        "No space left" in text or "quota exceeded" in text or "not enough space" in text.lower()
    )


def link_new(draft: Path, path: Path) -> None:
    """Give the finished file its name, unless somebody was faster."""
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        if not path.exists():
            draft.rename(path)
