"""The Prefect server of one command: a configured one is used, else a temporary, quiet one.

``prefect_server`` must be entered before Prefect is imported; ``wait_until_recorded`` keeps it
until it has recorded every task run.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import tomllib
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from schemas.errors import FailedError
from schemas.home import Home

PR_SET_PDEATHSIG = 1  # linux/prctl.h
START_SECONDS = 120.0
DRAIN_SECONDS = 20.0
APPLICATION = "prefect.server.api.server:create_app"
UVICORN = ["--log-level", "error", "--lifespan", "on", "--host", "127.0.0.1", "--port"]
EPHEMERAL = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",  # as Prefect starts its own: no scheduler, no UI
    "PREFECT__SERVER_FINAL": "1",
}

QUIET = {
    # Without these a temporary server prints a telemetry error and each state of each task.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "rankhouse",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "DO_NOT_TRACK": "1",
}


def has_configured_server() -> bool:
    """Whether the user has named a Prefect server, by environment or active profile."""
    return bool(os.environ.get("PREFECT_API_URL") or _active_profile().get("PREFECT_API_URL"))


@dataclass(frozen=True, slots=True)
class Server:
    """The server that a command talks to, and the environment that makes Prefect use it."""

    environment: dict[str, str]
    url: str | None = None  # None: the user's own
    process: subprocess.Popen[bytes] | None = None
    log: Path | None = None

    def wait_until_ready(self) -> None:
        """Wait until a temporary server answers.

        Raises:
            FailedError: it ended, or did not answer in time.
        """
        if self.process is None:
            return
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if _is_healthy(f"{self.url}/health"):
                return
            time.sleep(0.05)
        how = "ended at once" if self.process.poll() is not None else "did not answer in time"
        raise FailedError(
            f"Prefect's temporary server {how}: {self._last_words()}. Its log is {self.log}. "
            "Try again, or set PREFECT_API_URL to a server of your own."
        )

    def _last_words(self) -> str:
        """The last line of the server's log that says something."""
        if self.log is None or not self.log.exists():
            return "it has no log"
        lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if "rror" in line] or [
            line for line in lines if line
        ]
        return said[-1][:300] if said else "it said nothing"


@contextlib.contextmanager
def prefect_server(home: Home) -> Iterator[Server]:
    """Use the server that the user has configured, else run a temporary one in ``home``.

    It must be entered before Prefect is imported, with ``Server.environment`` set; the temporary
    server starts while the caller imports. Prefect's own temporary server would import the whole
    server into this process too, share one SQLite file between commands, and stop before it has
    recorded what it was sent.
    """
    profile = _active_profile()
    home.prefect.mkdir(parents=True, exist_ok=True)
    environment = {**QUIET, "PREFECT_LOCAL_STORAGE_PATH": str(home.prefect / "results")}
    if not profile:
        environment["PREFECT_HOME"] = str(home.prefect)
    if has_configured_server():
        yield Server(_unset(environment, profile))
        return
    stop_orphans(home)
    with _own_database(home.prefect) as database:
        _set_damaged_aside(database)
        environment["PREFECT_API_DATABASE_CONNECTION_URL"] = f"sqlite+aiosqlite:///{database}"
        with _temporary_server(home, _unset(environment, profile)) as server:
            yield server


@contextlib.contextmanager
def _temporary_server(home: Home, environment: dict[str, str]) -> Iterator[Server]:
    port = _free_port()
    log = home.prefect / f"server-{os.getpid()}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - fixed words
            [sys.executable, "-m", "uvicorn", "--factory", APPLICATION, *UVICORN, str(port)],
            env={**os.environ, **environment, **EPHEMERAL},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,  # Ctrl-C is for the command, which then stops the server
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
    note = home.prefect / f"server-{os.getpid()}.json"
    note.write_text(json.dumps({"pid": process.pid, "command": os.getpid()}))
    url = f"http://127.0.0.1:{port}/api"
    try:
        yield Server({**environment, "PREFECT_API_URL": url}, url, process, log)
    finally:
        _flush_logs()
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        note.unlink(missing_ok=True)
        if process.returncode in (0, -signal.SIGTERM):
            log.unlink(missing_ok=True)


def wait_until_recorded(flow_run_id: Any, n_tasks: int) -> bool:
    """Wait until the server knows ``n_tasks`` finished task runs of a flow run.

    The temporary server records task runs from a stream of events and loses what is still on its
    way when it stops.

    Returns:
        Whether it recorded them all within ``DRAIN_SECONDS``.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    deadline = time.monotonic() + DRAIN_SECONDS
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            runs = client.read_task_runs(flow_run_filter=wanted)
            if sum(run.state is not None and run.state.is_final() for run in runs) >= n_tasks:
                return True
            time.sleep(0.1)
    return False


def stop_orphans(home: Home) -> None:
    """Stop temporary servers whose command was killed before it could stop them itself."""
    for note in home.prefect.glob("server-*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            pids = json.loads(note.read_text())
            if _is_alive(pids["command"]):
                continue
            if APPLICATION in _command_line(pids["pid"]):
                os.kill(pids["pid"], signal.SIGTERM)
            note.unlink(missing_ok=True)


@contextlib.contextmanager
def _own_database(folder: Path) -> Iterator[Path]:
    database = folder / "prefect.db"
    lock = FileLock(folder / "prefect.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        private = folder / f"prefect-{os.getpid()}.db"
    else:
        try:
            yield database
        finally:
            lock.release()
        return
    _copy_database(database, private)
    try:
        yield private
    finally:
        for leftover in folder.glob(f"{private.name}*"):
            leftover.unlink(missing_ok=True)


def _set_damaged_aside(database: Path) -> None:
    """Rename a database that SQLite cannot read: it holds Prefect's records, no results."""
    if not database.exists():
        return
    try:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):  # locked or unreadable, not damaged
            return
        aside = database.with_suffix(f".damaged-{int(time.time())}")
        database.rename(aside)
        for journal in ("-wal", "-shm"):
            database.with_name(database.name + journal).unlink(missing_ok=True)
        logging.getLogger("rankhouse").warning(
            "%s is damaged (%s): moved to %s, and a new one is made; no result is in it",
            database,
            error,
            aside.name,
        )


def _copy_database(source: Path, target: Path) -> None:
    """Copy so that the second server need not migrate; without a source it starts from nothing."""
    target.unlink(missing_ok=True)
    if not source.exists():
        return
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as original,
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    except sqlite3.Error:  # being created just now: the second server makes its own
        target.unlink(missing_ok=True)


def _active_profile() -> dict[str, str]:
    """The settings of the user's active Prefect profile, read without importing Prefect."""
    folder = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    path = Path(os.environ.get("PREFECT_PROFILES_PATH", folder / "profiles.toml"))
    try:
        profiles = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    name = os.environ.get("PREFECT_PROFILE", profiles.get("active", ""))
    settings = profiles.get("profiles", {}).get(name, {})
    return {key: str(value) for key, value in settings.items()}


def _end_with_parent() -> None:
    """Ask Linux to end this process when the command that started it is killed."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _unset(environment: dict[str, str], profile: dict[str, str]) -> dict[str, str]:
    """Without what the user has set by environment or profile."""
    return {
        name: value
        for name, value in environment.items()
        if name not in os.environ and name not in profile
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_healthy(url: str) -> bool:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=5)
    try:
        connection.request("GET", urllib.parse.urlsplit(url).path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _flush_logs() -> None:
    """Send what Prefect still holds before its server goes, if Prefect was imported at all."""
    if "prefect.logging.handlers" in sys.modules:
        from prefect.logging.handlers import APILogWorker

        APILogWorker.drain_all(timeout=5)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _command_line(pid: int) -> str:
    import psutil

    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""
