"""Input files as bytes: found, hashed, and read so that what was hashed is what is read."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, NoReturn, TypeVar

from schemas.errors import InputError
from schemas.experiment import digest_of
from tasks.file_digests import is_unchanged, known_sha256, sha256_of_file

Record = TypeVar("Record")

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a corpus or benchmark."""

    relative_name: str  # POSIX, below the folder; a single file's own name
    path: Path
    size: int  # bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a corpus or benchmark, hashed and not yet parsed.

    ``digest`` covers the format, the names below the folder and the bytes, never where they are.
    """

    files: tuple[SourceFile, ...]
    format: str
    digest: str
    left_out: tuple[str, ...] = ()  # files of a folder that no reader takes: hidden or another kind

    def file(self, relative_name: str) -> SourceFile:
        """The file of that name.

        Raises:
            KeyError: there is none.
        """
        for file in self.files:
            if file.relative_name == relative_name:
                return file
        raise KeyError(relative_name)


class Located(NamedTuple, Generic[Record]):
    """A record and where it stands, for messages."""

    record: Record
    path: Path
    line: int | None = None  # from 1

    def refuse(self, message: str) -> NoReturn:
        """Raise InputError at this place."""
        raise InputError(message, path=self.path, line=self.line)


def survey_files(
    files: list[tuple[str, Path]], *, format: str, left_out: tuple[str, ...] = ()
) -> Source:
    """Hash ``(relative name, path)`` pairs in their order.

    Raises:
        InputError: a file cannot be read, or is empty.
    """
    found = tuple(_hashed(name, path) for name, path in files)
    digest = digest_of([format, [[file.relative_name, file.sha256] for file in found]])
    return Source(found, format, digest, left_out)


def survey_file(path: Path, *, format: str) -> Source:
    """Hash a single file. Its name is not part of the digest: renamed, it is the same source.

    Raises:
        InputError: it cannot be read, or is empty.
    """
    found = _hashed(path.name, path)
    return Source((found,), format, digest_of([format, [["", found.sha256]]]))


def require_present(path: Path, *, what: str) -> None:
    """Refuse a path where nothing is, naming what is there instead.

    Raises:
        InputError: nothing is there, or its folder cannot be entered.
    """
    try:
        path.stat()
    except FileNotFoundError:
        raise InputError(f"there is no such {what}{_nearest(path)}", path=path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=path) from None


def read_bytes(file: SourceFile) -> bytes:
    """The bytes that were hashed.

    Raises:
        InputError: the file cannot be read, or is no longer what it was.
    """
    try:
        content = file.path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=file.path) from None
    if hashlib.sha256(content).hexdigest() != file.sha256:
        _refuse_change(file)
    return content


def read_text(file: SourceFile) -> str:
    """The file as text: UTF-8, newlines untranslated, a leading byte order mark dropped.

    Raises:
        InputError: names the first byte that is not UTF-8.
    """
    content = read_bytes(file)
    start = len(BYTE_ORDER_MARK) if content.startswith(BYTE_ORDER_MARK) else 0
    return _decoded(content[start:], file.path, offset=start)


def read_lines(file: SourceFile) -> Iterator[Located[str]]:
    """The lines that hold something, without their newline; only a line is in memory.

    Raises:
        InputError: a line is not UTF-8, or the file is no longer what it was.
    """
    digest, offset = hashlib.sha256(), 0
    try:
        with file.path.open("rb") as stream:
            before = os.fstat(stream.fileno())
            is_known = known_sha256(before) == file.sha256
            for number, raw in enumerate(stream, start=1):
                if not is_known:
                    digest.update(raw)
                mark = len(BYTE_ORDER_MARK) if offset == 0 and raw[:3] == BYTE_ORDER_MARK else 0
                text = _decoded(raw[mark:], file.path, offset=offset + mark, line=number)
                offset += len(raw)
                if text and not text.isspace():
                    yield Located(text.rstrip("\r\n"), file.path, number)
            is_same = is_known and is_unchanged(before, os.fstat(stream.fileno()))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=file.path) from None
    if not is_same and digest.hexdigest() != file.sha256:
        _refuse_change(file)


def _hashed(name: str, path: Path) -> SourceFile:
    try:
        if not path.is_file():
            raise InputError("this is not a file that can be read", path=path)
        digest, size = sha256_of_file(path), path.stat().st_size
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=path) from None
    if size == 0:
        raise InputError(
            "the file is empty (0 bytes); fill it, or move it out of the corpus", path=path
        )
    return SourceFile(name, path, size, digest)


def _decoded(content: bytes, path: Path, *, offset: int, line: int | None = None) -> str:
    """``content`` as text; ``offset`` is where it begins in its file, in bytes."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if offset == 0 and content.startswith(UTF_16_MARKS):
            message = "the file begins like UTF-16; save it as UTF-8"
        else:
            message = (
                f"byte {offset + error.start} (0x{content[error.start]:02x}) is not UTF-8; "
                "save the file as UTF-8"
            )
        raise InputError(message, path=path, line=line) from None


def _refuse_change(file: SourceFile) -> NoReturn:
    raise InputError(
        "the file was changed while this run was reading it; start the run again", path=file.path
    )


def _nearest(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return f", nor the folder {path.parent}"
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f" in {path.parent}"
