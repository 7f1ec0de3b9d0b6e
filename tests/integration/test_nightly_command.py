"""``rankhouse nightly`` and ``baseline``: verdicts, exit codes, locks, kills, refusals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.data.llm_server import Reply, ScriptedServer, sensible
from tests.data.nightly_project import BOATS, EXPERIMENT, SUITE, write_boats, write_suite
from tests.data.small_project import REPOSITORY, Command


@pytest.fixture
def suite(command: Command) -> Path:
    return write_suite(command.folder)


def night(command: Command, suite: Path, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    """Run a night; its report, with the one experiment's outcome."""
    done = command("nightly", str(suite), "--format", "json", *arguments, exit_code=exit_code)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_loss_is_told_stays_and_ends_when_somebody_accepts_it(
    command: Command, suite: Path, prefect_url: str
) -> None:
    first = night(command, suite)
    (outcome,) = first["outcomes"]
    assert (outcome["verdict"], outcome["reason"]) == ("not comparable", "first night")

    command("baseline", "accept", "latest", "--reason", "checked by hand", "--by", "Ada")
    for path in sorted((command.folder / "docs").iterdir())[:20]:
        path.unlink()
    lost = command("nightly", str(suite), exit_code=10)
    (line,) = lost.stdout.splitlines()
    assert re.match(r"boats: worse: ndcg@10 fell by 0\.3333 \[.*\], p = \S+, on 20 of 60", line)
    assert "lost most: q00, q01, q02 and 17 more" in line
    assert "why: documents: 20 removed (00.txt, 01.txt, " in line
    assert "20 of 20 lost queries touch them" in line
    tolerated = night(command, suite, "--tolerate", "10")
    (outcome,) = tolerated["outcomes"]
    assert outcome["verdict"] == "worse"
    assert outcome["comparisons"][0]["baseline"]["run_ids"] == [first["outcomes"][0]["run_id"]]
    (run_id,) = tolerated["flow_runs"]
    state = parent_state(prefect_url, run_id)
    assert (state["type"], state["name"]) == ("COMPLETED", "worse")

    accepted = re.search(r"rankhouse (baseline accept \S+ --reason) WHY", line)
    assert accepted is not None
    command(*accepted[1].split(), "the old boats are gone", "--by", "Ada")
    assert night(command, suite)["verdict"] == "same"
    rows = json.loads(command("baseline", "list", "--format", "json").stdout)
    assert [(row["author"], row["reason"]) for row in rows] == [
        ("Ada", "the old boats are gone"),
        ("Ada", "checked by hand"),
    ]
    header, _, newest, *_ = command("baseline", "list").stdout.splitlines()
    assert header.split()[:5] == ["accepted_at", "experiment", "run_id", "author", "reason"]
    assert newest.index("the old boats are gone") < 80, "a narrow terminal shows who and why"
    assert rows[0]["run_id"][-8:] in newest
    assert "sound" in command("warehouse", "verify").stderr


def parent_state(prefect_url: str, flow_run_id: str) -> dict[str, Any]:
    """The final state of the night that a run's flow run belongs to."""
    run = httpx.get(f"{prefect_url}/flow_runs/{flow_run_id}").json()
    task = httpx.get(f"{prefect_url}/task_runs/{run['parent_task_run_id']}").json()
    state: dict[str, Any] = httpx.get(f"{prefect_url}/flow_runs/{task['flow_run_id']}").json()
    return state["state"]


def test_one_experiment_that_fails_stops_no_other(command: Command, suite: Path) -> None:
    other = command.folder / "elsewhere.toml"
    other.write_text(EXPERIMENT.format(corpus="not-mounted"))
    suite.write_text('[[experiment]]\npath = "elsewhere.toml"\n' + SUITE)
    done = command("nightly", str(suite), "--format", "csv", exit_code=1)
    header, failed, measured = done.stdout.splitlines()
    assert header.startswith("suite,logical_date,experiment,status,verdict,reason")
    assert ",elsewhere,refused,," in failed
    assert "there is no such file or folder" in failed
    assert ",boats,completed,not comparable,first night," in measured
    assert len(command.sql("select * from runs")) == 1

    suite.write_text(SUITE.replace("boats.toml", "elsewhere.toml"))
    done = command("nightly", str(suite), exit_code=2)
    assert "there is no such file or folder" in done.stdout


def test_a_locked_warehouse_keeps_the_verdict_for_the_next_load(
    command: Command, suite: Path
) -> None:
    night(command, suite)
    command("baseline", "accept", "latest", "--reason", "first")
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.data.warehouse_child", str(command.home), "hold", "120"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        done = command("nightly", str(suite), exit_code=11)
    finally:
        child.kill()
        child.communicate()
    assert done.stdout.startswith("boats: not enough evidence: locked")
    assert "spooled: " in done.stderr
    loaded = command("warehouse", "load")
    assert re.search(r"^compared: \S+: same: ndcg@10 is", loaded.stderr, re.MULTILINE)
    verdicts = command.sql("select verdict from comparisons where is_gated order by compared_at")
    assert [row["verdict"] for row in verdicts] == ["not comparable", "same"]
    assert not list((command.home / "requests").iterdir())


SUMMARY = """
[summary]
contexts = "retrieved"
n_contexts = 1
[summary.judge]
model = "m"
base_url = "{url}"
max_concurrency = 4
"""


def test_a_night_that_is_killed_goes_on_where_it_was(command: Command, suite: Path) -> None:
    with ScriptedServer() as server:
        experiment = command.folder / "boats.toml"
        experiment.write_text(experiment.read_text() + SUMMARY.format(url=server.url))
        n_before_hang = 30

        def hangs(body: dict[str, Any], number: int) -> Reply:
            return Reply(is_hung=True) if number >= n_before_hang else sensible(body)

        server.script = hangs
        process = command.start("nightly", str(suite))
        deadline = time.monotonic() + 120
        while server.in_flight < 4 or len(server.answered) < n_before_hang:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        answered = set(server.answered)
        server.script = lambda body, number: sensible(body)
        (outcome,) = night(command, suite)["outcomes"]
        assert answered < set(server.answered)
        assert set(server.answered.values()) == {1}
    assert outcome["reason"] == "first night"
    run = f"run_id = '{outcome['run_id']}'"
    stages = command.sql(f"select stage, cached from stages where {run} order by position")
    reused = [row["stage"] for row in stages if row["cached"]]
    assert reused == [row["stage"] for row in stages][: len(reused)]
    assert {"load_corpus", "label", "rank", "write_responses"} <= set(reused)
    (event,) = command.sql("select run_id, stage from events where kind = 'crashed'")
    assert event["stage"] == "build_question_bank"
    assert event["run_id"] != outcome["run_id"]


def test_the_budget_is_of_the_whole_night(command: Command, suite: Path) -> None:
    with ScriptedServer() as server:
        experiment = command.folder / "boats.toml"
        experiment.write_text(experiment.read_text() + SUMMARY.format(url=server.url))
        more = '[[experiment]]\npath = "boats.toml"\n'
        more += 'set = { name = "more", "summary.prompts" = "fr" }\n'
        suite.write_text(SUITE + more + "[budget]\ncalls = 200\n")
        first, second = night(command, suite)["outcomes"]
        n_calls = sum(server.purposes().values()) - server.purposes()["probe"]
    assert (first["status"], second["status"]) == ("completed", "degraded")
    assert n_calls == 200  # 3 × 60 of the first, 8 of its judge's anchor, the rest for the second
    (row,) = command.sql(
        "select count(*) as n, any_value(message) as message from summary_scores "
        "where status = 'over_budget'"
    )
    assert row["n"] > 40
    assert "what the night left of the suite's, is reached (12 calls)" in row["message"]


def today() -> Any:
    return datetime.now(UTC).date()


def test_a_night_that_is_over_needs_its_own_corpus_and_is_no_baseline(command: Command) -> None:
    suite = write_suite(command.folder)
    yesterday = (today() - timedelta(days=1)).isoformat()
    refused = command("nightly", str(suite), "--date", yesterday, exit_code=2)
    assert "which holds today's documents, and of that night no run of it is here" in refused.stderr
    assert "Put {date} into corpus.path" in refused.stderr
    assert not (command.home / "spool").exists()

    write_suite(command.folder, corpus="days/{date}")
    write_boats(command.folder / "days" / yesterday, BOATS[:50])
    write_boats(command.folder / "days" / today().isoformat())
    filled = night(command, suite, "--date", yesterday)
    assert filled["is_backfill"] is True
    (row,) = command.sql("select corpus_path, n_documents, suite, logical_date from runs")
    assert row["corpus_path"] == str(command.folder / "days" / yesterday)
    assert (row["n_documents"], row["suite"], row["logical_date"]) == (50, "nightly", yesterday)
    assert command.sql("select tag from run_tags") == [{"tag": "back-fill"}]
    (outcome,) = night(command, suite)["outcomes"]
    assert outcome["reason"] == "first night"


def test_a_schedule_without_any_night_is_refused_by_the_night_too(command: Command) -> None:
    suite = write_suite(command.folder)
    suite.write_text(SUITE + '[schedule]\ncron = "0 2 30 2 *"\n')
    refused = command("nightly", str(suite), exit_code=2)
    assert "schedule.cron is '0 2 30 2 *'" in refused.stderr
    assert not (command.home / "warehouse.duckdb").exists()


def test_a_configured_server_that_does_not_answer_is_no_defect(offline_command: Command) -> None:
    suite = write_suite(offline_command.folder)
    nobody = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    failed = offline_command("nightly", str(suite), exit_code=1, **nobody)
    assert "the Prefect server does not answer" in failed.stderr
    assert "defect" not in failed.stderr


def test_what_cannot_be_used_is_refused_before_anything_is_written(
    offline_command: Command,
) -> None:
    command, home = offline_command, offline_command.home
    suite = write_suite(command.folder)
    tomorrow = (today() + timedelta(days=2)).isoformat()
    assert (
        "is in the future" in command("nightly", str(suite), "--date", tomorrow, exit_code=2).stderr
    )
    suite.write_text(SUITE + '[baseline]\nkind = "pinned"\nrun = "0192f3a1"\n')
    refused = command("nightly", str(suite), exit_code=2)
    assert "the baseline's run '0192f3a1' does not exist" in refused.stderr
    suite.write_text(SUITE + '[schedule]\ntimezone = "Mars/Olympus"\n')
    refused = command("nightly", str(suite), exit_code=2)
    assert "there is no such time zone" in refused.stderr
    suite.write_text(SUITE.replace("[[experiment]]", "[[experiments]]"))
    refused = command("nightly", str(suite), exit_code=2)
    assert "the suite names no experiment" in refused.stderr
    assert not (home / "spool").exists()
    assert not (home / "warehouse.duckdb").exists()
