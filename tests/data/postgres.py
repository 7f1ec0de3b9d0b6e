"""A PostgreSQL of the test's own, in a temporary folder, on the loopback interface."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.server_processes import free_port

HOW_TO_GET_IT = "apt-get install postgresql"
USER = "prefect"
PASSWORD = "of-the-test"  # noqa: S105 - of a database that lives for seconds


def find_binaries() -> Path | None:
    """Where ``initdb`` and ``postgres`` are: Debian keeps them off the path."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


@contextlib.contextmanager
def postgres(binaries: Path) -> Iterator[str]:
    """Start one; gives the URL of its database ``postgres`` for SQLAlchemy and asyncpg."""
    folder = Path(tempfile.mkdtemp(prefix="rankhouse-postgres-"))
    # PostgreSQL refuses to run as root; its package brings a user.
    owner: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    if owner:
        shutil.chown(folder, "postgres", "postgres")
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o644)
    port = free_port()
    subprocess.run(
        [
            *(binaries / "initdb", "-D", folder / "data", "-U", USER, "-A", "scram-sha-256"),
            *("--pwfile", password, "--no-sync", "--encoding", "UTF8", "--locale", "C"),
        ],
        check=True,
        capture_output=True,
        cwd=folder,
        **owner,
    )
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "fsync": "off",
    }
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [binaries / "postgres", "-D", folder / "data", *words],
            stdout=log,
            stderr=log,
            cwd=folder,
            **owner,
        )
    try:
        _wait_until_ready(process, folder / "log")
        yield f"postgresql+asyncpg://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGINT)  # ends connections and stops
        process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while b"ready to accept connections" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
