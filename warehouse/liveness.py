"""Whether a process that once wrote down who it is still lives."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

START_TOLERANCE = 2.0  # seconds by which a process's start time may be read differently


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told from a later one with the same number by its start time.

    ``space`` says where the number means something: one boot of one machine, and in it one
    container. Two containers may share a host name and number their processes from 1.
    """

    pid: int
    started: float  # seconds since 1970
    host: str
    space: str

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Process:
        """Read what ``dataclasses.asdict`` wrote.

        Raises:
            KeyError, ValueError, TypeError: it is something else.
        """
        return cls(
            int(str(value["pid"])),
            float(str(value["started"])),
            str(value["host"]),
            str(value["space"]),
        )

    def is_here(self) -> bool:
        """Whether its number means something where this process runs."""
        return self.space == _space()

    def is_gone(self) -> bool:
        """Whether it has certainly ended; False also where that cannot be known from here."""
        import psutil

        if not self.is_here():
            return False
        try:
            found = psutil.Process(self.pid)
            if found.status() == psutil.STATUS_ZOMBIE:
                return True
            return bool(abs(found.create_time() - self.started) > START_TOLERANCE)
        except psutil.NoSuchProcess:
            return True
        except psutil.AccessDenied:
            return False


def this_process() -> Process:
    """The process that asks."""
    import psutil

    started = psutil.Process().create_time()
    return Process(os.getpid(), started, socket.gethostname(), _space())


def _space() -> str:
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:  # not Linux: the host's name has to do
        pass
    return " ".join(parts)
