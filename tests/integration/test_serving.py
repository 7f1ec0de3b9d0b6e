"""`rankhouse serve`: nights come when they are due, whatever is killed; nothing is left over."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from flows.flow_run_processes import processes_of
from flows.server_processes import APPLICATION, free_port
from tests.data.served_project import (
    HeldServer,
    are_gone,
    tree_of,
    wait_for,
    write_nightly_project,
)
from tests.data.small_project import Command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVERY_MINUTE = "* * * * *"
JUST_BEFORE_MIDNIGHT = "59 23 * * *"


class Served:
    """A ``rankhouse serve`` that runs, what it says, and its Prefect API."""

    def __init__(self, command: Command, suite: Path, port: int):
        self.process = command.start("serve", str(suite), "--port", str(port))
        self.api = f"http://127.0.0.1:{port}/api"
        self.ui = f"http://127.0.0.1:{port}"
        self.out: list[str] = []
        self.err: list[str] = []
        for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            threading.Thread(target=lines.extend, args=(stream,), daemon=True).start()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask the API: GET, or POST with a body."""
        method = "GET" if body is None else "POST"
        return httpx.request(method, f"{self.api}/{path}", json=body, timeout=20).json()

    def deployment(self) -> dict[str, Any]:
        return self.ask("deployments/name/run_nightly/tiny")

    def nights(self, *states: str) -> list[dict[str, Any]]:
        """The suite's flow runs in these states, oldest first."""
        wanted = {"state": {"type": {"any_": list(states)}}}
        body = {"flow_runs": wanted, "sort": "EXPECTED_START_TIME_ASC"}
        return [run for run in self.ask("flow_runs/filter", body) if run["deployment_id"]]

    def night(self, flow_run_id: str) -> dict[str, Any]:
        return self.ask(f"flow_runs/{flow_run_id}")

    def click_run(self) -> str:
        """What the button in the UI does."""
        return self.ask(f"deployments/{self.deployment()['id']}/create_flow_run", {})["id"]

    def wait_for_line(self, *words: str) -> str:
        """Wait for the line of a night that has ended."""
        return wait_for(
            lambda: next((line for line in self.out if all(w in line for w in words)), None),
            f"a line with {words}, in {self.out}, {self.err}",
        )

    def wait_for_notice(self, words: str) -> str:
        return wait_for(
            lambda: next((line for line in self.err if words in line), None),
            f"{words!r} in {self.err}",
        )


@pytest.fixture
def place(offline_command: Command) -> Iterator[tuple[Command, HeldServer]]:
    with HeldServer() as llm:
        yield offline_command, llm


@contextlib.contextmanager
def serving(command: Command, suite: Path) -> Iterator[Served]:
    served = Served(command, suite, free_port())
    try:
        served.wait_for_notice("next night")
        yield served
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in tree_of(served.process.pid):
                process.kill()
        served.process.wait()


def test_a_night_comes_within_a_minute_of_its_cron_and_a_killed_one_stops_nothing(
    place: tuple[Command, HeldServer],
) -> None:
    command, llm = place
    suite = write_nightly_project(command.folder, llm.url, cron=EVERY_MINUTE)
    with serving(command, suite) as served:
        page = httpx.get(served.ui, timeout=20, follow_redirects=True)
        assert "<title>Prefect" in page.text
        served.wait_for_line("tiny: ")
        schedule = served.deployment()["schedules"]
        assert [item["schedule"]["cron"] for item in schedule] == [EVERY_MINUTE]
        night = served.nights("COMPLETED")[0]
        assert night["auto_scheduled"]
        due, began = (
            datetime.fromisoformat(night[name]) for name in ("expected_start_time", "start_time")
        )
        assert due.second == 0
        assert timedelta(0) <= began - due < timedelta(seconds=60)
        (run,) = command.sql("select status, cast(logical_date as text) as day from latest_runs")
        assert run == {"status": "completed", "day": f"{due:%Y-%m-%d}"}

        # No schedule from here on: the button starts the nights.
        schedules = f"{served.api}/deployments/{served.deployment()['id']}/schedules"
        httpx.patch(f"{schedules}/{schedule[0]['id']}", json={"active": False}).raise_for_status()
        wait_for(lambda: not served.nights("SCHEDULED", "PENDING", "RUNNING"), "the nights end")
        alter_responses(command.folder)
        llm.hold(after=2)
        killed = served.click_run()
        wait_for(lambda: llm.n_held, "the judge is asked")
        for process in processes_of(killed)[killed]:
            process.kill()
        served.wait_for_line("Crashed", killed)
        assert served.night(killed)["state_type"] == "CRASHED"
        assert served.deployment()["global_concurrency_limit"]["active_slots"] == 0

        # The answers that had come are not asked for again: 5 are needed, 2 were there.
        # The server is killed meanwhile: it is started again, and the night goes on.
        n_asked = len(llm.answered)
        llm.release()
        llm.delay_one(20)
        again = served.click_run()
        wait_for(lambda: llm.n_held, "the judge is asked")
        (server,) = [p for p in tree_of(served.process.pid) if APPLICATION in p.cmdline()]
        server.kill()
        served.wait_for_line(again)
        assert served.night(again)["state_type"] == "COMPLETED"
        assert len(llm.answered) - n_asked == 3
        (event,) = command.sql("select kind, stage from events where kind = 'crashed'")
        assert event == {"kind": "crashed", "stage": "score_summaries"}

        # SIGTERM in the middle of a night: nothing that was started is left.
        alter_responses(command.folder)
        llm.hold(after=0)
        stopped = served.click_run()
        wait_for(lambda: llm.n_held, "the judge is asked")
        started = [*tree_of(served.process.pid), *processes_of(stopped)[stopped]]
        assert len(started) >= 4  # serve, its server, Prefect's executor, the night
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=60) == 143
        assert are_gone(started)
    states = flow_run_states(command)
    assert states[stopped] == "CRASHED"
    assert "RUNNING" not in states.values()


def test_after_a_crash_of_the_machine_the_newest_missed_night_runs_once(
    place: tuple[Command, HeldServer],
) -> None:
    command, llm = place
    suite = write_nightly_project(command.folder, llm.url, cron=JUST_BEFORE_MIDNIGHT)
    with serving(command, suite) as served:
        llm.hold(after=0)
        killed = served.click_run()
        wait_for(lambda: llm.n_held, "the judge is asked")
        for process in [*tree_of(served.process.pid), *processes_of(killed)[killed]]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    assert flow_run_states(command)[killed] == "RUNNING"

    # It was first served three days ago, and was off at every midnight since.
    created = datetime.now(UTC) - timedelta(days=3)
    with database(command) as connection:
        connection.execute("update deployment set created = ?", [f"{created:%Y-%m-%d %H:%M:%S.%f}"])
        connection.commit()
    llm.release()
    with serving(command, suite) as served:
        served.wait_for_notice("was left behind: now Crashed")
        yesterday = datetime.now(UTC).date() - timedelta(days=1)
        served.wait_for_notice(f"the night of {yesterday} was missed")
        line = served.wait_for_line("tiny: ")
        assert line.startswith(str(yesterday))
        assert served.night(killed)["state_type"] == "CRASHED"
        assert served.deployment()["global_concurrency_limit"]["active_slots"] == 0
        days = command.sql("select cast(logical_date as text) as day from latest_runs")
        assert days == [{"day": str(yesterday)}]
        (event,) = command.sql("select kind, stage from events where kind = 'crashed'")
        assert event["kind"] == "crashed"
        # An idle one stops as well, on Ctrl-C too.
        started = tree_of(served.process.pid)
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(timeout=60) == 130
        assert are_gone(started)
    with serving(command, suite) as served:
        assert not any("missed" in line for line in served.err)


@pytest.mark.timeout(600)
def test_what_cannot_be_served_is_refused_before_a_server_starts(
    offline_command: Command,
) -> None:
    folder = offline_command.folder
    suite = write_nightly_project(folder, "http://127.0.0.1:9/v1", cron="61 * * * *")
    text = suite.read_text()

    def refused(*arguments: str) -> str:
        return offline_command("serve", str(suite), *arguments, exit_code=2).stderr

    assert "schedule.cron is '61 * * * *'" in refused()
    suite.write_text(text.replace("61 *", "30 2") + 'timezone = "Mars/Olympus"\n')
    assert "schedule.timezone is 'Mars/Olympus', which is no time zone" in refused()
    suite.write_text(text.partition("[schedule]")[0])
    assert "the suite has no schedule" in refused()
    suite.write_text(text.replace("61 *", "30 2"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 cannot be used" in refused("--port", str(port))
    assert not (offline_command.home / "prefect" / "serving.db").exists()


def alter_responses(folder: Path) -> None:
    """Change what is judged, so that all five answers have to be asked for again."""
    file = folder / "benchmark.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line["response"] = "x" + line["response"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


@contextlib.contextmanager
def database(command: Command) -> Iterator[sqlite3.Connection]:
    path = command.home / "prefect" / "serving.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        yield connection


def flow_run_states(command: Command) -> dict[str, str]:
    """What the server's database says once the server is gone."""
    with database(command) as connection:
        return dict(connection.execute("select id, state_type from flow_run").fetchall())
