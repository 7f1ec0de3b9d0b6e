"""A Prefect server as a child process: started, waited for, and stopped with its command."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import FailedError

PR_SET_PDEATHSIG = 1  # linux/prctl.h
START_SECONDS = 120.0
APPLICATION = "prefect.server.api.server:create_app"
UVICORN = ["--log-level", "error", "--lifespan", "on", "--host", "127.0.0.1", "--port"]


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
            if is_healthy(f"{self.url}/health"):
                return
            time.sleep(0.05)
        how = "ended at once" if self.process.poll() is not None else "did not answer in time"
        raise FailedError(
            f"the Prefect server {how}: {self._last_words()}. Its log is {self.log}. "
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


def start_server(port: int, log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a server on the loopback interface that ends with this process."""
    with log.open("wb") as stream:
        return subprocess.Popen(  # noqa: S603 - fixed words
            [sys.executable, "-m", "uvicorn", "--factory", APPLICATION, *UVICORN, str(port)],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,  # Ctrl-C is for the command, which then stops the server
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )


def stop_process(process: subprocess.Popen[bytes], seconds: float = 10) -> None:
    """Ask a process to end, and end it when it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_with_parent() -> None:
    """Ask Linux to end this process when the command that started it is killed."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_healthy(url: str) -> bool:
    """Whether a page answers with 200."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=5)
    try:
        connection.request("GET", urllib.parse.urlsplit(url).path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def is_alive(pid: int) -> bool:
    """Whether a process has this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def command_line(pid: int) -> str:
    """What a process was started with; empty when that cannot be told."""
    import psutil

    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""
