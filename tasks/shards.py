"""A shard: one file with the vectors of many texts, which appears whole or not at all.

    NNNNNNNN-SHA256.vectors    three arrays in NumPy's format, one after the other:
        keys       (n,) S32, sha256 of each text
        truncated  (n,) bool, the text was longer than the model reads
        vectors    (n, dim) float32, little endian

It is written aside, flushed and renamed. Its name carries the sha256 of the content, since a
flipped byte in a vector would change rankings without a word.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tasks.file_digests import sha256_of_file

Keys = NDArray[np.bytes_]
Flags = NDArray[np.bool_]
Vectors = NDArray[np.float32]

KEY = np.dtype("S32")
FLOAT = np.dtype("<f4")
SHARD_NAME = re.compile(r"(\d{8,})-([0-9a-f]{64})\.vectors")


class ShardDamagedError(Exception):
    """A shard's file is not what was written; never leaves the item store."""


@dataclass(frozen=True, slots=True)
class ShardName:
    """What the name of a shard's file says."""

    number: int  # from 1, in the order of storing
    digest: str  # sha256 of the file
    path: Path


@dataclass(frozen=True, slots=True)
class Shard:
    """An open shard: its keys are read, its vectors are mapped."""

    name: ShardName
    keys: Keys  # (n,)
    truncated: Flags  # (n,)
    vectors: Vectors  # (n, dim)


def list_shards(folder: Path) -> list[ShardName]:
    """The shards of a folder in the order of storing; none when there is no folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    matches = (match for name in names if (match := SHARD_NAME.fullmatch(name)))
    shards = [ShardName(int(match[1]), match[2], folder / match[0]) for match in matches]
    return sorted(shards, key=lambda shard: (shard.number, shard.digest))


def write_shard(path: Path, keys: Keys, truncated: Flags, vectors: Vectors) -> str:
    """Write and flush a new file; return the sha256 of its content."""
    with path.open("x+b") as file:
        for array, dtype in ((keys, KEY), (truncated, np.dtype(np.bool_)), (vectors, FLOAT)):
            np.save(file, np.ascontiguousarray(array, dtype=dtype), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_shard(name: ShardName) -> Shard:
    """Read a shard's keys and map its vectors; ``check_shard`` says whether they are as written.

    Raises:
        ShardDamagedError: the file's form or size is wrong.
        OSError: it cannot be read, or is gone.
    """
    with name.path.open("rb") as file:
        try:
            keys = np.load(file, allow_pickle=False)
            truncated = np.load(file, allow_pickle=False)
            n, dim = _shape_of_vectors(file)
        except OSError:
            raise
        except Exception as error:  # any byte may be wrong, so anything may be raised
            raise ShardDamagedError(f"its header cannot be read: {error}") from error
        start, size = file.tell(), os.fstat(file.fileno()).st_size
    if (
        keys.dtype != KEY
        or truncated.dtype != np.bool_
        or not keys.shape == truncated.shape == (n,)
    ):
        raise ShardDamagedError(f"{n} vectors come with {keys.shape} keys of type {keys.dtype}")
    if dim == 0 or n == 0 or size != start + FLOAT.itemsize * n * dim:
        raise ShardDamagedError(f"{n} x {dim} vectors do not fit its {size} bytes")
    vectors = np.memmap(name.path, dtype=FLOAT, mode="r", offset=start, shape=(n, dim))
    return Shard(name, keys, truncated, vectors)


def check_shard(name: ShardName) -> None:
    """Raise ShardDamagedError unless the content has the digest that the name carries."""
    digest = sha256_of_file(name.path)
    if digest != name.digest:
        raise ShardDamagedError(f"the sha256 of its content is {digest}")


def flush_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _shape_of_vectors(file: BinaryIO) -> tuple[int, int]:
    version = np.lib.format.read_magic(file)
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if version != (1, 0) or len(shape) != 2 or is_fortran or dtype != FLOAT:
        raise ShardDamagedError(f"its vectors are of type {dtype} and shape {shape}")
    return shape
