"""Where everything of one Rankhouse lives."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import StorageError

HOME_VARIABLE = "RANKHOUSE_HOME"
LEAST_FREE = 20_000_000
"""Bytes: Prefect's database and the results of a small run."""


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of a warehouse, its spool, artifacts and Prefect's files."""

    path: Path

    @property
    def warehouse(self) -> Path:
        """The DuckDB file that only the loader writes."""
        return self.path / "warehouse.duckdb"

    @property
    def published(self) -> Path:
        """The read-only copy that everyone reads."""
        return self.path / "published.duckdb"

    @property
    def artifacts(self) -> Path:
        """The default artifact store."""
        return self.path / "artifacts"

    @property
    def items(self) -> Path:
        """The item stores: embeddings and LLM calls."""
        return self.path / "items"

    @property
    def spool(self) -> Path:
        """Runs that have started, and parts that wait for the loader."""
        return self.path / "spool"

    @property
    def requests(self) -> Path:
        """Comparisons that nights have asked for and nobody has made yet."""
        return self.path / "requests"

    @property
    def suites(self) -> Path:
        """Which file each suite of this home is read from."""
        return self.path / "suites"

    @property
    def prefect(self) -> Path:
        """Prefect's database and result records."""
        return self.path / "prefect"

    def prepare(self) -> Home:
        """Create the folder; raise StorageError when it cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.path).free
            probe = self.path / f".writable-{os.getpid()}"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise StorageError(
                f"{self.path}: the home folder cannot be written ({error.strerror}). "
                f"Set {HOME_VARIABLE} to a folder that can."
            ) from None
        if free < LEAST_FREE:
            raise StorageError(
                f"{self.path}: {free / 1e6:.0f} MB are free on its disk, and a run needs at least "
                f"{LEAST_FREE / 1e6:.0f}. Make room, or set {HOME_VARIABLE} to a folder elsewhere."
            )
        return self


def find_home(start: Path | None = None) -> Home:
    """``$RANKHOUSE_HOME``, else the nearest ``.rankhouse/`` upwards, else a new one here.

    Raises:
        StorageError: it is there and no folder, or the current folder is gone.
    """
    named = os.environ.get(HOME_VARIABLE)
    try:
        here = (start or Path.cwd()).absolute()
    except FileNotFoundError:
        if not named or not Path(named).is_absolute():
            raise StorageError(
                "the current folder no longer exists; change to one that does"
            ) from None
        here = Path(named)
    home = Home(here / Path(named).expanduser()) if named else _nearest(here)
    if home.path.exists() and not home.path.is_dir():
        raise StorageError(
            f"{home.path}: the home folder is a file. Move it away, or set {HOME_VARIABLE} to a "
            "folder."
        )
    return home


def _nearest(here: Path) -> Home:
    for folder in (here, *here.parents):
        if (folder / ".rankhouse").is_dir():
            return Home(folder / ".rankhouse")
    return Home(here / ".rankhouse")
