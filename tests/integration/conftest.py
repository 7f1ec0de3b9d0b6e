"""Real parts: one Prefect server a session, the command in a process of its own, real files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.data.small_project import REPOSITORY, Command, write_small_project

SHARED = Path(os.environ.get("RANKHOUSE_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "2",
    "TOKENIZERS_PARALLELISM": "false",
}
os.environ.update(ONE_THREAD)


@pytest.fixture(scope="session")
def prefect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of one Prefect server for the whole session."""
    from flows.servers import prefect_server
    from schemas.home import Home

    unset = {name: os.environ.pop(name) for name in ("PREFECT_API_URL",) if name in os.environ}
    with prefect_server(Home(tmp_path_factory.mktemp("server"))) as server:
        server.wait_until_ready()
        assert server.url is not None
        yield server.url
    os.environ.update(unset)


@pytest.fixture
def offline_command(tmp_path: Path) -> Command:
    """The command without a server of its own at hand: for what must not need one."""
    environment = {
        **os.environ,
        **ONE_THREAD,
        "RANKHOUSE_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(REPOSITORY),
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("PREFECT_API_URL", None)
    return Command(tmp_path, tmp_path / "home", environment)


@pytest.fixture
def command(offline_command: Command, prefect_url: str) -> Command:
    """The command, talking to the session's Prefect server."""
    return Command(
        offline_command.folder,
        offline_command.home,
        {**offline_command.environment, "PREFECT_API_URL": prefect_url},
    )


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """Real data that lies beside a checkout; a test that needs it is skipped where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"REAL DATA ABSENT: {path}; set RANKHOUSE_SHARED_DATA to its folder")
        return path

    return find


@pytest.fixture
def small(command: Command) -> Path:
    """The small project's experiment file, beside the command's home."""
    return write_small_project(command.folder)
