"""What processes that were killed left behind, in the spool and beside the warehouse."""

from __future__ import annotations

import json
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from schemas.home import Home
from warehouse.crashes import STALE_AFTER
from warehouse.liveness import Process
from warehouse.parts import OWNER, READY
from warehouse.spool import REFUSED, STARTED

TRASH = ".trash-"


def sweep(home: Home) -> None:
    """Delete what nobody can finish any more; only the holder of the warehouse's lock may.

    Trash of loaders; parts whose writer is dead; starts that were killed before they could say who
    they are (those of the last ten minutes may still be about to); drafts of new warehouses.
    """
    for entry in _entries(home.spool):
        if entry.name.startswith(TRASH) or _is_abandoned(entry):
            shutil.rmtree(entry, ignore_errors=True)
    drafts = re.compile(rf"\.{re.escape(home.warehouse.name)}-\d+-[0-9a-f]{{8}}(\.wal)?")
    for entry in _entries(home.path):
        if drafts.fullmatch(entry.name) and _is_old(entry):
            with suppress(OSError):
                entry.unlink()


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []


def _is_abandoned(folder: Path) -> bool:
    """Whether a folder of the spool holds neither results nor a start, and never will."""
    is_other = folder.name == REFUSED or not folder.is_dir()
    if is_other or (folder / READY).exists() or (folder / STARTED).exists():
        return False
    try:
        owner = Process.from_json(json.loads((folder / OWNER).read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return _is_old(folder)
    return owner.is_gone() or (_is_old(folder) and not owner.is_here())


def _is_old(path: Path) -> bool:
    try:
        times = [entry.stat().st_mtime for entry in (path, *path.rglob("*"))]
    except OSError:  # it changes: somebody is there
        return False
    return time.time() - max(times) > STALE_AFTER.total_seconds()
