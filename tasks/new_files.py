"""Files that are written for somebody: whole, all or none, and never over one that exists."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from schemas.errors import StorageError, UsageError


def refuse_existing(paths: Iterable[Path]) -> None:
    """Raise UsageError when any of the files is there, a dangling link included."""
    for path in paths:
        if os.path.lexists(path):
            raise _exists(path)


def write_new_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write all files whole, or none; never over one that exists.

    Args:
        folder: where; it is made when it is missing.
        texts: what each file is to hold, by name.

    Raises:
        UsageError: one of them exists.
        StorageError: the folder cannot be written.
    """
    refuse_existing(folder / name for name in texts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".rankhouse-", dir=folder) as scratch:
            for name, text in texts.items():
                _write_whole(Path(scratch) / name, text)
            _publish(Path(scratch), folder, texts)
    except OSError as error:
        is_file = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "a file is in its place" if is_file else error.strerror
        raise StorageError(
            f"{folder}: cannot be written ({reason}); --into names another folder"
        ) from None


def _write_whole(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _publish(scratch: Path, folder: Path, names: Iterable[str]) -> None:
    """Give written files their names, all or none of them."""
    done: list[Path] = []
    try:
        for name in names:
            _take_name(scratch / name, folder / name)
            done.append(folder / name)
    except BaseException:
        for path in done:
            path.unlink()
        raise


def _take_name(whole: Path, path: Path) -> None:
    """Give a written file its name, unless somebody has taken it meanwhile.

    A hard link does both in one step. Where the file system has none, the name is taken with an
    empty file first.
    """
    try:
        try:
            os.link(whole, path)
        except FileExistsError:
            raise
        except OSError:
            path.open("x").close()
            whole.replace(path)
    except FileExistsError:
        raise _exists(path) from None


def _exists(path: Path) -> UsageError:
    return UsageError(
        f"{path}: there is such a file already, and nothing was written. "
        "Move it away, or name another folder with --into."
    )
