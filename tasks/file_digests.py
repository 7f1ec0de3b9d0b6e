"""The sha256 of files, read once a process for as long as a file stays the one that was read."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

SETTLED = 1e8  # ns since a file was changed: two changes in one tick of its clock look alike
SETTLED_COARSE = 2e9  # where the clock of the file system ticks whole seconds
MOST_KNOWN = 10_000

_Seen = tuple[int, int, int, int, int]

_known: dict[_Seen, str] = {}


def sha256_of_file(path: Path, *, is_own: bool = False) -> str:
    """The sha256 of a file's content, as hexadecimal digits.

    A file is the same while its device, inode, size and times of writing and of change are. The
    time of writing alone can be set: unpacked archives give a new file that of the one before,
    and the system its inode.

    Args:
        path: the file.
        is_own: whether nobody else can write to it, so that it need not have settled.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        before = _seen(os.fstat(stream.fileno()))
        known = _known.get(before)
        if known is not None:
            return known
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        after = os.fstat(stream.fileno())
    if _seen(after) == before and (is_own or _is_settled(after)):
        _remember(before, digest)
    return digest


def known_sha256(found: os.stat_result) -> str | None:
    """Of an open file that has been read before and is still the same, by its ``fstat``."""
    return _known.get(_seen(found))


def is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether nobody wrote to an open file between two ``fstat``."""
    return _seen(before) == _seen(after)


def rename_file(path: Path, target: Path) -> None:
    """Rename a file to what nobody else writes; its time of change is another, its digest is not.

    Raises:
        OSError: it cannot be renamed.
    """
    digest = _known.pop(_seen(path.stat()), None)
    path.replace(target)
    if digest is not None:
        _remember(_seen(target.stat()), digest)


def _remember(seen: _Seen, digest: str) -> None:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[seen] = digest


def _is_settled(found: os.stat_result) -> bool:
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    tick = SETTLED if changed % 10**9 else SETTLED_COARSE
    return time.time_ns() - changed > tick


def _seen(found: os.stat_result) -> _Seen:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
