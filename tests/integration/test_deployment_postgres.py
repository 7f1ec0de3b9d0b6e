"""deployments/README.md as it stands: a Prefect server on PostgreSQL, a worker, green nights."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml
from compose_spec import PyCompose

from flows.server_processes import free_port
from tests.data.postgres import HOW_TO_GET_IT, find_binaries, postgres
from tests.data.served_project import HeldServer, tree_of, wait_for, write_nightly_project
from tests.data.small_project import REPOSITORY, Command

DEPLOYMENTS = REPOSITORY / "deployments"
README = (DEPLOYMENTS / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
PREFECT_YAML = (DEPLOYMENTS / "prefect.yaml").read_text(encoding="utf-8")
COMPOSE = (DEPLOYMENTS / "compose.yaml").read_text(encoding="utf-8")
NIGHTLY = '"30 2 * * *"'


def block(words: str) -> str:
    """The one shell example of the README that holds these words."""
    (found,) = [text for text in BLOCKS if words in text]
    return found


class Place:
    """What the README's reader has: a checkout, a shell, PostgreSQL, and a suite."""

    def __init__(self, command: Command, database: str, suite: Path):
        self.command, self.database, self.suite = command, database, suite
        self.port, self.health_port = free_port(), free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        (command.folder / "deployments").symlink_to(DEPLOYMENTS)
        script = command.folder / "bin" / "rankhouse"
        script.parent.mkdir()
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m flows.cli "$@"\n')
        script.chmod(0o755)
        self.environment = {
            **command.environment,
            "PATH": f"{script.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PREFECT_HOME": str(command.folder / "prefect"),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_WORKER_WEBSERVER_PORT": str(self.health_port),
        }
        del self.environment["RANKHOUSE_HOME"]

    def text(self, words: str) -> str:
        """An example, with the test's port, database and suite in place of the README's."""
        url = r"postgresql\+asyncpg://prefect:PASSWORD@127.0.0.1:5432/prefect"
        text = re.sub(url, self.database, block(words))
        text = text.replace("$PWD/deployments/nightly/suite.toml", str(self.suite))
        return text.replace("4200", str(self.port))

    def run(self, text: str) -> str:
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.command.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert result.returncode == 0, f"{text}\n{result.stdout}\n{result.stderr}\n{self.logs()}"
        return result.stdout

    def start(self, name: str, words: str) -> None:
        """Run an example in a terminal of its own."""
        with (self.command.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                ["bash", "-euc", self.text(words)],
                cwd=self.command.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def start_server(self) -> None:
        self.start("server", "prefect server start")
        wait_for(lambda: self.is_up(self.port, "/api/health"), f"the server: {self.logs()}")

    def start_worker(self) -> None:
        self.start("worker", "prefect worker start")
        wait_for(lambda: self.is_up(self.health_port, "/health"), f"the worker: {self.logs()}")

    def kill(self, name: str) -> None:
        """Kill a terminal's processes with all that they started, as a lost machine does."""
        process = self.running.pop(name)
        for started in tree_of(process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                started.send_signal(signal.SIGKILL)
        process.wait()

    def logs(self) -> str:
        files = sorted(self.command.folder.glob("*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text()[-3000:]}" for file in files)

    @staticmethod
    def is_up(port: int, path: str) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/{path}"
        method = "GET" if body is None else "POST"
        return httpx.request(method, url, json=body, timeout=20).raise_for_status().json()

    def deployment(self) -> dict[str, Any]:
        return self.ask("deployments/name/run_nightly/nightly")

    def nights(self, *states: str) -> list[dict[str, Any]]:
        """The deployment's flow runs in these states, oldest first."""
        wanted = {"state": {"type": {"any_": list(states)}}}
        body = {"flow_runs": wanted, "sort": "EXPECTED_START_TIME_ASC"}
        runs = self.ask("flow_runs/filter", body)
        return [run for run in runs if run["deployment_id"] is not None]

    def sql(self, query: str) -> list[dict[str, Any]]:
        home = {"RANKHOUSE_HOME": str(self.command.folder / ".rankhouse")}
        return Command(self.command.folder, self.command.home, {**self.environment, **home}).sql(
            query
        )


@pytest.fixture(scope="module")
def llm() -> Iterator[HeldServer]:
    with HeldServer() as server:
        yield server


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, llm: HeldServer) -> Iterator[Place]:
    binaries = find_binaries()
    if binaries is None:
        assert not os.environ.get("RANKHOUSE_NEEDS_POSTGRES"), "PostgreSQL was found, and is gone"
        pytest.skip(f"POSTGRESQL ABSENT: no night on a real server is tested; {HOW_TO_GET_IT}")
    folder = tmp_path_factory.mktemp("deployment")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1"}
    environment |= {"RANKHOUSE_HOME": str(folder / ".rankhouse")}
    environment.pop("PREFECT_API_URL", None)
    command = Command(folder, folder / ".rankhouse", environment)
    suite = write_nightly_project(folder / "suite", llm.url, cron="30 2 * * *", name="nightly")
    with postgres(binaries) as database:
        place = Place(command, database, suite)
        place.start_server()
        place.run(place.text("prefect --no-prompt deploy"))
        place.start_worker()
        try:
            yield place
        finally:
            for name in list(place.running):
                place.kill(name)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_a_worker_was_killed_the_next_night_completes_and_repeats_no_answered_call(
    place: Place, llm: HeldServer
) -> None:
    llm.hold(after=7)
    place.run(place.text("prefect deployment run").replace("--watch", "").partition("RANKHOUSE")[0])
    wait_for(lambda: llm.n_held, f"the judge is asked: {place.logs()}")
    (killed,) = place.nights("RUNNING")
    place.kill("worker")
    assert place.deployment()["global_concurrency_limit"]["active_slots"] == 1

    llm.release()
    place.start_worker()  # the README's example recovers first
    assert place.ask(f"flow_runs/{killed['id']}")["state_type"] == "CRASHED"
    printed = place.run(place.text("prefect deployment run"))
    assert "small" in printed  # `rankhouse runs`
    (done,) = place.nights("COMPLETED")
    assert place.deployment()["global_concurrency_limit"]["active_slots"] == 0
    # 5 queries, three calls each, none twice; and a probe, which is no call of a stage.
    assert len(llm.answered) == 3 * 5 + 1
    (run,) = place.sql("select status from latest_runs")
    assert run["status"] == "completed"
    (event,) = place.sql("select stage from events where kind = 'crashed'")
    assert event["stage"] == "build_question_bank"
    assert done["expected_start_time"] > killed["expected_start_time"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_scheduled_night_comes_and_outlasts_a_restart_of_the_server(
    place: Place, llm: HeldServer, tmp_path: Path
) -> None:
    every_minute = tmp_path / "prefect.yaml"
    assert PREFECT_YAML.count(NIGHTLY) == 1
    every_minute.write_text(PREFECT_YAML.replace(NIGHTLY, '"* * * * *"'))
    benchmark = place.suite.parent / "benchmark.jsonl"
    benchmark.write_text(benchmark.read_text().replace('"response": "', '"response": "again '))
    llm.delay_one(25)
    deploy = place.text("prefect --no-prompt deploy")
    place.run(deploy.replace("deployments/prefect.yaml", str(every_minute)))
    wait_for(lambda: llm.n_held, f"the judge is asked: {place.logs()}")
    (night,) = place.nights("RUNNING")
    assert night["auto_scheduled"]
    due, began = (
        datetime.fromisoformat(night[name]) for name in ("expected_start_time", "start_time")
    )
    assert due.second == 0
    assert (began - due).total_seconds() < 60

    place.kill("server")
    killed_at = datetime.now(UTC)
    place.start_server()
    place.run(deploy)  # every night again, not every minute

    def state() -> str:
        found: str = place.ask(f"flow_runs/{night['id']}")["state_type"]
        return found

    wait_for(lambda: state() not in ("RUNNING", "PENDING"), f"the night ends: {place.logs()}")
    assert state() == "COMPLETED", place.logs()
    ended = datetime.fromisoformat(place.ask(f"flow_runs/{night['id']}")["end_time"])
    assert ended > killed_at
    ran = place.sql("select status from latest_runs where flow_run_id is not null")
    assert {row["status"] for row in ran} == {"completed"}


def test_prefect_yaml_and_the_suite_are_due_at_the_same_time() -> None:
    from schemas.suites import read_suite

    (deployment,) = yaml.safe_load(PREFECT_YAML)["deployments"]
    (schedule,) = deployment["schedules"]
    suite = read_suite(DEPLOYMENTS / "nightly" / "suite.toml")
    assert (suite.schedule.cron, suite.schedule.timezone) == tuple(schedule.values())
    assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}


def test_compose_yaml_is_valid_and_runs_the_commands_of_the_readme() -> None:
    services = PyCompose.from_json(json.dumps(yaml.safe_load(COMPOSE))).to_dict()["services"]
    assert set(services) == {"postgres", "prefect-server", "deploy", "worker"}
    for name in ("postgres", "prefect-server", "worker"):
        assert services[name]["healthcheck"]["test"], name
        assert services[name]["volumes"], name
    shown = "\n".join(BLOCKS)
    for name in ("deploy", "worker"):
        shell, flags, script = services[name]["command"]
        assert (shell, flags) == ("sh", "-euc")
        for line in script.strip().splitlines():
            assert line.removeprefix("exec ") in shown.splitlines(), f"{name}: {line}"
    assert services["prefect-server"]["command"][:3] == ["prefect", "server", "start"]
    server = services["prefect-server"]["environment"]
    lease = server["PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"]
    assert f"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE={lease}\n" in shown
    assert "${POSTGRES_PASSWORD:?" in COMPOSE  # no password stands in the file


def test_the_dockerfile_copies_what_is_there_and_installs_what_make_installs() -> None:
    text = (DEPLOYMENTS / "Dockerfile").read_text().replace("\\\n", " ")
    for line in re.findall(r"^COPY --chown=rankhouse (.*)$", text, flags=re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (REPOSITORY / source).exists(), source
    (install,) = re.findall(r"pip install (.*)$", text, flags=re.MULTILINE)
    assert install.startswith("--constraint constraints.txt --editable ")
    (made,) = re.findall(r"mkdir ([\w/ ]+?) +&&", text)
    pyproject = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    packages = pyproject["tool"]["setuptools"]["packages"]
    assert set(made.split()) == {name.replace(".", "/") for name in packages}


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (DEPLOYMENTS / target).exists(), target
