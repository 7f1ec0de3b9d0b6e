"""A part: the frames of one run (or a few events) as Parquet, there as a whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from warehouse.files import flush, has_no_room, is_full

if TYPE_CHECKING:
    import polars as pl

MANIFEST = "part.json"
DRAFT, READY = "part.tmp", "ready"
OWNER = "owner.json"  # the process that writes a part which no started.json announces
KINDS = {"run": "runs", "values": "query_metrics", "events": "events"}
"""What a part is: a whole run, new values of past runs, or events; and the table that shows it."""


class PartRefusedError(Exception):
    """A part that cannot be loaded, now or later; the message says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was read from its manifest; ``tables`` maps names to files."""

    part_id: str  # the run's id; for events or values alone, an id of their own
    kind: str  # one of KINDS
    schema_version: int
    folder: Path
    tables: Mapping[str, Path]


def write_part(
    folder: Path, part_id: str, frames: Mapping[str, pl.DataFrame], *, schema_version: int
) -> Path:
    """Write ``folder/part.tmp``, flush it and rename it to ``folder/ready``.

    Raises:
        OSError: the disk is full or the folder cannot be written; no ``ready`` is there then.
    """
    draft, ready = folder / DRAFT, folder / READY
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(parents=True)
    tables: dict[str, Any] = {}
    for name, frame in frames.items():
        path = draft / f"{name}.parquet"
        write_frame(path, frame)
        flush(path)
        tables[name] = {"rows": frame.height, "sha256": sha256_of(path)}
    manifest = {
        "part_id": part_id,
        "kind": next((kind for kind, table in KINDS.items() if table in frames), "events"),
        "schema_version": schema_version,
        "tables": tables,
    }
    write_json(draft / MANIFEST, manifest)
    flush(draft)
    draft.rename(ready)
    flush(folder)
    return ready


def write_frame(
    path: Path, frame: pl.DataFrame, *, compression: Literal["lz4", "zstd"] = "lz4"
) -> None:
    """Write one Parquet file, in row groups of DuckDB's own size; lz4 is the quicker to write.

    Raises:
        OSError: also for a full disk, which Polars has other errors for, or a defect of Parquet.
    """
    try:
        frame.write_parquet(path, compression=compression, row_group_size=122_880)
    except Exception as error:
        if not isinstance(error, OSError) and (is_full(error) or has_no_room(path.parent)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


def read_part(ready: Path) -> Part:
    """Read a part's manifest and check that its files are what was written.

    Raises:
        PartRefusedError: no manifest, a file missing, short or altered.
    """
    try:
        manifest = json.loads((ready / MANIFEST).read_text("utf-8"))
        part_id, kind = str(manifest["part_id"]), str(manifest["kind"])
        version = int(manifest["schema_version"])
        tables = {str(name): dict(entry) for name, entry in manifest["tables"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PartRefusedError(f"{MANIFEST} cannot be read: {error!r}") from None
    if kind not in KINDS or ready.parent.name != part_id:
        raise PartRefusedError(f"{MANIFEST} is of part {part_id!r} ({kind}), not of this folder")
    paths = {name: ready / f"{name}.parquet" for name in tables}
    for name, path in paths.items():
        if not path.is_file():
            raise PartRefusedError(f"{path.name} is missing")
        if sha256_of(path) != tables[name].get("sha256"):
            raise PartRefusedError(f"{path.name} is not what was written: short or altered")
    return Part(part_id, kind, version, ready, paths)


def write_json(path: Path, value: object) -> None:
    """Write JSON so that a reader sees the old file or the new one, flushed."""
    draft = path.with_name(f"{path.name}.tmp")
    try:
        draft.write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")
        flush(draft)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def sha256_of(path: Path) -> str:
    """Digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
