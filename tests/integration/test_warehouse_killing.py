"""Killed, crowded, out of space: nothing lost, nothing twice, nothing else changed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from flows.cli import command, run
from flows.verifying import verify_warehouse
from schemas.errors import FailedError, StorageError
from schemas.home import Home
from tests.data.sample_runs import sample_run
from warehouse.load import load_parts
from warehouse.reading import open_published
from warehouse.spool import Spool

ROOT = Path(__file__).resolve().parents[2]
IDS = [f"01980000-0000-7000-8000-00000000000{i}" for i in range(10)]
TABLES = list(sample_run(IDS[0]))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def child(home: Home, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.data.warehouse_child", str(home.path), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def content(path: Path, run_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that is stored of one run, but when it was loaded."""
    return {
        name: query(path, f"SELECT * FROM {name} WHERE run_id = '{run_id}' ORDER BY ALL")
        for name in ("stages", "query_metrics", "run_metrics")
    } | {
        "runs": query(
            path, f"SELECT * EXCLUDE (loaded_at, attempt) FROM runs WHERE run_id = '{run_id}'"
        )
    }


def check_whole(path: Path) -> None:
    """Every run is there once, with all its rows; what is shared is there once."""
    runs = query(path, "SELECT count(*), count(DISTINCT run_id) FROM runs")[0]
    assert runs[0] == runs[1]
    for name, n_rows in (("query_metrics", 15), ("run_metrics", 3), ("stages", 2)):
        counts = query(path, f"SELECT run_id, count(*) FROM {name} GROUP BY run_id")
        assert {count for _, count in counts} <= {n_rows}
        assert {run_id for run_id, _ in counts} == {
            run_id for (run_id,) in query(path, "SELECT run_id FROM runs")
        }
    for name, key in (
        ("rankings", "rankings_digest, query_id, rank"),
        ("labels", "labels_digest, query_id, kind, item_id"),
        ("queries", "benchmark_digest, query_id"),
        ("measures", "measure, contract_version"),
    ):
        assert query(path, f"SELECT 1 FROM {name} GROUP BY {key} HAVING count(*) > 1") == []
    attempts = query(path, "SELECT experiment, logical_date, attempt FROM runs")
    assert len(attempts) == len(set(attempts))


@pytest.mark.slow
def test_killed_at_thirty_random_moments_nothing_is_lost_or_doubled(home: Home) -> None:
    with Spool(home).start(IDS[0], experiment="before") as run:
        run.finish(sample_run(IDS[0], experiment="before", is_real=True))
    load_parts(home)
    before = content(home.published, IDS[0])
    rng = random.Random(20261130)
    finished: set[str] = set()
    started: set[str] = set()
    for _ in range(30):
        process = child(home, "evaluate", "1000", "handbook")
        assert process.stdout is not None
        started.add(process.stdout.readline().strip())  # imports are done: now it works
        time.sleep(rng.uniform(0, 0.8))
        process.send_signal(signal.SIGKILL)
        started |= {line for line in process.stdout.read().split() if len(line) == 36}
        process.wait()
        finished |= {ready.parent.name for ready in home.spool.glob("*/ready")}
    report = load_parts(home)
    assert report.refused == []
    assert report.waiting == []
    check_whole(home.published)
    landed = {run_id for (run_id,) in query(home.published, "SELECT run_id FROM runs")}
    crashed = {
        run_id
        for (run_id,) in query(home.published, "SELECT run_id FROM events WHERE kind = 'crashed'")
    }
    assert finished <= landed  # what was ready is there
    assert started <= landed | crashed  # what was not is known as crashed
    assert content(home.published, IDS[0]) == before
    assert sorted(entry.name for entry in home.spool.iterdir()) == []
    assert load_parts(home).loaded == []
    assert list(verify_warehouse(home, n_sampled=20, seed=0)) == []
    assert {entry.name for entry in home.path.iterdir()} == {
        "warehouse.duckdb",
        "published.duckdb",
        "spool",
    }


@pytest.mark.slow
def test_a_hundred_runs_of_four_processes_land_while_others_read_and_hold_the_file(
    home: Home,
) -> None:
    create = child(home, "evaluate", "1", "first")
    create.communicate()
    workers = [child(home, "evaluate", "25", f"worker {i}") for i in range(4)]
    holder = child(home, "hold", "20")
    problems: list[str] = []
    n_reads = [0]
    is_done = threading.Event()

    def read() -> None:
        seen = 0
        while not is_done.is_set():
            try:
                ((n_runs, n_values),) = query(
                    home.published,
                    "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM query_metrics)",
                )
            except duckdb.Error as error:
                problems.append(str(error))
                continue
            if n_values != 15 * n_runs or n_runs < seen:
                problems.append(f"{n_runs} runs, {n_values} values, after {seen} runs")
            seen = n_runs
            n_reads[0] += 1
            time.sleep(0.02)

    reader = threading.Thread(target=read)
    reader.start()
    outputs = [worker.communicate(timeout=240)[0] for worker in workers]
    holder.wait(timeout=60)
    is_done.set()
    reader.join()
    assert [worker.returncode for worker in workers] == [0] * 4
    assert problems == []
    assert n_reads[0] > 20
    load_parts(home, patience=30)
    expected = {line for output in outputs for line in output.split()}
    assert len(expected) == 100
    landed = query(home.published, "SELECT run_id FROM runs WHERE experiment <> 'first'")
    assert sorted(run_id for (run_id,) in landed) == sorted(expected)
    check_whole(home.published)
    assert list(verify_warehouse(home, n_sampled=20, seed=0)) == []
    assert query(home.published, "SELECT count(*) FROM events") == [(0,)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 20 MB, where that can be mounted."""
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode != 0:
        pytest.skip(f"no tmpfs here: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_nothing_that_had_landed(small_disk: Path) -> None:
    home = Home(small_disk / "home").prepare()
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        run.finish(sample_run(IDS[0]))
    assert load_parts(home).loaded == [IDS[0]]
    before = content(home.published, IDS[0])
    ballast = small_disk / "ballast"
    fill(ballast)
    # no room for the part
    with pytest.raises((StorageError, FailedError), match="no space is left"):
        Spool(home).start(IDS[1], experiment="handbook").finish(sample_run(IDS[1]))
    ballast.unlink()
    # room for the part, none for the load
    with Spool(home).start(IDS[2], experiment="handbook") as started:
        started.finish(sample_run(IDS[2], n_queries=800, seed=2))
    fill(ballast)
    report = load_parts(home)
    assert "no space is left" in str(report.problem)
    assert not report.is_published
    assert content(home.published, IDS[0]) == before
    ballast.unlink()
    report = load_parts(home)
    assert report.problem is None
    assert report.is_published
    assert report.waiting == []
    landed = query(home.published, "SELECT run_id FROM runs ORDER BY run_id")
    assert landed == [(IDS[0],), (IDS[2],)]
    assert content(home.published, IDS[0]) == before
    assert query(
        home.published, f"SELECT count(*) FROM query_metrics WHERE run_id = '{IDS[2]}'"
    ) == [(2400,)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["runs", "note", "latest", "seen"],
        ["recompute", "--measure", "ndcg@7"],
        ["export", "latest", "--format", "parquet", "--into", "{disk}/out"],
        *(
            ["sql", "from query_metrics, range(99)", "--output", "{disk}/x." + suffix]
            for suffix in ("parquet", "csv", "json")
        ),
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1][-8:]}",
)
def test_a_full_disk_is_said_and_nothing_half_stays(
    small_disk: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = Home(small_disk / "home").prepare()
    monkeypatch.setenv("RANKHOUSE_HOME", str(home.path))
    with Spool(home).start(IDS[0], experiment="handbook") as started:
        started.finish(sample_run(IDS[0], n_queries=100))
    load_parts(home)
    out = small_disk / "out"
    out.mkdir()
    fill(small_disk / "ballast")
    before = sorted(small_disk.rglob("*"))
    words = [word.format(disk=small_disk) for word in arguments]
    code = run(lambda: command.main(words, standalone_mode=False))
    error = capsys.readouterr().err
    assert (code, "no space is left" in error) == (1, True), error
    assert "defect" not in error
    assert sorted(small_disk.rglob("*")) == before


def fill(path: Path) -> None:
    """Take every byte that is left."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"0" * 4096)
        except OSError:
            pass


def test_a_folder_that_cannot_be_written_is_refused_and_can_still_be_read(
    small_disk: Path,
) -> None:
    home = Home(small_disk / "home").prepare()
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        run.finish(sample_run(IDS[0]))
    load_parts(home)
    with Spool(home).start(IDS[1], experiment="handbook") as run:
        run.finish(sample_run(IDS[1]))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorageError, match="cannot be written"):
        Spool(home).start(IDS[2], experiment="handbook")
    with pytest.raises(StorageError, match="cannot be opened for writing"):
        load_parts(home)
    with pytest.raises(StorageError, match="the home folder cannot be written"):
        home.prepare()
    with open_published(home) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchall() == [(1,)]
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert load_parts(home).loaded == [IDS[1]]
