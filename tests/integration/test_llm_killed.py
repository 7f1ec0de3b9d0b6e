"""A judge that is killed loses no answered call; a whole evaluation lands with its reasoning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.data.llm_server import Reply, ScriptedServer, blocks_of, error, purpose_of, sensible
from tests.data.small_project import REPOSITORY, Command, write_small_project

CHILD = REPOSITORY / "tests" / "data" / "llm_child.py"


def start_child(url: str, items: Path, n: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(CHILD), url, str(items), str(n), "8"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what the test waits for does not happen"
        time.sleep(0.05)


def test_after_kill_9_in_the_middle_no_answered_call_is_repeated(tmp_path: Path) -> None:
    n_before_hang = 60
    with ScriptedServer() as server:
        # It answers 60 calls, then hangs: all answers have arrived when the process is killed.
        server.script = lambda body, n: (
            Reply(is_hung=True) if n >= n_before_hang else sensible(body)
        )
        process = start_child(server.url, tmp_path, 40)
        wait_for(lambda: server.in_flight >= 4 and len(server.answered) >= n_before_hang)
        time.sleep(1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        answered = set(server.answered)
        assert len(answered) == n_before_hang
        server.script = lambda body, n: sensible(body)
        rerun = start_child(server.url, tmp_path, 40)
        figures = json.loads(rerun.communicate(timeout=120)[0])
    assert figures["n_scored"] == 40
    assert figures["scores"] == [0.6423387096775146]
    assert set(server.answered.values()) == {1}
    assert len(server.answered) == 3 * 40 + 1
    assert answered < set(server.answered)
    assert figures["n_reused"] == n_before_hang - 1  # the probe is no call of the stage


SUMMARY = """
[summary]
contexts = "reference"
[summary.judge]
model = "m"
base_url = "{url}"
{more}
"""


def write_project(folder: Path, url: str, more: str = "") -> Path:
    file = write_small_project(folder)
    lines = [json.loads(line) for line in (folder / "benchmark.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        text = [f"t{number} b c d e f g h ".ljust(155, "x"), "y" * 154]
        line |= {"reference_contexts": text, "response": f"r{number}".ljust(183, "s")}
    (folder / "benchmark.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    file.write_text(file.read_text() + SUMMARY.format(url=url, more=more))
    return file


def test_an_evaluation_stores_scores_questions_calls_and_cost(command: Command) -> None:
    price = '[[summary.prices]]\nmodel = "m"\nsince = 2020-01-01\ninput = 1.0\noutput = 2.0\n'
    with ScriptedServer() as server:
        file = write_project(command.folder, server.url, price)
        report = command.evaluate(file)
        first = server.purposes()
        again = command.evaluate(file)
        assert (
            server.purposes()
            == first
            == {
                "probe": 1,
                "key_phrases": 5,
                "questions": 5,
                "answers": 5,
            }
        )
    assert (report["status"], again["status"]) == ("completed", "completed")
    run = f"run_id = '{report['run_id']}'"
    scores = command.sql(f"select summary_score, judge, status from summary_scores where {run}")
    assert scores == [{"summary_score": 0.6423387096775146, "judge": "m", "status": "scored"}] * 5
    (mean,) = command.sql(f"select mean from run_metrics where measure = 'summary_score' and {run}")
    assert mean["mean"] == 0.6423387096775146
    questions = command.sql(
        f"select question, answer, reason, key_phrase from summary_questions where {run} "
        "and query_id = 'q1' order by question_index"
    )
    assert [row["answer"] for row in questions] == ["1"] * 7 + ["0"]
    assert questions[0]["question"] == "Does it say t0?"
    costs = command.sql("select n_calls, n_reused, cost, currency from cost_by_run order by run_id")
    # 15 calls of 100 tokens at 1 and 50 at 2 a million
    assert abs(costs[0].pop("cost") - 15 * 200 / 1e6) < 1e-12
    assert costs[0] == {"n_calls": 15, "n_reused": 0, "currency": "USD"}
    assert (costs[1]["n_calls"], costs[1]["n_reused"], costs[1]["cost"]) == (0, 15, None)


def test_failures_degrade_the_run_and_only_they_are_asked_again(command: Command) -> None:
    def script(body: dict[str, Any], number: int) -> Reply:
        is_third = bool(blocks_of(body)) and "r2s" in blocks_of(body)[0]
        return error(400, "no") if is_third and purpose_of(body) == "answers" else sensible(body)

    with ScriptedServer(script) as server:
        file = write_project(command.folder, server.url)
        report = command.evaluate(file)
        assert report["status"] == "degraded"
        assert "invalid_reply (1)" in report["status_reason"]
        rows = command.sql(
            "select n_scored, n_queries, n_failed, low, high, mean from run_metrics "
            "where measure = 'summary_score'"
        )
        (row,) = rows
        assert (row["n_scored"], row["n_queries"], row["n_failed"]) == (4, 5, 1)
        assert row["mean"] == 0.6423387096775146
        assert abs(row["low"] - 4 * row["mean"] / 5) < 1e-12
        assert abs(row["high"] - (4 * row["mean"] + 1) / 5) < 1e-12
        server.script = lambda body, n: sensible(body)
        before = server.purposes()
        assert command.evaluate(file)["status"] == "completed"
        assert server.purposes() - before == {"answers": 1}


def test_a_budget_degrades_the_run_and_the_next_one_goes_on(command: Command) -> None:
    with ScriptedServer() as server:
        file = write_project(command.folder, server.url, "[summary.budget]\ncalls = 12\n")
        report = command.evaluate(file)
        assert report["status"] == "degraded"
        assert "over_budget (3)" in report["status_reason"]
        assert sum(server.purposes().values()) == 12 + 1
        assert command.evaluate(file)["status"] == "completed"
        assert sum(server.purposes().values()) == 15 + 1


def test_an_endpoint_that_cannot_be_used_is_refused_before_any_stage(command: Command) -> None:
    file = write_project(command.folder, "http://127.0.0.1:9/v1")
    refused = command("evaluate", str(file), exit_code=2)
    assert "summary.judge: m at http://127.0.0.1:9/v1" in refused.stderr
    assert "is the server running" in refused.stderr
    with ScriptedServer() as server:
        file = write_project(command.folder, server.url, "")
        keyed = ("--set", "summary.judge.api_key_env=RANKHOUSE_ABSENT_KEY")
        refused = command("evaluate", str(file), *keyed, exit_code=2)
    assert "RANKHOUSE_ABSENT_KEY is not set" in refused.stderr
    assert not server.bodies


def test_a_dry_run_counts_the_calls_that_are_not_stored_and_sends_none(command: Command) -> None:
    price = '[[summary.prices]]\nmodel = "m"\nsince = 2020-01-01\ninput = 1.0\noutput = 2.0\n'
    with ScriptedServer() as server:
        file = write_project(command.folder, server.url, price)

        def plan() -> dict[str, int]:
            result = command("evaluate", str(file), "--dry-run", "--format", "json")
            rows = json.loads(result.stdout)
            assert all(row["cost"] > 0 for row in rows if row["calls"])
            return {row["purpose"]: row["calls"] for row in rows}

        assert plan() == {"key_phrases": 5, "questions": 5, "answers": 5}
        assert not server.bodies
        command.evaluate(file)
        sent = len(server.bodies)
        assert plan() == {"key_phrases": 0, "questions": 0, "answers": 0}
        text = (command.folder / "benchmark.jsonl").read_text()
        (command.folder / "benchmark.jsonl").write_text(text.replace("r2s", "R2s"))
        assert plan() == {"key_phrases": 0, "questions": 0, "answers": 1}
        assert len(server.bodies) == sent
        assert len(command.sql("select run_id from runs")) == 1
