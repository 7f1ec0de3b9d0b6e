"""The processes of flow runs on this machine, known by a variable in their environment."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from psutil import Process

FLOW_RUN_VARIABLE = "PREFECT__FLOW_RUN_ID"
"""Prefect gives it to every process that runs a flow run."""


def processes_of(flow_run_id: UUID | str | None = None) -> dict[str, list[Process]]:
    """Processes on this machine that run flow runs, of one flow run or of all.

    Returns:
        By the flow run's id; this process, which may have been started by one, is left out.
    """
    import psutil

    found: dict[str, list[Process]] = {}
    for process in psutil.process_iter():
        try:
            name = process.environ().get(FLOW_RUN_VARIABLE)
        except (psutil.Error, OSError):
            continue
        if name and process.pid != os.getpid() and str(flow_run_id or name) == name:
            found.setdefault(name, []).append(process)
    return found


def end_processes(flow_run_id: UUID, seconds: float) -> None:
    """Ask the processes of a flow run to end, and end those that do not within ``seconds``."""
    import psutil

    processes = processes_of(flow_run_id).get(str(flow_run_id), [])
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=seconds)
