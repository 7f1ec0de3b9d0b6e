"""``rankhouse serve``: one process that keeps a Prefect server and starts each night as a child.

It holds no model and runs no night itself, so that a night that is killed, or takes all memory,
costs that night and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flows import flow_runs
from flows.flow_run_processes import FLOW_RUN_VARIABLE, end_processes, processes_of
from flows.lasting_servers import LastingServer
from flows.printing import say
from flows.scheduling import Timetable
from flows.server_processes import end_with_parent

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

PATIENT = {"PREFECT_CLIENT_MAX_RETRIES": "7"}
"""A night outlasts a restart of its server: it asks again after 2 + 4 + … + 128 seconds."""

POLL_SECONDS = 2.0
STOP_SECONDS = 20.0
"""How long a night has to end by itself when serving is stopped."""


@dataclass
class Night:
    """A flow run in a process of its own."""

    flow_run: FlowRun
    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)

    @property
    def is_alive(self) -> bool:
        """Whether it runs; it goes on when only Prefect's executor was killed."""
        return self.process.poll() is None or bool(processes_of(self.flow_run.id))

    @property
    def minutes(self) -> float:
        """Since it began."""
        return (time.monotonic() - self.started) / 60


@dataclass
class Serving:
    """A suite that is being served: its deployment, its schedule and the night that runs."""

    name: str
    client: SyncPrefectClient
    deployment_id: UUID
    timetable: Timetable
    log: Path
    ui: str
    tell: Callable[[str], None]  # one line a night, for standard output
    night: Night | None = None
    trouble: str | None = None

    def run(self, server: LastingServer | None) -> None:
        """Start nights when they are due, until a signal comes; a failed night stops nothing."""
        self._say_next()
        while True:
            try:
                if server is not None:
                    server.keep()
                self._step()
                self.trouble = None
            except Exception as error:  # a server that is away comes back; the schedule has to last
                self._say_trouble(error)
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End the night that runs; its finished stages are reused by the next one."""
        if self.night is None:
            return
        end_processes(self.night.flow_run.id, STOP_SECONDS)
        self.night.process.wait()
        try:
            flow_runs.crash(self.client, self.night.flow_run.id, "serving was stopped")
        except Exception as error:  # without a server the next start does it
            self._say_trouble(error)
        self.night = None

    def _step(self) -> None:
        if self.night is not None:
            if self.night.is_alive:
                return
            self._end_night(self.night)
            self.night = None
            self._say_next()
        due = flow_runs.take_due(self.client, self.deployment_id)
        if due is not None and flow_runs.has_slot(self.client, due.id):
            self.night = Night(due, start_flow_run(due.id, self.log))
            say(f"{self._date(due)} {self.name}: began · {self._page(due)}")

    def _end_night(self, night: Night) -> None:
        code = night.process.returncode
        message = f"its process ended with {code}; the next night reuses what is finished"
        state = flow_runs.crash(self.client, night.flow_run.id, message)
        ended = "ended" if state is None else state.name or state.type.value
        said = f" – {state.message}" if state is not None and state.message else ""
        self.tell(
            f"{self._date(night.flow_run)} {self.name}: {ended}{said} · {night.minutes:.1f} min · "
            f"{self._page(night.flow_run)}"
        )

    def _date(self, run: FlowRun) -> str:
        return str(self.timetable.logical_date(run.expected_start_time or datetime.now(UTC)))

    def _page(self, run: FlowRun) -> str:
        return f"{self.ui}/runs/flow-run/{run.id}"

    def _say_next(self) -> None:
        fire = self.timetable.next_fire(datetime.now(UTC))
        when = "never" if fire is None else self.timetable.on_the_wall(fire)
        say(f"{self.name}: next night {when}")

    def _say_trouble(self, error: Exception) -> None:
        trouble = f"{type(error).__name__}: {error}".split("\n", 1)[0]
        if trouble != self.trouble:  # once, not at every poll
            say(
                f"{self.name}: the Prefect server does not do what it should ({trouble}); "
                "trying again"
            )
            self.trouble = trouble


def start_flow_run(flow_run_id: UUID, log: Path) -> subprocess.Popen[bytes]:
    """Run a pending flow run by Prefect's own executor, which watches for Cancel in the UI."""
    words = ["-m", "prefect", "flow-run", "execute", str(flow_run_id)]
    with log.open("wb") as stream:  # of the last night; Prefect keeps what runs log
        return subprocess.Popen(  # noqa: S603 - fixed words
            [sys.executable, *words],
            env={**os.environ, **PATIENT, FLOW_RUN_VARIABLE: str(flow_run_id)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
        )
