"""Where a run says that it lives, and leaves its results for the loader."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import FailedError, RefusedError, StorageError, ValidationRefusedError
from schemas.home import Home
from warehouse.files import is_full, why_unwritten
from warehouse.liveness import Process, this_process
from warehouse.migrate import schema_version
from warehouse.parts import DRAFT, OWNER, write_json, write_part
from warehouse.refusing import explain_refusals, keep_refused

if TYPE_CHECKING:
    from types import TracebackType

    import polars as pl


STARTED = "started.json"
REFUSED = "refused"  # a folder of the spool; no run id looks like it
RENEWAL = 30.0  # seconds between signs of life


def new_run_id() -> str:
    """A UUIDv7 (RFC 9562): ids sort by the time they were made."""
    milliseconds = time.time_ns() // 1_000_000
    random_bits = secrets.randbits(74)
    value = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76
    value |= (random_bits >> 62) << 64 | 0b10 << 62 | random_bits & (1 << 62) - 1
    return str(uuid.UUID(int=value))


@dataclass(frozen=True, slots=True)
class Start:
    """What ``started.json`` says: who runs, where it stands, and when it last said so."""

    run_id: str
    experiment: str
    stage: str
    started_at: str
    renewed_at: str
    process: Process
    error: str | None = None  # it ended without results, and why


class Spool:
    """The spool of one home."""

    def __init__(self, home: Home):
        self.folder = home.spool

    def start(self, run_id: str, *, experiment: str) -> StartedRun:
        """Write ``started.json`` and renew it until the run ends.

        Raises:
            StorageError: the spool cannot be written.
            FailedError: its disk is full.
        """
        return StartedRun(self.folder, run_id, experiment)

    def put_events(self, events: pl.DataFrame) -> Path:
        """Leave events of their own (a note, a tag) for the loader; see ``put_tables``."""
        return self.put_tables({"events": events})

    def put_tables(self, frames: Mapping[str, pl.DataFrame]) -> Path:
        """Leave rows that are no part of a run for the loader: events, comparisons, baselines.

        Rows whose id is stored already stay as they are.

        Raises:
            ValidationRefusedError: they break a table's model.
            StorageError: the spool cannot be written.
            FailedError: its disk is full.
        """
        from warehouse.validate import check_table

        refusals = [refusal for name in frames for refusal in check_table(name, frames[name])]
        if refusals:
            raise ValidationRefusedError(explain_refusals(refusals, None))
        return self._put(frames)

    def put_values(self, frames: Mapping[str, pl.DataFrame]) -> Path:
        """Leave values of past runs for the loader: query_metrics, run_metrics and measures.

        What is stored already under the same contract stays as it is.

        Raises:
            ValidationRefusedError: they break a table's model, or do not fit each other.
            StorageError: the spool cannot be written.
            FailedError: its disk is full.
        """
        from warehouse.validate import find_refusals_of_values

        refusals = find_refusals_of_values(frames)
        if refusals:
            raise ValidationRefusedError(explain_refusals(refusals, None))
        return self._put(frames)

    def _put(self, frames: Mapping[str, pl.DataFrame]) -> Path:
        part_id = new_run_id()
        folder = self.folder / part_id
        try:
            folder.mkdir(parents=True)
            write_json(folder / OWNER, asdict(this_process()))
            return write_part(folder, part_id, frames, schema_version=schema_version())
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise why_unwritten(self.folder, error) from None


class StartedRun:
    """A run between its start and its end; a context manager.

    Left without ``finish``, it stays behind as a start that ended with an error, and the loader
    makes it an event ``crashed``. Left with a RefusedError it goes without a trace, since nothing
    had been spent, and with Ctrl-C, since somebody meant it.
    """

    def __init__(self, folder: Path, run_id: str, experiment: str):
        self.run_id = run_id
        self._spool = folder
        self._folder = folder / run_id
        now = _now()
        self._start = Start(run_id, experiment, "start", now, now, this_process())
        self._lock = threading.Lock()
        self._ended = threading.Event()
        try:
            self._folder.mkdir(parents=True)
            self._renew()
        except FileExistsError:
            raise StorageError(f"{self._folder}: a run with this id has been started") from None
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise why_unwritten(folder, error) from None
        threading.Thread(target=self._keep_renewing, name="spool-renewal", daemon=True).start()

    def __enter__(self) -> StartedRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended.is_set():
            return
        if isinstance(error, RefusedError | KeyboardInterrupt):
            self._withdraw()
        else:
            self._end_with(error)

    def enter_stage(self, name: str) -> None:
        """Say which stage the run is in: a crash is reported with it."""
        with self._lock:
            self._start = replace(self._start, stage=name)
        with suppress(OSError):  # a full disk is reported by what fails for lack of it
            self._renew()

    def finish(self, frames: Mapping[str, pl.DataFrame]) -> Path:
        """Validate the frames and leave them for the loader.

        Args:
            frames: table name to frame; ``runs`` is one row. Empty frames may be left out.

        Returns:
            The folder ``ready``.

        Raises:
            ValidationRefusedError: nothing is written; the frames and the reasons are kept in
                ``spool/refused/<run_id>``.
            FailedError: the disk is full or the spool cannot be written.
        """
        from warehouse.validate import find_refusals

        refusals = find_refusals(frames, run_id=self.run_id)
        if refusals:
            kept = keep_refused(self._spool / REFUSED / self.run_id, frames, refusals)
            self._withdraw()
            raise ValidationRefusedError(explain_refusals(refusals, kept))
        # From the rename on the folder belongs to the loader: no renewal may bring it back.
        with self._lock:
            self._ended.set()
        try:
            return write_part(self._folder, self.run_id, frames, schema_version=schema_version())
        except OSError as error:
            shutil.rmtree(self._folder / DRAFT, ignore_errors=True)
            self._ended.clear()
            self._end_with(error)
            reason = "no space is left on its disk" if is_full(error) else error.strerror or error
            raise FailedError(
                f"{self._folder}: the results cannot be written ({reason}). "
                "Make room and run again: finished stages are reused."
            ) from error

    def _keep_renewing(self) -> None:
        while not self._ended.wait(RENEWAL):
            with suppress(OSError):
                self._renew()

    def _renew(self) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            self._start = replace(self._start, renewed_at=_now())
            self._folder.mkdir(parents=True, exist_ok=True)
            write_json(self._folder / STARTED, asdict(self._start))

    def _end_with(self, error: BaseException | None) -> None:
        reason = "left without results" if error is None else f"{type(error).__name__}: {error}"
        with self._lock:
            self._start = replace(self._start, error=reason[:1000])
        with suppress(OSError):
            self._renew()
        self._ended.set()

    def _withdraw(self) -> None:
        with self._lock:
            self._ended.set()
            shutil.rmtree(self._folder, ignore_errors=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
