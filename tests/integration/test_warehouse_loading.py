"""Runs go through the spool into a real file: once each, whole, whatever is in the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from schemas.errors import ConfigurationError, FailedError, StorageError, ValidationRefusedError
from schemas.home import Home
from tests.data.sample_runs import digest, sample_run
from warehouse.files import is_full
from warehouse.liveness import Process, this_process
from warehouse.load import LoadReport, load_parts, retry_refused
from warehouse.migrate import check_warehouse
from warehouse.rows import EventRow, events_frame
from warehouse.spool import Spool, new_run_id

ROOT = Path(__file__).resolve().parents[2]
IDS = [f"01980000-0000-7000-8000-00000000000{i}" for i in range(10)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def land(home: Home, run_id: str, **changes: Any) -> Path:
    with Spool(home).start(run_id, experiment="handbook") as run:
        return run.finish(sample_run(run_id, **changes))


def query(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(home.published), read_only=True) as connection:
        return connection.execute(sql).fetchall()


@contextmanager
def child(home: Home, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has said its first line, killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.data.warehouse_child", str(home.path), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_run_lands_whole_and_is_published(home: Home) -> None:
    land(home, IDS[0])
    report = load_parts(home)
    assert report == LoadReport(loaded=[IDS[0]], is_published=True)
    assert report.has_landed(IDS[0])
    frames = sample_run(IDS[0])
    for table, frame in frames.items():
        n_stored = query(home, f"SELECT count(*) FROM {table}")
        assert n_stored == [(frame.height,)]
    assert list(home.spool.iterdir()) == []
    stored = query(home, "SELECT query_id, measure, value FROM query_metrics ORDER BY ALL")
    assert stored == sorted(frames["query_metrics"].select("query_id", "measure", "value").rows())


def test_times_are_utc_and_ids_stay_text(home: Home) -> None:
    frames = sample_run(IDS[0])
    rename = {"q00000": "007", "q00001": "NA"}
    frames = {
        name: frame.with_columns(pl.col("query_id").replace(rename))
        if "query_id" in frame.columns
        else frame
        for name, frame in frames.items()
    }
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        run.finish(frames)
    load_parts(home)
    assert query(home, "SELECT query_id FROM queries ORDER BY 1")[:1] == [("007",)]
    assert ("NA",) in query(home, "SELECT DISTINCT query_id FROM query_metrics")
    ((started, night),) = query(home, "SELECT started_at, logical_date FROM runs")
    assert (started, night) == (datetime(2026, 11, 29, 2, tzinfo=UTC), date(2026, 11, 29))
    ((kind,),) = query(
        home,
        "SELECT data_type FROM duckdb_columns() "
        "WHERE table_name = 'runs' AND column_name = 'started_at'",
    )
    assert kind == "TIMESTAMP WITH TIME ZONE"


def test_the_file_can_be_read_by_older_duckdbs(home: Home) -> None:
    land(home, IDS[0])
    load_parts(home)
    with duckdb.connect(str(home.published), read_only=True) as connection:
        row = connection.execute("SELECT tags FROM duckdb_databases() LIMIT 1").fetchone()
    assert row is not None
    assert row[0]["storage_version"].startswith("v1.2.0")


def test_a_run_that_is_known_is_skipped(home: Home) -> None:
    ready = land(home, IDS[0])
    shutil.copytree(ready.parent, home.path / "kept")
    load_parts(home)
    shutil.copytree(home.path / "kept", ready.parent)
    assert load_parts(home).loaded == []
    assert query(home, "SELECT count(*), count(DISTINCT run_id) FROM query_metrics") == [(15, 1)]


def test_equal_rankings_labels_and_queries_are_stored_once(home: Home) -> None:
    land(home, IDS[0])
    land(home, IDS[1])
    land(home, IDS[2], seed=1)  # other rankings and labels, the same benchmark
    load_parts(home)
    assert query(home, "SELECT count(*) FROM rankings") == [(100,)]
    assert query(home, "SELECT count(*) FROM labels") == [(30,)]
    assert query(home, "SELECT count(*) FROM queries") == [(5,)]
    assert query(home, "SELECT count(*) FROM measures") == [(3,)]
    assert query(home, "SELECT count(*) FROM query_metrics") == [(45,)]


def test_the_digest_of_a_failed_run_does_not_count_as_stored(home: Home) -> None:
    failed = sample_run(IDS[0], status="failed", status_reason="label: out of memory")
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        run.finish({name: failed[name] for name in ("runs", "stages")})
    land(home, IDS[1])
    load_parts(home)
    assert query(home, "SELECT count(*) FROM rankings") == [(50,)]


def test_attempts_count_in_order_of_run_ids_even_when_one_lands_late(home: Home) -> None:
    land(home, IDS[1])
    land(home, IDS[3])
    load_parts(home)
    land(home, IDS[2])
    land(home, IDS[4], night=date(2026, 11, 30))
    load_parts(home)
    assert query(home, "SELECT run_id, attempt FROM runs ORDER BY run_id") == [
        (IDS[1], 1),
        (IDS[2], 2),
        (IDS[3], 3),
        (IDS[4], 1),
    ]


def test_a_locked_file_leaves_parts_and_names_the_holder(home: Home) -> None:
    land(home, IDS[0])
    load_parts(home)
    land(home, IDS[1])
    with child(home, "hold", "60") as holder:
        report = load_parts(home, patience=0.3)
        assert report.is_locked
        assert str(holder.pid) in str(report.holder)
        assert report.waiting == [IDS[1]]
        assert not report.has_landed(IDS[1])
    assert load_parts(home).loaded == [IDS[1]]


def test_a_short_lock_is_waited_for(home: Home) -> None:
    land(home, IDS[0])
    load_parts(home)
    land(home, IDS[1])
    with child(home, "hold", "1"):
        assert load_parts(home, patience=30).loaded == [IDS[1]]


def test_a_connection_of_this_process_is_left_its_lock(home: Home) -> None:
    land(home, IDS[0])
    load_parts(home)
    land(home, IDS[1])
    with duckdb.connect(str(home.warehouse)):
        assert load_parts(home, patience=0.1).is_locked
        other = subprocess.run(
            [sys.executable, "-c", f"import duckdb; duckdb.connect({str(home.warehouse)!r})"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "onflicting lock" in other.stderr


@pytest.mark.parametrize("damage", ["truncate", "alter", "no manifest", "missing table", "newer"])
def test_a_damaged_part_is_refused_and_blocks_nothing(home: Home, damage: str) -> None:
    ready = land(home, IDS[0])
    table, manifest = ready / "query_metrics.parquet", ready / "part.json"
    if damage == "truncate":
        table.write_bytes(table.read_bytes()[:-10])
    elif damage == "alter":
        content = bytearray(table.read_bytes())
        content[len(content) // 2] ^= 1
        table.write_bytes(content)
    elif damage == "no manifest":
        manifest.unlink()
    elif damage == "missing table":
        table.unlink()
    else:
        value = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**value, "schema_version": 99}))
    land(home, IDS[1])
    report = load_parts(home)
    assert report.loaded == [IDS[1]]
    assert [reason.split(":")[0] for reason in report.refused] == [IDS[0]]
    assert not report.has_landed(IDS[0])
    assert query(home, "SELECT run_id FROM runs") == [(IDS[1],)]
    kept = home.spool / "refused" / IDS[0]
    assert json.loads((kept / "reasons.json").read_text())["reasons"]
    assert (kept / "ready").is_dir()


def test_a_refused_part_is_taken_after_the_upgrade_it_waits_for(home: Home) -> None:
    manifest = land(home, IDS[0]) / "part.json"
    value = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**value, "schema_version": 99}))
    assert load_parts(home).refused
    kept = home.spool / "refused" / IDS[0] / "ready" / "part.json"
    kept.write_text(json.dumps(value))
    assert retry_refused(home) == [IDS[0]]
    assert load_parts(home).loaded == [IDS[0]]


def test_refused_frames_are_kept_with_rows_and_reasons(home: Home) -> None:
    frames = sample_run(IDS[0])
    bad = frames["query_metrics"].with_columns(
        value=pl.when(pl.int_range(pl.len()) == 3).then(1.5).otherwise("value")
    )
    with (
        pytest.raises(ValidationRefusedError, match=r"query_metrics, row 3: value_within"),
        Spool(home).start(IDS[0], experiment="handbook") as run,
    ):
        run.finish({**frames, "query_metrics": bad})
    kept = home.spool / "refused" / IDS[0]
    assert pl.read_parquet(kept / "query_metrics.parquet")["value"][3] == 1.5
    (reason,) = json.loads((kept / "reasons.json").read_text())["reasons"]
    assert (reason["table"], reason["row"]) == ("query_metrics", 3)
    assert load_parts(home).loaded == []
    assert [entry.name for entry in home.spool.iterdir()] == ["refused"]


def test_a_killed_run_becomes_one_event_with_its_stage(home: Home) -> None:
    with child(home, "start", IDS[0], "embed_chunks") as process:
        assert load_parts(home).crashed == []  # it lives
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert load_parts(home).crashed == [IDS[0]]
    assert load_parts(home).crashed == []
    assert query(home, "SELECT run_id, kind, stage FROM events") == [
        (IDS[0], "crashed", "embed_chunks")
    ]
    assert list(home.spool.iterdir()) == []


def test_a_start_of_another_machine_is_stale_after_ten_minutes_and_may_still_land(
    home: Home,
) -> None:
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        started = home.spool / IDS[0] / "started.json"
        value = json.loads(started.read_text())
        value["process"]["space"] = "another machine"
        value["renewed_at"] = (datetime.now(UTC) - timedelta(minutes=9)).isoformat()
        started.write_text(json.dumps(value))
        assert load_parts(home).crashed == []
        value["renewed_at"] = (datetime.now(UTC) - timedelta(minutes=11)).isoformat()
        started.write_text(json.dumps(value))
        assert load_parts(home).crashed == [IDS[0]]
        assert load_parts(home).crashed == []
        run.finish(sample_run(IDS[0]))
    assert load_parts(home).loaded == [IDS[0]]
    assert query(home, "SELECT run_id, status FROM runs") == [(IDS[0], "completed")]


def test_a_run_renews_its_sign_of_life_and_says_its_stage(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warehouse.spool.RENEWAL", 0.05)
    started = home.spool / IDS[0] / "started.json"
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        first = json.loads(started.read_text())
        run.enter_stage("retrieve")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            now = json.loads(started.read_text())
            if now["renewed_at"] > first["renewed_at"] and now["stage"] == "retrieve":
                break
            time.sleep(0.02)
        else:
            pytest.fail("it was not renewed")
        assert (now["process"]["pid"], now["started_at"]) == (os.getpid(), first["started_at"])


def test_a_process_number_that_is_used_again_is_not_the_run(home: Home) -> None:
    with Spool(home).start(IDS[0], experiment="handbook"):
        started = home.spool / IDS[0] / "started.json"
        value = json.loads(started.read_text())
        value["process"]["started"] -= 3600  # the number is ours, the start is not
        started.write_text(json.dumps(value))
        assert load_parts(home).crashed == [IDS[0]]


def test_a_run_left_by_an_error_is_crashed_and_one_that_was_refused_leaves_nothing(
    home: Home,
) -> None:
    def divide() -> None:
        with Spool(home).start(IDS[0], experiment="handbook") as run:
            run.enter_stage("rank")
            raise ZeroDivisionError("by zero")

    with pytest.raises(ZeroDivisionError):
        divide()
    with pytest.raises(ConfigurationError), Spool(home).start(IDS[1], experiment="handbook"):
        raise ConfigurationError("unknown key")
    assert load_parts(home).crashed == [IDS[0]]
    ((message,),) = query(home, "SELECT message FROM events")
    assert message == "ended in stage rank: ZeroDivisionError: by zero"


def test_a_note_waits_in_the_spool_like_a_run_and_is_stored_once(home: Home) -> None:
    land(home, IDS[0])
    note = events_frame([EventRow(run_id=IDS[0], kind="note", message="new corpus", author="Ada")])
    Spool(home).put_events(note)
    Spool(home).put_events(note)
    assert len(load_parts(home).loaded) == 3
    assert query(home, "SELECT kind, author, message FROM events") == [
        ("note", "Ada", "new corpus")
    ]


def test_a_copy_that_was_never_published_is_published_by_the_next_load(home: Home) -> None:
    land(home, IDS[0])
    load_parts(home)
    published = home.published.read_bytes()
    land(home, IDS[1])
    load_parts(home)
    home.published.unlink()
    home.published.write_bytes(published)  # as if the last loader died before it published
    assert load_parts(home).is_published
    assert query(home, "SELECT count(*) FROM runs") == [(2,)]


def test_what_a_killed_loader_left_is_cleared(home: Home) -> None:
    ready = land(home, IDS[0])
    ready.parent.rename(home.spool / f".trash-{IDS[0]}")
    land(home, IDS[1])
    leftover = home.path / ".published.duckdb-12345.tmp"
    leftover.write_bytes(b"half")
    assert load_parts(home).loaded == [IDS[1]]
    assert list(home.spool.iterdir()) == []
    assert not leftover.exists()


def test_what_killed_writers_left_is_cleared_and_what_lives_is_not(home: Home) -> None:
    def make(name: str, *, owner: Process | None, is_old: bool) -> Path:
        folder = home.spool / name
        (folder / "part.tmp").mkdir(parents=True)
        (folder / "part.tmp" / "events.parquet").write_bytes(b"half")
        if owner is not None:
            (folder / "owner.json").write_text(json.dumps(asdict(owner)))
        if is_old:
            for path in (*folder.rglob("*"), folder):
                os.utime(path, (0, 0))
        return folder

    here = this_process()
    gone = replace(here, pid=2**22 + 1)
    elsewhere = replace(gone, space="another machine")
    dead = [
        make("dead", owner=gone, is_old=False),
        make("old", owner=None, is_old=True),
        make("far-and-old", owner=elsewhere, is_old=True),
    ]
    alive = [
        make("alive", owner=here, is_old=True),
        make("new", owner=None, is_old=False),
        make("far", owner=elsewhere, is_old=False),
    ]
    orphan = home.spool / "orphan"
    orphan.mkdir()
    (orphan / "started.json.tmp").write_text("{")
    os.utime(orphan / "started.json.tmp", (0, 0))
    os.utime(orphan, (0, 0))
    draft = home.path / ".warehouse.duckdb-12345-0123abcd"
    draft.write_bytes(b"half")
    os.utime(draft, (0, 0))
    load_parts(home)
    assert not any(path.exists() for path in (*dead, orphan, draft))
    assert all((folder / "part.tmp" / "events.parquet").exists() for folder in alive)


def test_a_full_disk_is_known_by_what_each_library_says() -> None:
    for text in (
        "No space left on device (os error 28)",
        "[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device",
        'IO Error: Could not write all bytes to file "x": wanted=4096 wrote=12',
        "failed to write whole buffer",
    ):
        assert is_full(RuntimeError(text))
    assert is_full(OSError(28, "x"))
    assert not is_full(OSError(13, "Permission denied"))


def test_a_reader_keeps_the_copy_that_it_opened(home: Home) -> None:
    land(home, IDS[0])
    load_parts(home)
    with duckdb.connect(str(home.published), read_only=True) as reader:
        assert reader.execute("SELECT count(*) FROM runs").fetchall() == [(1,)]
        land(home, IDS[1])
        assert load_parts(home).is_published
        assert reader.execute("SELECT count(*) FROM query_metrics").fetchall() == [(15,)]
    assert query(home, "SELECT count(*) FROM query_metrics") == [(30,)]


def test_the_published_copy_is_not_writable_by_others(home: Home) -> None:
    land(home, IDS[0])
    load_parts(home)
    assert home.published.stat().st_mode & 0o222 == 0


def test_a_spool_that_cannot_be_written_is_refused_at_the_start(home: Home) -> None:
    home.spool.write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="spool"):
        Spool(home).start(IDS[0], experiment="handbook")


def test_a_disk_that_fills_at_the_end_is_a_failure_that_says_so(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    run = Spool(home).start(IDS[0], experiment="handbook")
    monkeypatch.setattr("warehouse.parts.flush", full)
    with pytest.raises(FailedError, match="no space is left"):
        run.finish(sample_run(IDS[0]))
    assert not (home.spool / IDS[0] / "part.tmp").exists()


@pytest.mark.parametrize("content", [b"this is not a database" * 500, b""])
def test_a_file_that_is_not_duckdb_is_refused_and_untouched(home: Home, content: bytes) -> None:
    home.warehouse.write_bytes(content)
    land(home, IDS[0])
    for refuse in (check_warehouse, load_parts):
        with pytest.raises(StorageError, match="not a DuckDB file"):
            refuse(home)
        assert home.warehouse.read_bytes() == content
    assert (home.spool / IDS[0] / "ready").is_dir()


def test_a_truncated_file_is_refused(home: Home) -> None:
    land(home, IDS[0])
    load_parts(home)
    whole = home.warehouse.read_bytes()
    land(home, IDS[1])
    for length in (len(whole) - 1, len(whole) // 2):
        home.warehouse.write_bytes(whole[:length])
        for refuse in (check_warehouse, load_parts):
            with pytest.raises(StorageError, match="damaged"):
                refuse(home)
        assert home.warehouse.stat().st_size == length
    assert (home.spool / IDS[1] / "ready").is_dir()


def test_another_database_is_refused(home: Home) -> None:
    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute("CREATE TABLE theirs AS SELECT 1 AS a")
    with pytest.raises(StorageError, match=r"other tables \(theirs\)"):
        check_warehouse(home)


def test_new_ids_are_fresh() -> None:
    assert len({new_run_id() for _ in range(1000)}) == 1000
    assert len(digest("a")) == 64


def test_a_run_that_somebody_stopped_is_no_crash(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").prepare()

    def evaluate() -> None:
        with Spool(home).start(new_run_id(), experiment="handbook"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate()
    assert list(home.spool.iterdir()) == []
