"""The Prefect server of one command: a configured one is used, else a temporary, quiet one.

``prefect_settings`` must run before Prefect is imported; ``serving`` starts the temporary server
and, at the end, waits until it has recorded every task run before it stops.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from schemas.home import Home

DRAIN_SECONDS = 20.0

QUIET = {
    # Without these a temporary server prints a telemetry error and each state of each task.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "rankhouse",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "DO_NOT_TRACK": "1",
}


def has_configured_server() -> bool:
    """Whether the user has named a Prefect server, by environment or active profile."""
    return bool(os.environ.get("PREFECT_API_URL") or _active_profile().get("PREFECT_API_URL"))


@contextlib.contextmanager
def prefect_settings(home: Home) -> Iterator[dict[str, str]]:
    """Settings for a command in ``home``: those that the user has not set himself.

    Two commands at once do not share one SQLite file: the second one gets a copy of its own,
    which is deleted when it ends.

    Yields:
        The environment to set before Prefect is imported.
    """
    profile = _active_profile()
    wanted = dict(QUIET)
    wanted["PREFECT_LOCAL_STORAGE_PATH"] = str(home.prefect / "results")
    home.prefect.mkdir(parents=True, exist_ok=True)
    if not profile:
        wanted["PREFECT_HOME"] = str(home.prefect)
    with contextlib.ExitStack() as stack:
        if not has_configured_server():
            database = stack.enter_context(_own_database(home.prefect))
            wanted["PREFECT_API_DATABASE_CONNECTION_URL"] = f"sqlite+aiosqlite:///{database}"
        yield {
            name: value
            for name, value in wanted.items()
            if name not in os.environ and name not in profile
        }


@contextlib.contextmanager
def serving(home: Home) -> Iterator[None]:
    """Run a temporary server unless one is configured; stop it when it has recorded everything."""
    if has_configured_server():
        yield
        return
    from prefect.server.api.server import SubprocessASGIServer

    note = home.prefect / f"server-{os.getpid()}.json"
    server = SubprocessASGIServer()
    server.start()
    process = server.server_process
    if process is not None:
        note.write_text(json.dumps({"pid": process.pid, "command": os.getpid()}))
    try:
        yield
    finally:
        server.stop()
        note.unlink(missing_ok=True)


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
            if "prefect.server.api.server:create_app" in _command_line(pids["pid"]):
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
