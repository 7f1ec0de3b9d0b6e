"""The files of a folder, or of a glob, in one order on every machine."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from schemas.errors import InputError

KINDS = {
    ".txt": "text",
    ".text": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".pdf": "pdf",
}
"""Kind of a document by its suffix, in lower case."""

_WILDCARD = re.compile(r"[*?\[]")

Parts = tuple[str, ...]  # a name below the root, or a glob for such names
Pattern = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a folder: POSIX path below it and full path, sorted bytewise by the first."""

    files: list[tuple[str, Path]]
    left_out: tuple[str, ...]  # hidden, another kind, a linked folder, not a regular file


def is_glob(path: Path) -> bool:
    """Whether a path holds a wildcard and is not itself a file or folder of that name."""
    return _WILDCARD.search(str(path)) is not None and not os.path.lexists(path)


def kind_of(name: str) -> str | None:
    """``text``, ``markdown``, ``html`` or ``pdf``; None: no reader takes such a file."""
    return KINDS.get(PurePosixPath(name).suffix.lower())


def find_documents(path: Path) -> Found:
    """Find the documents below a folder, or those that a glob names.

    A glob is relative to the longest folder without a wildcard; ``**`` stands for any number of
    folders. Hidden files and folders, and links to folders (which could run in circles), are left
    out; links to files are followed.

    Raises:
        InputError: the folder cannot be read, a name is not UTF-8, or no document is there.
    """
    root, pattern = _split(path) if is_glob(path) else (path, ("**", "*"))
    if not root.is_dir():
        raise InputError(f"there is no such folder, as {path} asks for", path=root)
    files: list[tuple[str, Path]] = []
    left_out: list[str] = []
    for name, entry in _walk(root, pattern):
        if kind_of(name) is None or _is_hidden(name) or not _is_document(entry):
            left_out.append(name)
        else:
            files.append((name, Path(entry.path)))
    if not files:
        raise InputError(
            f"there is no document in it: expected {' '.join(KINDS)}{_seen(left_out)}", path=path
        )
    files.sort(key=lambda file: file[0].encode())
    return Found(files, tuple(sorted(left_out)))


def _walk(root: Path, pattern: Pattern) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What fits the pattern, but for the folders that are walked through."""
    waiting: list[tuple[str, Parts]] = [(str(root), ())]
    while waiting:
        place, above = waiting.pop()
        try:
            with os.scandir(place) as scan:
                entries = list(scan)
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", path=place) from None
        for entry in entries:
            parts = (*above, _checked(entry.name, place))
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                if _leads_on(parts, pattern):
                    waiting.append((entry.path, parts))
            elif _fits(parts, pattern):
                yield "/".join(parts), entry


def _checked(name: str, place: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the name {os.fsencode(name)!r} is not UTF-8 and cannot be a doc_id; rename the file",
            path=os.fsencode(place).decode("utf-8", "backslashreplace"),
        ) from None
    return name


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _is_document(entry: os.DirEntry[str]) -> bool:
    """Whether it may be opened: a pipe or device never ends, a linked folder may be a circle."""
    try:
        mode = entry.stat().st_mode
    except OSError:
        return True  # a broken link: refused by name when it is hashed
    return stat.S_ISREG(mode)


def _split(path: Path) -> tuple[Path, Pattern]:
    """The longest folder without a wildcard, and the pattern of names below it."""
    first = next(i for i, part in enumerate(path.parts) if _WILDCARD.search(part))
    pattern = path.parts[first:]
    return Path(*path.parts[:first]), pattern if pattern[-1] != "**" else (*pattern, "*")


def _fits(parts: Parts, pattern: Pattern) -> bool:
    """Whether a name fits a glob, part by part; ``**`` stands for any number of folders."""
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return _fits(parts, pattern[1:]) or _fits(parts[1:], pattern)
    return fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _leads_on(parts: Parts, pattern: Pattern) -> bool:
    """Whether something below this folder could fit."""
    for part, wanted in zip(parts, pattern, strict=False):
        if wanted == "**":
            return True
        if not fnmatchcase(part, wanted):
            return False
    return len(parts) < len(pattern)


def _seen(left_out: list[str]) -> str:
    kinds = Counter(PurePosixPath(name).suffix or "files without a suffix" for name in left_out)
    seen = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(5))
    return f"; found {seen}" if seen else "; the folder is empty"
