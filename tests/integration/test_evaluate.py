"""One command evaluates; what did not change is reused, what was damaged is made again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.data.small_project import REPOSITORY, Command, write_small_project

STAGES = [
    "load_corpus",
    "load_benchmark",
    "chunk_corpus",
    "label",
    "embed_chunks",
    "embed_queries",
    "build_index",
    "retrieve",
    "rank",
]


def reused(report: dict[str, Any]) -> list[str]:
    return [stage["stage"] for stage in report["stages"] if stage["cached"]]


def computed(report: dict[str, Any]) -> list[str]:
    return [stage["stage"] for stage in report["stages"] if not stage["cached"]]


def means(report: dict[str, Any]) -> dict[str, float]:
    return {row["measure"]: row["mean"] for row in report["measures"]}


def results(command: Command, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Everything of a run that must not change when it is computed again."""
    digests = command.sql(
        f"select rankings_digest, labels_digest from runs where run_id = '{run_id}'"
    )
    return {
        "digests": digests,
        "rankings": command.sql(
            "select * from rankings where rankings_digest = "
            f"'{digests[0]['rankings_digest']}' order by all"
        ),
        "labels": command.sql(
            "select * from labels where labels_digest = "
            f"'{digests[0]['labels_digest']}' order by all"
        ),
        "values": command.sql(
            "select query_id, measure, value, null_reason from query_metrics "
            f"where run_id = '{run_id}' order by all"
        ),
    }


def test_a_second_run_reuses_every_stage_and_gives_the_same_bytes(
    command: Command, small: Path
) -> None:
    first = command.evaluate(small)
    assert computed(first) == STAGES
    second = command.evaluate(small)
    assert reused(second) == STAGES
    assert second["run_id"] != first["run_id"]
    assert results(command, second["run_id"]) == results(command, first["run_id"])
    assert len(results(command, first["run_id"])["rankings"]) == 25  # 5 queries x depth 5


def test_the_numbers_are_those_of_the_rankings(command: Command, small: Path) -> None:
    report = command.evaluate(small)
    found = command.sql(
        "select r.query_id, min(r.rank) as first from rankings r join labels l "
        "on l.query_id = r.query_id and l.item_id = r.item_id and l.kind = 'item' "
        "group by 1 order by 1"
    )
    # q5 has no relevant span by the benchmark's choice: four queries are scored
    expected = sum(1 / row["first"] for row in found) / 4
    assert means(report)["rr@5"] == pytest.approx(expected, abs=1e-12)
    row = next(row for row in report["measures"] if row["measure"] == "rr@5")
    assert (row["n_scored"], row["n_queries"], row["n_failed"]) == (4, 5, 0)


def test_a_cached_run_loads_no_model_library(command: Command, small: Path) -> None:
    command.evaluate(small)
    script = (
        "import sys\n"
        "from flows.cli import command, run\n"
        f"arguments = ['evaluate', {str(small)!r}, '--format', 'csv']\n"
        "code = run(lambda: command.main(arguments, standalone_mode=False))\n"
        "heavy = {'torch', 'faiss', 'sentence_transformers', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else code)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=command.environment,
        cwd=command.folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_an_edited_document_costs_only_its_own_chunks(command: Command, small: Path) -> None:
    command.evaluate(small)
    path = command.folder / "docs" / "meals.txt"
    path.write_text(path.read_text() + " Tea is free.")
    report = command.evaluate(small)
    assert report["sizes"]["n_encoded"] == 1
    assert "load_benchmark" in reused(report)
    assert "embed_queries" in reused(report)


def test_a_setting_runs_again_only_what_it_decides(command: Command, small: Path) -> None:
    command.evaluate(small)
    report = command.evaluate(small, "--set", 'measures=["hit@2"]')
    assert computed(report) == ["rank"]
    report = command.evaluate(small, "--set", "labelling.min_coverage=0.9")
    assert "label" in computed(report)
    assert not {"chunk_corpus", "embed_chunks", "retrieve"} & set(computed(report))


@pytest.mark.parametrize(
    ("kind", "damage"), [("chunks", "deleted"), ("vectors", "truncated"), ("rankings", "altered")]
)
def test_a_damaged_artifact_is_made_again(
    command: Command, small: Path, kind: str, damage: str
) -> None:
    first = command.evaluate(small)
    for path in (command.home / "artifacts" / kind).rglob("*.*"):
        content = bytearray(path.read_bytes())
        if damage == "deleted":
            path.unlink()
        elif damage == "truncated":
            path.write_bytes(content[:-7])
        else:
            content[len(content) // 2] ^= 0xFF
            path.write_bytes(content)
    result = command("evaluate", str(small), "--format", "json", "--set", 'measures=["hit@2"]')
    report = json.loads(result.stdout)
    assert ("was altered" if damage == "altered" else "runs again") in result.stderr
    again = command.evaluate(small)
    assert (
        results(command, again["run_id"])["rankings"]
        == results(command, first["run_id"])["rankings"]
    )
    assert means(again) == means(first)
    assert report["status"] == "completed"


@pytest.mark.parametrize("name", ["evaluate", "experiment"])
def test_a_damaged_artifact_is_made_again_though_no_stage_has_to_read_it(
    command: Command, small: Path, name: str
) -> None:
    kinds = ("rankings", "labels", "notes", "query_metrics", "run_metrics")
    command(name, str(small))
    n_altered = 0
    for kind in kinds:
        for path in (command.home / "artifacts" / kind).rglob("*.parquet"):
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 0xFF
            path.write_bytes(content)
            n_altered += 1
    assert n_altered >= len(kinds)
    again = command(name, str(small))
    assert again.stderr.count("was altered: its bytes have another digest; what made it") >= 2
    runs = command.sql("select run_id, status from runs order by started_at")
    assert [run["status"] for run in runs] == ["completed", "completed"]
    first, second = (run["run_id"] for run in runs)
    assert results(command, second) == results(command, first)
    assert "again" not in command(name, str(small)).stderr


@pytest.mark.parametrize("stage", ["embed_chunks", "retrieve", "write_results"])
def test_a_run_killed_at_a_stage_is_finished_by_the_next(
    command: Command, small: Path, stage: str
) -> None:
    process = command.start("evaluate", str(small))
    kill_in_stage(process, command.home, stage)
    report = command.evaluate(small)
    assert report["status"] == "completed"
    done = STAGES[: STAGES.index(stage)] if stage in STAGES else STAGES
    assert set(done[:-1]) <= set(reused(report))
    runs = command.sql("select run_id from runs")
    assert [row["run_id"] for row in runs] == [report["run_id"]]
    crashed = command.sql("select stage from events where kind = 'crashed'")
    assert len(crashed) == 1


def kill_in_stage(process: subprocess.Popen[str], home: Path, stage: str) -> None:
    """Kill -9 as soon as the run says that it has come to a stage, or a later one."""
    order = [*STAGES, "write_results"]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for path in home.glob("spool/*/started.json"):
            try:
                current = json.loads(path.read_text())["stage"]
            except (OSError, ValueError):
                continue
            if current in order and order.index(current) >= order.index(stage):
                os.kill(process.pid, signal.SIGKILL)
                process.communicate()
                return
        time.sleep(0.001)
    pytest.fail(f"the run ended before it was in {stage}: {process.communicate()}")


def test_a_changed_helper_runs_its_stage_again_and_what_follows_only_if_its_output_changed(
    command: Command, small: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "checkout"
    for package in ("flows", "tasks", "schemas", "warehouse"):
        shutil.copytree(REPOSITORY / package, copy / package)
    edited = Command(command.folder, command.home, {**command.environment, "PYTHONPATH": str(copy)})
    edited.evaluate(small)
    helper = copy / "tasks" / "splitting.py"
    assert "tasks.splitting" in (copy / "tasks" / "chunking.py").read_text()
    helper.write_text(helper.read_text() + "\nADDED = 1\n")
    report = edited.evaluate(small)
    assert computed(report) == ["chunk_corpus"], "same chunks: nothing after it runs again"
    helper.write_text(helper.read_text() + "# a comment is no change\n")
    assert computed(edited.evaluate(small)) == []


def test_two_commands_at_once_without_a_server_both_land(offline_command: Command) -> None:
    file = write_small_project(offline_command.folder)
    processes = [
        offline_command.start("evaluate", str(file), "--format", "json", "--set", f"name=n{i}")
        for i in range(2)
    ]
    outcomes = [process.communicate(timeout=280) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outcomes
    offline_command("warehouse", "load")
    assert {row["experiment"] for row in offline_command.sql("select experiment from runs")} == {
        "n0",
        "n1",
    }
    assert list((offline_command.home / "prefect").glob("prefect-*.db*")) == []
    assert list((offline_command.home / "prefect").glob("server-*")) == []


def test_a_good_run_in_a_pipe_is_quiet_and_every_task_is_recorded(
    offline_command: Command,
) -> None:
    import sqlite3

    file = write_small_project(offline_command.folder)
    result = offline_command("evaluate", str(file))
    lines = result.stderr.splitlines()
    assert len(lines) <= 3, result.stderr
    assert not {"\x1b", "\r"} & set(result.stdout + result.stderr)
    database = sqlite3.connect(offline_command.home / "prefect" / "prefect.db")
    states = database.execute("select state_type, count(*) from task_run group by 1").fetchall()
    assert states == [("COMPLETED", 12)]  # nine stages; fill quotes, write, load
    names = {name for (name,) in database.execute("select name from task_run")}
    assert {"chunk 5 documents", "embed 5 queries", "label by span"} <= names
    (flow_run,) = database.execute("select name, tags from flow_run").fetchall()
    assert flow_run[0] == "small"
    assert set(json.loads(flow_run[1])) == {"small", "all-MiniLM-L6-v2", "dense"}
    (artifact,) = database.execute("select key, type, data from artifact").fetchall()
    assert artifact[:2] == ("retrieval-measures", "table")
    assert "rr@5" in artifact[2]


def test_control_characters_of_a_corpus_never_reach_the_terminal(
    command: Command, small: Path
) -> None:
    hostile = "evil\x1b]0;owned\x07\x1b[31m"
    (command.folder / "docs" / "a.txt").write_text(f"A text {hostile} with controls.")
    query = {"query_id": hostile, "text": hostile, "spans": [{"doc_id": hostile, "quote": "x"}]}
    with (command.folder / "benchmark.jsonl").open("a") as stream:
        stream.write(json.dumps(query) + "\n")
    result = command("evaluate", str(small))
    assert not {"\x1b", "\x07"} & set(result.stdout + result.stderr)
    assert r"evil\x1b" in result.stdout


def test_a_strict_benchmark_refuses_lost_truth_and_writes_no_run(
    command: Command, small: Path
) -> None:
    (command.folder / "docs" / "pets.txt").write_text("No animals at all.")
    result = command("evaluate", str(small), "--set", "benchmark.strict=true", exit_code=2)
    assert "q2" in result.stderr
    assert not (command.home / "warehouse.duckdb").exists() or command.sql("from runs") == []


def test_lost_truth_is_counted_and_named_otherwise(command: Command, small: Path) -> None:
    before = means(command.evaluate(small))
    (command.folder / "docs" / "pets.txt").write_text("No animals at all.")
    report = command.evaluate(small)
    assert [note["query_id"] for note in report["truth_notes"] if note["note"] == "lost"] == ["q2"]
    assert {row["n_lost"] for row in report["measures"]} == {1}
    assert means(report)["hit@1"] <= before["hit@1"]


def test_a_locked_warehouse_leaves_the_run_in_the_spool_and_the_next_load_takes_it(
    command: Command, small: Path
) -> None:
    import duckdb

    command.evaluate(small)
    with duckdb.connect(str(command.home / "warehouse.duckdb")):
        result = command("evaluate", str(small))
        assert "spooled: the warehouse is held by" in result.stderr
        assert "rankhouse warehouse load" in result.stdout
    assert len(command.sql("from runs")) == 1
    command("warehouse", "load")
    assert len(command.sql("from runs")) == 2


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_a_command_that_is_stopped_takes_its_server_with_it(
    offline_command: Command, name: str
) -> None:
    file = write_small_project(offline_command.folder)
    process = offline_command.start("evaluate", str(file))
    note = offline_command.home / "prefect" / f"server-{process.pid}.json"
    deadline = time.monotonic() + 100
    while not note.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(1)
    server = json.loads(note.read_text())["pid"]
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=60)
    assert process.returncode == {"SIGTERM": 143, "SIGINT": 130, "SIGKILL": -9}[name]
    while psutil.pid_exists(server):
        assert time.monotonic() < deadline, "the server was left behind"
        time.sleep(0.05)
