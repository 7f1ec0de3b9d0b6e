"""The Prefect server of ``rankhouse serve``: with a UI and a database that lasts, restarted."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from flows.prefect_databases import set_damaged_aside
from flows.prefect_settings import settings_for, unset
from flows.server_processes import Server, start_server, stop_process
from schemas.errors import StorageError, UsageError
from schemas.home import Home

LONGEST_PAUSE = 60.0  # seconds before a server that ended is started again
STEADY_SECONDS = 300.0  # a server that lived this long is started again at once

LASTING = {
    # In memory a server that restarts would forget who holds a slot: the night that runs would be
    # stopped at its next renewal, and a slot might never be freed.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
    # What keeps the schedule asks again by itself, and must not hang when it is to stop.
    "PREFECT_CLIENT_MAX_RETRIES": "2",
}


@dataclass
class LastingServer:
    """A server on a port of the loopback interface, kept up while its command lives."""

    port: int
    log: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = 0.0

    @property
    def ui(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.port}"

    def keep(self) -> None:
        """Start the server, when it is not running, and wait until it answers.

        Raises:
            FailedError: it ended at once, or does not answer.
        """
        if self.process is not None and self.process.poll() is None:
            return
        if self.process is not None:
            lived = time.monotonic() - self.started
            self.pause = 1.0 if lived > STEADY_SECONDS else min(2 * self.pause + 1, LONGEST_PAUSE)
            time.sleep(self.pause)
        self.started = time.monotonic()
        self.process = start_server(self.port, self.log, self.environment)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until it answers.

        Raises:
            FailedError: it ended, or did not answer in time.
        """
        Server({}, f"{self.ui}/api", self.process, self.log).wait_until_ready()

    def stop(self) -> None:
        """End it, once it has written what it was sent."""
        if self.process is not None:
            stop_process(self.process)


@contextlib.contextmanager
def lasting_server(home: Home, port: int) -> Iterator[LastingServer]:
    """A server with its database in ``home``; it is not started before ``keep`` is called.

    It must be entered before Prefect is imported, with ``environment`` set.

    Raises:
        UsageError: another program listens on the port.
        StorageError: another process serves this home.
    """
    folder = home.prefect
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(home):
        _refuse_busy(port)
        database = folder / "serving.db"
        set_damaged_aside(database)
        own = {
            "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}",
            "PREFECT_SERVER_API_HOST": "127.0.0.1",
            "PREFECT_SERVER_API_PORT": str(port),
            "PREFECT_UI_STATIC_DIRECTORY": str(folder / "ui"),
            **LASTING,
        }
        url = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api"}
        server = LastingServer(
            port, folder / "serving.log", {**settings_for(home), **unset(own), **url}
        )
        try:
            yield server
        finally:
            server.stop()


@contextlib.contextmanager
def _only_one(home: Home) -> Iterator[None]:
    """Two servers on one SQLite file would each start every night."""
    lock = FileLock(home.prefect / "serving.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise StorageError(
            f"{home.path}: another `rankhouse serve` runs in this home. Stop it, use another home, "
            "or set PREFECT_API_URL to the URL of its server plus /api to serve a second suite "
            "there."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _refuse_busy(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UsageError(
                f"port {port} of 127.0.0.1 cannot be used ({error.strerror}); end what listens "
                "there, or choose another with --port"
            ) from None
