"""Where everything of one Rankhouse lives."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import StorageError

HOME_VARIABLE = "RANKHOUSE_HOME"


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
    def prefect(self) -> Path:
        """Prefect's database and result records."""
        return self.path / "prefect"

    def prepare(self) -> Home:
        """Create the folder; raise StorageError when it cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / f".writable-{os.getpid()}"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise StorageError(
                f"{self.path}: the home folder cannot be written ({error.strerror}). "
                f"Set {HOME_VARIABLE} to a folder that can."
            ) from None
        return self


def find_home(start: Path | None = None) -> Home:
    """``$RANKHOUSE_HOME``, else the nearest ``.rankhouse/`` upwards, else a new one here."""
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return Home(Path(named).expanduser().absolute())
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / ".rankhouse").is_dir():
            return Home(folder / ".rankhouse")
    return Home(here / ".rankhouse")
