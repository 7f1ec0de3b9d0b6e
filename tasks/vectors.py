"""The item store of embeddings: a text's first vector is stored, and read from then on.

A vector's last bits depend on what else was in its batch (31 of 67 differed, by 2e-7), so a text
that was encoded once is never encoded again, and a rerun gives the same bytes. A store is a folder
of numbered shards that are only ever added; the lowest number that holds a key wins::

    FOLDER/SPACE/space.json    what the vectors of this space have in common, for people
    FOLDER/SPACE/NNNNNNNN-SHA256.vectors    see tasks/shards.py

A damaged shard is set aside as ``….damaged`` with a warning, and its texts are encoded again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from schemas.errors import StageError, StorageError
from tasks.memory import give_back
from tasks.shards import (
    KEY,
    Flags,
    Keys,
    Shard,
    ShardDamagedError,
    ShardName,
    Vectors,
    check_shard,
    flush_folder,
    list_shards,
    open_shard,
    write_shard,
)
from tasks.vector_blocks import release

log = logging.getLogger("rankhouse")

ABANDONED_SECONDS = 24 * 3600
GATHERED_AT_ONCE = 1_024  # rows
KEYS_AT_ONCE = 8_192  # of a shard that are looked up

Rows = NDArray[np.int64]


def key_of(text: str, *, prompt: str) -> bytes:
    """Sha256 of the exact input; where the prompt ends is part of it, since pooling may skip it."""
    return hashlib.sha256(f"{len(prompt)}:{prompt}{text}".encode()).digest()


def is_among(keys: Keys, known: Keys) -> Flags:
    """(n,) which of (n,) keys are among (m,) ascending ones."""
    if len(known) == 0:
        return np.zeros(len(keys), dtype=np.bool_)
    return np.asarray(known[np.searchsorted(known[1:], keys, side="right")] == keys)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store knows of some keys, in their order; rows that were not found hold zeros."""

    found: Flags  # (n,)
    truncated: Flags  # (n,)
    vectors: Vectors  # (n, dim); dim is 0 when nothing was found


class VectorStore:
    """The vectors of one space, safe for several processes that read and write at once.

    Args:
        folder: where all spaces are.
        space: what must be equal for two vectors to belong together (weights, settings, kind of
            device, dtype, versions), as a JSON object; its digest names the space's folder.
    """

    def __init__(self, folder: Path, space: Mapping[str, Any]):
        self._description = json.dumps(space, sort_keys=True, ensure_ascii=False, indent=1)
        self.folder = folder / hashlib.sha256(self._description.encode()).hexdigest()[:32]
        self._open: dict[ShardName, Shard] = {}
        self._checked: set[ShardName] = set()
        self._damaged: set[ShardName] = set()  # also those that could not be renamed

    def get_many(self, keys: Keys) -> Stored:
        """Look up (n,) keys; what another process has stored meanwhile is found too.

        Raises:
            StorageError: the folder cannot be read.
        """
        wanted, first, places = np.unique(
            np.asarray(keys, dtype=KEY), return_index=True, return_inverse=True
        )
        found = np.zeros(len(wanted), dtype=np.bool_)
        truncated = np.zeros(len(wanted), dtype=np.bool_)
        vectors = np.zeros((len(keys), 0), dtype=np.float32)
        give_back()  # what finding the different ones took, before the vectors come in
        for shard, rows, at in self._matches(wanted, found):
            if vectors.shape[1] == 0:
                vectors = np.zeros((len(keys), shard.vectors.shape[1]), dtype=np.float32)
            truncated[at] = shard.truncated[rows]
            for start in range(0, len(rows), GATHERED_AT_ONCE):
                part = slice(start, start + GATHERED_AT_ONCE)
                vectors[first[at[part]]] = shard.vectors[rows[part]]
                release(shard.vectors)
        again = np.flatnonzero(first[places] != np.arange(len(places)))
        for start in range(0, len(again), GATHERED_AT_ONCE):
            rows = again[start : start + GATHERED_AT_ONCE]
            vectors[rows] = vectors[first[places[rows]]]
        return Stored(found[places], truncated[places], vectors)

    def has_many(self, keys: Keys) -> Flags:
        """(n,) which of (n,) keys are stored, without their vectors; see ``get_many``."""
        wanted, places = np.unique(np.asarray(keys, dtype=KEY), return_inverse=True)
        found = np.zeros(len(wanted), dtype=np.bool_)
        for _ in self._matches(wanted, found):
            pass
        return found[places]

    def keys(self) -> Keys:
        """(n,) every key that is stored, ascending; whether its vector is whole is not checked.

        Raises:
            StorageError: the folder cannot be read.
        """
        keys = [np.empty(0, dtype=KEY), *(shard.keys for shard in self._shards())]
        return np.unique(np.concatenate(keys))

    def _matches(self, wanted: Keys, found: Flags) -> Iterator[tuple[Shard, Rows, Rows]]:
        """Usable shards with rows of keys not yet found, and where these are wanted.

        Args:
            wanted: (n,) different keys, ascending.
            found: (n,) is marked on the way.
        """
        dim = 0
        for shard in self._shards() if len(wanted) else []:
            for start in range(0, len(shard.keys), KEYS_AT_ONCE):
                keys = shard.keys[start : start + KEYS_AT_ONCE]
                at = np.searchsorted(wanted[1:], keys, side="right")
                rows = np.flatnonzero((wanted[at] == keys) & ~found[at])
                if rows.size == 0:
                    continue
                if not self._is_usable(shard, dim):
                    break
                dim = shard.vectors.shape[1]
                yield shard, start + rows, at[rows]
                found[at[rows]] = True

    @property
    def dim(self) -> int:
        """Dimensions of the stored vectors; 0: nothing is stored."""
        return next((shard.vectors.shape[1] for shard in self._shards()), 0)

    def put_many(self, keys: Keys, vectors: Vectors, truncated: Flags) -> None:
        """Store (n, dim) vectors under (n,) different keys, as one shard.

        A key that is there already keeps its first vector: ``get_many`` says which holds.

        Raises:
            StageError: a key comes twice, a vector is not finite, or the lengths differ.
            StorageError: the folder cannot be written.
        """
        keys = np.asarray(keys, dtype=KEY)
        if not len(keys) == len(np.unique(keys)) == len(vectors) == len(truncated):
            raise StageError(
                f"{len(np.unique(keys))} different keys among {len(keys)} came with "
                f"{len(vectors)} vectors and {len(truncated)} flags; expected as many of each"
            )
        if not np.isfinite(vectors).all():
            raise StageError("vectors with NaN or infinity are not stored")
        if len(keys) == 0:
            return
        aside = self.folder / f".{os.getpid()}-{uuid.uuid4().hex}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._publish(aside, write_shard(aside, keys, truncated, vectors))
        except OSError as error:
            raise StorageError(
                f"{self.folder}: the vectors cannot be stored ({error.strerror or error})"
            ) from None
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)

    @contextmanager
    def encoding(self) -> Iterator[None]:
        """Be the only one, of all threads and processes, that encodes texts for this space.

        Whoever waited looks up again what is missing: two runs that need the same texts at once
        encode them once. The lock of a process that is killed goes with it.

        Raises:
            StorageError: the folder cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / ".encoding")
            lock.acquire()
        except OSError as error:
            raise StorageError(
                f"{self.folder}: the vectors cannot be stored ({error.strerror or error})"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _publish(self, aside: Path, digest: str) -> None:
        """Give the file the next number; the lock is held for a listing and a rename."""
        with FileLock(self.folder / ".lock"):
            number = 1 + max((name.number for name in list_shards(self.folder)), default=0)
            if number == 1:
                (self.folder / "space.json").write_text(self._description + "\n", "utf-8")
            os.replace(aside, self.folder / f"{number:08}-{digest}.vectors")
            for path in self.folder.glob(".*.tmp"):  # of writers that were killed
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink(missing_ok=True)
        flush_folder(self.folder)

    def _shards(self) -> list[Shard]:
        try:
            names = list_shards(self.folder)
            for name in names:
                if name not in self._open and name not in self._damaged:
                    self._try_to_open(name)
        except OSError as error:
            raise StorageError(
                f"{error.filename or self.folder}: the stored vectors cannot be read "
                f"({error.strerror or error})"
            ) from None
        return [self._open[name] for name in names if name in self._open]

    def _try_to_open(self, name: ShardName) -> None:
        try:
            self._open[name] = open_shard(name)
        except FileNotFoundError:
            pass  # another process has set it aside
        except ShardDamagedError as error:
            self._set_aside(name, str(error))

    def _is_usable(self, shard: Shard, dim: int) -> bool:
        """Whether the content is as written; ``dim`` is that of other shards, 0 when unknown."""
        try:
            if shard.name not in self._checked:
                check_shard(shard.name)
                self._checked.add(shard.name)
            if dim not in (0, shard.vectors.shape[1]):
                raise ShardDamagedError(f"its vectors have {shard.vectors.shape[1]} dimensions")
        except FileNotFoundError:
            return False
        except ShardDamagedError as error:
            self._set_aside(shard.name, str(error))
            return False
        return True

    def _set_aside(self, name: ShardName, reason: str) -> None:
        self._open.pop(name, None)
        self._damaged.add(name)
        log.warning("%s is damaged (%s); its texts are encoded again", name.path, reason)
        try:
            name.path.rename(name.path.with_suffix(".damaged"))
        except OSError as error:
            log.warning("%s cannot be renamed (%s)", name.path, error.strerror)
