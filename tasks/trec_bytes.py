"""The bytes of a text file: mapped, decompressed, and with tidy white space."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from schemas.errors import InputError

Buffer = bytes | mmap.mmap

STANDARD_INPUT = "-"

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = (b"\t", b"\v", b"\f", b"\r")
_BLANKS_TO_SPACES = bytes.maketrans(b"\t\v\f\r", b"    ")
_CHECK_BLOCK = 1 << 18


def name_of(source: str) -> str:
    """The path, or what ``-`` stands for."""
    return "standard input" if source == STANDARD_INPUT else source


def check_exists(source: str) -> None:
    """Refuse a file that is not there, before much time is spent on the others."""
    if source != STANDARD_INPUT and not Path(source).exists():
        raise InputError("there is no such file", path=source)


def load_bytes(source: str) -> Buffer:
    """Read a file, decompressed when it is gzip or zstd; a plain file is mapped, not copied.

    Args:
        source: a path, or ``-`` for standard input.

    Raises:
        InputError: the file cannot be read, or its compressed data is damaged.
    """
    try:
        data = _map(source)
        codec = next((name for magic, name in _MAGIC.items() if data[:4].startswith(magic)), None)
    except FileNotFoundError:
        raise InputError("there is no such file", path=source) from None
    except IsADirectoryError:
        raise InputError("this is a folder; a file is expected", path=source) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=source) from None
    if codec is None:
        return data
    try:
        stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), codec)
        return bytes(stream.read())
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"the {codec} data is damaged ({error})", path=name_of(source)) from None


def _map(source: str) -> Buffer:
    if source == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    with open(source, "rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (ValueError, OSError):  # an empty file, or a pipe
            return file.read()


def tidy_blanks(data: Buffer) -> Buffer:
    """Give the same lines single spaces between fields and nothing around them."""
    if _is_tidy(data):
        return data
    text = bytes(data).removeprefix(_BYTE_ORDER_MARK).translate(_BLANKS_TO_SPACES)
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    return text.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _is_tidy(data: Buffer) -> bool:
    """Whether the only white space is single spaces between fields and single newlines."""
    if any(data.find(blank) >= 0 for blank in _BLANKS):
        return False
    cells = np.frombuffer(data, dtype=np.uint8)
    for low in range(0, len(cells), _CHECK_BLOCK):
        is_blank = cells[low : low + _CHECK_BLOCK + 1] <= ord(" ")
        if (is_blank[1:] & is_blank[:-1]).any():
            return False
    return bool(cells[0] > ord(" ") and cells[-1] != ord(" "))


def lines_of(data: Buffer) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, from 1; only a newline ends a line."""
    start, number = len(_BYTE_ORDER_MARK) * (data[:3] == _BYTE_ORDER_MARK), 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += 1
        yield number, data[start:end]
        start = end + 1


def show_id(name: bytes) -> str:
    """An id as text; bytes that are not UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")
