"""The artifact store: large results as files named by their content.

A file appears whole or not at all. Its digest is checked when it is first read in a process, and
again when the file is no longer the one that was checked.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from schemas.artifacts import Artifact
from schemas.errors import ArtifactDamagedError, FailedError, StageError, StorageError
from tasks.file_digests import rename_file, sha256_of_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 1 << 20

COMPRESSION: Any = {"compression": "zstd", "compression_level": 3}
ROWS_AT_ONCE = 2_048
CHARACTERS_AT_ONCE = 2_000_000
"""Of a frame that is written and read a part at a time, at most; of texts."""


class ArtifactStore:
    """Artifacts below an fsspec URL or a local folder.

    Args:
        url: a folder, or an fsspec URL such as ``s3://bucket/rankhouse``.
        scratch: a local folder; artifacts of a remote store are kept there once downloaded.
    """

    def __init__(self, url: str, *, scratch: Path):
        from fsspec.core import url_to_fs

        try:
            self._files, self._root = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise StorageError(
                f"execution.store = {url!r} cannot be opened: {error}. Expected a folder or an "
                "fsspec URL; object stores need their package, such as s3fs."
            ) from None
        protocols = self._files.protocol
        self._is_local = "file" in (protocols if isinstance(protocols, tuple) else (protocols,))
        self._folder = Path(self._root) if self._is_local else scratch

    def prepare(self) -> ArtifactStore:
        """Create the root; raise StorageError when it cannot be written."""
        probe = f"{self._root}/.writable-{secrets.token_hex(4)}"
        try:
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe_file(probe, b"")
            self._files.rm_file(probe)
        except OSError as error:
            raise StorageError(
                f"{self._root}: the artifact store cannot be written "
                f"({error.strerror or error}). Set execution.store to a place that can."
            ) from None
        return self

    def put_frame(self, kind: str, frame: pl.DataFrame) -> Artifact:
        """Store a frame as Parquet."""
        buffer = io.BytesIO()
        frame.write_parquet(buffer, statistics=False, row_group_size=ROWS_AT_ONCE, **COMPRESSION)
        return self._put(kind, ".parquet", buffer.getbuffer(), frame.height)

    def put_rows(self, kind: str, rows: Iterable[tuple[Any, ...]], schema: pl.Schema) -> Artifact:
        """Store the rows of a frame as Parquet; only a part of them is in memory.

        Raises:
            FailedError: they cannot be written.
            StageError: the rows themselves raised an OSError.
        """
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        form = schema.to_frame().to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        path, n_rows = self.scratch_file(".parquet"), 0
        options: Any = {
            "write_statistics": False,
            "use_dictionary": [name for name in schema if name != "text"],  # no text comes often
            **COMPRESSION,
        }
        try:
            with self._full_disk_explained():
                with ParquetWriter(path, form, **options) as file:
                    for part in _parts(_own_errors(rows), schema):
                        columns = zip(form.types, zip(*part, strict=True), strict=True)
                        arrays = [pa.array(values, of_type) for of_type, values in columns]
                        file.write_table(pa.Table.from_arrays(arrays, schema=form))
                        n_rows += len(part)
                return self.put_file(kind, path, suffix=".parquet", n_items=n_rows)
        finally:
            path.unlink(missing_ok=True)

    def put_array(self, kind: str, array: NDArray[Any]) -> Artifact:
        """Store an array (n_items, …) as ``.npy``, which ``array`` maps when it reads."""
        import numpy as np

        contiguous = np.ascontiguousarray(array)
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            buffer, np.lib.format.header_data_from_array_1_0(contiguous)
        )
        return self._put(
            kind,
            ".npy",
            buffer.getbuffer(),
            array.shape[0],
            tail=contiguous.reshape(-1).view(np.uint8).data,
        )

    def put_file(self, kind: str, path: Path, *, suffix: str, n_items: int) -> Artifact:
        """Move a local file, which nobody else writes to, into the store."""
        digest = sha256_of_file(path, is_own=True)
        artifact = Artifact(
            kind=kind, suffix=suffix, digest=digest, size=path.stat().st_size, n_items=n_items
        )
        target = self._local_path(artifact)
        target.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
        rename_file(path, target)
        _sync_folder(target.parent)
        self._upload(artifact)
        return artifact

    def scratch_file(self, suffix: str) -> Path:
        """A new path inside the store's file system, for ``put_file``."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f".making-{os.getpid()}-{secrets.token_hex(6)}{suffix}"

    def frame(self, artifact: Artifact, *, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Read a frame, or some columns of it."""
        path = self.path(artifact)
        names = None if columns is None else list(columns)
        return pl.read_parquet(path, columns=names, use_statistics=False, memory_map=False)

    def frames(self, artifact: Artifact, *, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Read some columns of a frame a part at a time; only a part is in memory."""
        from pyarrow.parquet import ParquetFile

        with ParquetFile(self.path(artifact), pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                part = file.read_row_group(group, columns=list(columns), use_threads=False)
                yield pl.DataFrame(part).select(columns)

    def array(self, artifact: Artifact) -> NDArray[Any]:
        """Map an array, read-only; its type is the one that it was stored with."""
        import numpy as np

        mapped: NDArray[Any] = np.load(self.path(artifact), mmap_mode="r")
        return mapped

    def path(self, artifact: Artifact) -> Path:
        """A local path of the artifact, downloaded when the store is remote.

        Raises:
            ArtifactDamagedError: it is missing, short, or its bytes have another digest.
        """
        path = self._local_path(artifact)
        if not self._is_local and not path.exists():
            self._download(artifact, path)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise ArtifactDamagedError(
                f"artifact {artifact.name} is missing", name=artifact.name
            ) from None
        if size != artifact.size:
            raise ArtifactDamagedError(
                f"artifact {artifact.name} has {size} bytes, expected {artifact.size}",
                name=artifact.name,
            )
        if sha256_of_file(path) != artifact.digest:
            raise ArtifactDamagedError(
                f"artifact {artifact.name} was altered: its bytes have another digest",
                name=artifact.name,
            )
        return path

    def has(self, artifact: Artifact) -> bool:
        """Whether the artifact is in the store with its recorded size (the digest is not read)."""
        try:
            if self._is_local:
                return self._local_path(artifact).stat().st_size == artifact.size
            return bool(self._files.size(self._url(artifact)) == artifact.size)
        except FileNotFoundError:
            return False

    def size_of(self, name: str) -> int | None:
        """Bytes of a stored artifact by its name; None: it is not there."""
        try:
            return int(self._files.size(f"{self._root}/{name}"))
        except FileNotFoundError:
            return None

    def forget(self, name: str) -> None:
        """Delete an artifact by its name, here and in the store; fine when it is already gone."""
        (self._folder / name).unlink(missing_ok=True)
        if not self._is_local and self._files.exists(f"{self._root}/{name}"):
            self._files.rm_file(f"{self._root}/{name}")

    def forget_damaged(self, name: str) -> None:
        """Delete an artifact unless it is whole: another run may have made it again meanwhile."""
        url = f"{self._root}/{name}"
        if not self._files.exists(url) or not self._is_whole(name):
            self.forget(name)
        elif not self._is_local:  # then the local copy is what was damaged
            (self._folder / name).unlink(missing_ok=True)

    def names(self) -> list[tuple[str, int]]:
        """All stored artifacts: name below the root, and bytes."""
        found = self._files.find(self._root, detail=True)
        prefix = len(self._root.rstrip("/")) + 1
        return sorted(
            (path[prefix:], int(entry["size"]))
            for path, entry in found.items()
            if path[prefix:].count("/") == 2
        )

    def age(self, name: str) -> float:
        """Seconds since an artifact was written; infinite when the store does not say."""
        try:
            written: float = self._files.modified(f"{self._root}/{name}").timestamp()
            return time.time() - written
        except (NotImplementedError, AttributeError):
            return math.inf

    def find_damaged(self) -> list[str]:
        """Names of stored artifacts whose bytes do not have the digest that they are named by."""
        return [name for name, _ in self.names() if not self._is_whole(name)]

    def _is_whole(self, name: str) -> bool:
        """Whether a stored artifact has the digest that it is named by."""
        digest = hashlib.sha256()
        with self._files.open(f"{self._root}/{name}", "rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest() == Path(name).stem

    def _put(
        self,
        kind: str,
        suffix: str,
        head: memoryview,
        n_items: int,
        *,
        tail: memoryview | None = None,
    ) -> Artifact:
        path = self.scratch_file(suffix)
        try:
            with self._full_disk_explained():
                with path.open("wb") as stream:
                    stream.write(head)
                    if tail is not None:
                        stream.write(tail)
                return self.put_file(kind, path, suffix=suffix, n_items=n_items)
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def _full_disk_explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else error
            raise FailedError(
                f"{self._folder}: an artifact could not be written ({reason}). "
                "Make room or set execution.store elsewhere, then run the same command again: "
                "finished stages are reused."
            ) from None

    def _local_path(self, artifact: Artifact) -> Path:
        return self._folder / artifact.name

    def _url(self, artifact: Artifact) -> str:
        return f"{self._root}/{artifact.name}"

    def _upload(self, artifact: Artifact) -> None:
        if not self._is_local:
            # One PUT or a completed multipart upload: an object store shows it whole or not at all.
            self._files.put_file(str(self._local_path(artifact)), self._url(artifact))

    def _download(self, artifact: Artifact, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.scratch_file(artifact.suffix)
        try:
            self._files.get_file(self._url(artifact), str(partial))
        except FileNotFoundError:
            partial.unlink(missing_ok=True)
            return
        partial.replace(path)


def _parts(rows: Iterable[tuple[Any, ...]], schema: pl.Schema) -> Iterator[list[tuple[Any, ...]]]:
    """Rows in parts of like memory: fewer where their texts are long."""
    at = schema.names().index("text") if "text" in schema else None
    part: list[tuple[Any, ...]] = []
    n_characters = 0
    for row in rows:
        part.append(row)
        n_characters += 0 if at is None else len(row[at])
        if len(part) >= ROWS_AT_ONCE or n_characters >= CHARACTERS_AT_ONCE:
            yield part
            part, n_characters = [], 0
    if part:
        yield part


def _own_errors(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Rows whose own failures are not taken for those of the file that they are written to."""
    try:
        yield from rows
    except OSError as error:
        raise StageError(f"what was to be stored could not be read: {error}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
