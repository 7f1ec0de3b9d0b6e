"""A judge that drifts, and an embedding model that changes under its name, seen in the morning.

Real parts: Prefect's server, the flow, DuckDB, HTTP servers on loopback that are scripted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.llm_server import (
    Reply,
    ScriptedServer,
    blocks_of,
    lines_of,
    purpose_of,
    sensible,
)
from tests.data.nightly_project import BOATS, write_benchmark, write_boats
from tests.data.small_project import REPOSITORY, Command

START = datetime(2024, 1, 1, 2, tzinfo=UTC)
N_BOATS = 20
EXPERIMENT = """
measures = ["hit@1", "ndcg@10"]
[corpus]
path = "docs"
[benchmark]
path = "benchmark.jsonl"
[chunking]
method = "none"
[embedding.endpoint]
model = "vectors"
base_url = "{embeddings}"
[retrieval]
depth = 10
[labelling]
method = "document"
[execution]
threads = 1
[summary]
contexts = "reference"
n_contexts = 1
[summary.judge]
model = "judge"
base_url = "{judge}"
attempts = 1
"""
SUITE = """
name = "checked"
noise_runs = 1
[[experiment]]
path = "boats.toml"
[[gate]]
measure = "qa"
delta = 0.05
"""


def embeddings(salt: str) -> Callable[[dict[str, Any], int], Reply]:
    """Bags of words: a random vector a word, which ``salt`` decides."""

    def vector_of(text: str) -> Any:
        seeds = (hashlib.sha256(f"{salt} {word}".encode()).digest() for word in text.split())
        parts = [np.random.default_rng(int.from_bytes(seed[:8], "big")) for seed in seeds]
        return sum(part.normal(size=32) for part in parts).astype("<f4")

    def answer(body: dict[str, Any], number: int) -> Reply:
        encoded = [base64.b64encode(vector_of(text).tobytes()).decode() for text in body["input"]]
        data = [{"index": index, "embedding": text} for index, text in enumerate(encoded)]
        return Reply(raw={"data": data, "usage": {"prompt_tokens": 1}})

    return answer


def strict(body: dict[str, Any], number: int) -> Reply:
    """A judge that has become strict: of four questions it says yes to one."""
    if purpose_of(body) != "answers" or not blocks_of(body):
        return sensible(body)
    indexes = [line["index"] for line in lines_of(blocks_of(body)[1])]
    answers = [
        {"index": index, "reason": "strict", "answer": "01"[place % 4 == 0]}
        for place, index in enumerate(indexes)
    ]
    return Reply(json.dumps({"answers": answers}))


class Team:
    """Files, servers, and a process that runs a night when it is asked to."""

    def __init__(self, command: Command, judge: ScriptedServer, vectors: ScriptedServer):
        self.command, self.judge, self.vectors = command, judge, vectors
        folder = command.folder
        self.docs = folder / "docs"
        write_boats(self.docs, BOATS[:N_BOATS])
        write_references(folder)
        text = EXPERIMENT.format(embeddings=vectors.url, judge=judge.url)
        (folder / "boats.toml").write_text(text)
        (folder / "suite.toml").write_text(SUITE)
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.data.nights_child"),
                *(str(command.home), str(folder / "suite.toml")),
            ],
            cwd=REPOSITORY,
            env=command.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def night(self, number: int) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        at = (START + timedelta(days=number)).isoformat()
        self.process.stdin.write(json.dumps({"at": at}) + "\n")
        self.process.stdin.flush()
        (outcome,) = json.loads(self.process.stdout.readline())["outcomes"]
        return dict(outcome)

    def reword(self) -> None:
        """Change every answer, so that every summary is judged anew."""
        for path in self.docs.iterdir():
            path.write_text(path.read_text().replace("takes", "takes about"))


def write_references(folder: Path) -> None:
    write_benchmark(folder)
    path = folder / "benchmark.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()][:N_BOATS]
    for row, boat in zip(rows, BOATS, strict=False):
        row["reference_contexts"] = [f"The {boat} sails every day of the week but Sunday at noon."]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def team(command: Command) -> Iterator[Team]:
    with (
        ScriptedServer() as judge,
        ScriptedServer(embeddings("first"), path="/v1/embeddings") as vectors,
    ):
        team = Team(command, judge, vectors)
        yield team
        team.process.kill()
        team.process.communicate()


@pytest.mark.slow
def test_a_judge_that_drifts_and_a_model_that_changes_are_seen_in_the_morning(team: Team) -> None:
    assert team.night(0)["reason"] == "first night"
    steady = team.night(1)
    assert (steady["verdict"], steady["alarms"]) == ("same", [])
    assert steady["why"] == [
        "nothing differs: the same documents, settings, models, code and libraries"
    ]

    team.judge.script = strict
    team.reword()
    drifted = team.night(2)
    assert drifted["verdict"] == "not comparable"
    (alarm,) = drifted["alarms"]
    # Of six questions an item the strict judge says yes to two: 4 of 6, in each of 8 items.
    assert alarm.startswith("the judge moved since 2024-01-02: of 48 answers about its anchor 32")
    assert drifted["reason"] == alarm
    changed = next(line for line in drifted["why"] if line.startswith("documents: "))
    assert changed.startswith(f"documents: {N_BOATS} changed (00.txt, 01.txt, ")

    n_texts = [len(body["input"]) for body in team.vectors.bodies]
    team.vectors.script = embeddings("second")
    moved = team.night(3)
    assert [len(body["input"]) for body in team.vectors.bodies][len(n_texts) :] == [6]
    (alarm,) = moved["alarms"]
    assert alarm.startswith(
        "the embedding model vectors changed under its name: canary texts moved"
    )
    assert (moved["verdict"], moved["why"]) == ("same", [alarm])

    check_what_is_stored(team)


def check_what_is_stored(team: Team) -> None:
    command = team.command
    calls = command.sql(
        "select sample, count(*) as n, sum(n_tries) as n_sent from llm_calls "
        "where purpose = 'anchor' group by sample order by sample"
    )
    nights = [f"2024-01-0{number}" for number in range(1, 5)]
    samples = [f"anchor/{night}{again}" for night in nights for again in ("", "/1")]
    assert calls == [{"sample": sample, "n": 8, "n_sent": 8} for sample in samples]
    noise = command.sql("select figures->>'noise' as noise from stages where stage = 'judge_again'")
    assert [json.loads(row["noise"]) for row in noise] == [{"qa": 0.0, "summary_score": 0.0}] * 4

    history = command("history", "qa", "--format", "json")
    marks = [row["is_comparable"] for row in json.loads(history.stdout)]
    assert marks == [False, True, False, True]
    assert "2024-01-03: the judge moved since 2024-01-02" in history.stderr
    explained = json.loads(command("explain", "latest", "--format", "json").stdout)
    assert explained["canaries"]["distance"] > 0.1
    shown = command("explain", "latest").stdout
    assert "the embedding model vectors changed under its name" in shown
    assert "sound" in command("warehouse", "verify").stderr
