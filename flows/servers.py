"""The Prefect server of one command: a configured one is used, else a temporary, quiet one.

``prefect_server`` must be entered before Prefect is imported; ``wait_until_recorded`` keeps it
until it has recorded every task run.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from flows.prefect_databases import own_database, set_damaged_aside
from flows.prefect_settings import has_configured_server, settings_for, unset
from flows.server_processes import (
    APPLICATION,
    Server,
    command_line,
    free_port,
    is_alive,
    start_server,
    stop_process,
)
from schemas.home import Home

DRAIN_SECONDS = 20.0
EPHEMERAL = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",  # as Prefect starts its own: no scheduler, no UI
    "PREFECT__SERVER_FINAL": "1",
}


@contextlib.contextmanager
def prefect_server(home: Home) -> Iterator[Server]:
    """Use the server that the user has configured, else run a temporary one in ``home``.

    It must be entered before Prefect is imported, with ``Server.environment`` set; the temporary
    server starts while the caller imports. Prefect's own temporary server would import the whole
    server into this process too, share one SQLite file between commands, and stop before it has
    recorded what it was sent.
    """
    environment = settings_for(home)
    if has_configured_server():
        yield Server(environment)
        return
    stop_orphans(home)
    with own_database(home.prefect) as database:
        set_damaged_aside(database)
        connection = {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}"}
        with _temporary_server(home, environment | unset(connection)) as server:
            yield server


@contextlib.contextmanager
def _temporary_server(home: Home, environment: dict[str, str]) -> Iterator[Server]:
    port = free_port()
    log = home.prefect / f"server-{os.getpid()}.log"
    process = start_server(port, log, {**environment, **EPHEMERAL})
    note = home.prefect / f"server-{os.getpid()}.json"
    note.write_text(json.dumps({"pid": process.pid, "command": os.getpid()}))
    url = f"http://127.0.0.1:{port}/api"
    try:
        yield Server({**environment, "PREFECT_API_URL": url}, url, process, log)
    finally:
        _flush_logs()
        stop_process(process)
        note.unlink(missing_ok=True)
        if process.returncode in (0, -signal.SIGTERM):
            log.unlink(missing_ok=True)


def wait_until_recorded(flow_run_id: Any, n_tasks: int) -> bool:
    """Wait until the server knows ``n_tasks`` finished task runs of a flow run and its subflows.

    The temporary server records task runs from a stream of events and loses what is still on its
    way when it stops.

    Returns:
        Whether it recorded them all within ``DRAIN_SECONDS``.
    """
    from prefect.client.orchestration import get_client

    deadline = time.monotonic() + DRAIN_SECONDS
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            if _count_finished_tasks(client, flow_run_id) >= n_tasks:
                return True
            time.sleep(0.1)
    return False


def _count_finished_tasks(client: Any, flow_run_id: Any) -> int:
    """Task runs of a flow run and its subflows; the calls of the subflows are none of ours."""
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterId,
        FlowRunFilterParentFlowRunId,
    )

    wanted = (
        FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id])),
        FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run_id])),
    )
    n_finished = 0
    for flow_runs in wanted:
        offset = 0
        while runs := client.read_task_runs(flow_run_filter=flow_runs, offset=offset):
            offset += len(runs)
            n_finished += sum(
                run.state is not None
                and run.state.is_final()
                and run.state.state_details.child_flow_run_id is None
                for run in runs
            )
    return n_finished


def stop_orphans(home: Home) -> None:
    """Stop temporary servers whose command was killed before it could stop them itself."""
    for note in home.prefect.glob("server-*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            pids = json.loads(note.read_text())
            if is_alive(pids["command"]):
                continue
            if APPLICATION in command_line(pids["pid"]):
                os.kill(pids["pid"], signal.SIGTERM)
            note.unlink(missing_ok=True)


def _flush_logs() -> None:
    """Send what Prefect still holds before its server goes, if Prefect was imported at all."""
    if "prefect.logging.handlers" in sys.modules:
        from prefect.logging.handlers import APILogWorker

        APILogWorker.drain_all(timeout=5)
