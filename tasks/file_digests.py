"""The sha256 of files, read once a process for as long as a file stays the one that was read."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

SETTLED = 1e8  # ns since a file was written: two writes in one tick of its clock look alike
MOST_KNOWN = 10_000

_Seen = tuple[int, int, int, int]

_known: dict[_Seen, str] = {}


def sha256_of_file(path: Path) -> str:
    """The sha256 of a file's content, as hexadecimal digits.

    A file is the same while its device, inode, size and time of change are; renamed, it is too.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        before = _seen(os.fstat(stream.fileno()))
        if before in _known:
            return _known[before]
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        after = os.fstat(stream.fileno())
    if _seen(after) == before and time.time_ns() - after.st_mtime_ns > SETTLED:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[before] = digest
    return digest


def _seen(found: os.stat_result) -> _Seen:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
