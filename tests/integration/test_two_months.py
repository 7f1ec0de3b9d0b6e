"""Two months of nights on a changing corpus: the verdict of every one is the right one.

Real parts: Prefect's server, the flow, DuckDB, a model of static embeddings, a killed process, an
HTTP server for the judge. Only the clock is scripted.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.llm_server import (
    Reply,
    ScriptedServer,
    blocks_of,
    error,
    purpose_of,
    sensible,
)
from tests.data.nightly_project import ANIMALS, BOATS, COLOURS, write_benchmark, write_boats
from tests.data.small_project import REPOSITORY, Command

START = datetime(2024, 1, 1, 2, tzinfo=UTC)
N_NIGHTS = 61
BAD_MODEL, JUDGE_OUT, KILLED, CUT, MENDED, EDITED, NOT_MOUNTED = 10, 18, 25, 30, 33, 40, 47
JUDGE_MOVED = 53

EXPERIMENT = """
measures = ["hit@1", "ndcg@10"]
[corpus]
path = "docs"
[benchmark]
path = "benchmark.jsonl"
[chunking]
method = "none"
[embedding]
model = "./model"
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
model = "m"
base_url = "{url}"
attempts = 1
"""
SUITE = """
name = "boats at night"
[[experiment]]
path = "boats.toml"
[[gate]]
measure = "ndcg@10"
delta = 0.05
[[gate]]
measure = "qa"
delta = 0.05
"""


@dataclass
class Project:
    """The team's files, and the process that runs its nights."""

    command: Command
    process: subprocess.Popen[str] | None = None
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def docs(self) -> Path:
        return self.command.folder / "docs"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.data.nights_child",
                str(self.command.home),
                str(self.command.folder / "suite.toml"),
            ],
            cwd=REPOSITORY,
            env=self.command.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, number: int, **more: Any) -> None:
        """Start a night."""
        assert self.process is not None
        assert self.process.stdin is not None
        at = START + timedelta(days=number)
        self.process.stdin.write(json.dumps({"at": at.isoformat(), **more}) + "\n")
        self.process.stdin.flush()

    def run(self, number: int, **more: Any) -> dict[str, Any]:
        """Run a night to its end."""
        self.ask(number, **more)
        assert self.process is not None
        assert self.process.stdout is not None
        report: dict[str, Any] = json.loads(self.process.stdout.readline())
        return report

    def churn(self, number: int) -> None:
        """What a team does between two nights: a new document, and an edited one or two."""
        text = f"Notice {number}: the canteen serves soup on day {number}."
        (self.docs / f"notice-{number:02}.txt").write_text(text)
        for index in (number % 60, (7 * number) % 60):
            self.edit(index, f"It was painted on day {number}.")

    def edit(self, index: int, sentence: str) -> None:
        path = self.docs / f"{index:02}.txt"
        if path.exists():
            path.write_text(f"{path.read_text()} {sentence}")

    def reword(self, index: int) -> None:
        """Change the sentence that answers, so that its summary is judged anew."""
        path = self.docs / f"{index:02}.txt"
        path.write_text(path.read_text().replace("takes", "takes about"))


def save_model(folder: Path, *, is_blind: bool) -> None:
    """Static embeddings: a random vector a word; a blind model has one for all boats."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    names = [*COLOURS, *ANIMALS, "notice", "canteen", "soup"]
    words = ["[UNK]", *names, "where", "does", "the", "sail", "sails", "from", "takes"]
    words += ["cars", "its", "crew", "is", "small", "antwerp", "bergen", "cork", "dover", "emden"]
    tokenizer = Tokenizer(
        models.WordLevel({word: index for index, word in enumerate(words)}, unk_token=words[0])
    )
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.random.default_rng(7).normal(size=(len(words), 64)).astype(np.float32)
    vectors[0] *= 0.1
    vectors[[0, *range(1 + len(names), len(words))]] *= 0.1  # as words that say little have it
    if is_blind:
        vectors[1 : 1 + len(COLOURS) + len(ANIMALS)] = vectors[1]
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=vectors)], device="cpu"
    )
    model.save(str(folder), create_model_card=False)


def write_project(command: Command, url: str) -> Project:
    folder = command.folder
    project = Project(command)
    write_boats(project.docs)
    write_benchmark(folder)
    add_references(folder)
    (folder / "boats.toml").write_text(EXPERIMENT.format(url=url))
    (folder / "suite.toml").write_text(SUITE)
    save_model(folder / "model", is_blind=False)
    save_model(folder / "blind", is_blind=True)
    return project


def add_references(folder: Path) -> None:
    """What a summary of each answer should keep, so that its questions stay the same."""
    path = folder / "benchmark.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row, boat in zip(rows, BOATS, strict=True):
        row["reference_contexts"] = [f"The {boat} sails every day of the week but Sunday at noon."]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def swap(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def prepare(project: Project, server: ScriptedServer, number: int) -> None:
    """What is different in the nights that something happens to."""
    folder = project.command.folder
    if number in (BAD_MODEL, BAD_MODEL + 1):
        swap(folder / "model", folder / "blind")
    if number == JUDGE_OUT:
        for index in range(12):
            project.reword(index)
        server.script = lambda body, n: error(503)
    if number == JUDGE_OUT + 1:
        server.script = lambda body, n: sensible(body)
    if number == JUDGE_MOVED:
        server.script = lambda body, n: strict(body)
    change_documents(project, number)


def strict(body: dict[str, Any]) -> Reply:
    """A judge that has become strict: yes to four questions at most."""
    reply = sensible(body)
    if purpose_of(body) != "answers" or not blocks_of(body):
        return reply
    answers = json.loads(reply.content or "")["answers"]
    for answer in answers[4:]:
        answer["answer"] = "0"
    return Reply(json.dumps({"answers": answers}))


def change_documents(project: Project, number: int) -> None:
    folder, docs = project.command.folder, project.docs
    if number == CUT:
        (folder / "cut").mkdir()
        for index in range(20):
            (docs / f"{index:02}.txt").rename(folder / "cut" / f"{index:02}.txt")
    if number == MENDED:
        for path in (folder / "cut").iterdir():
            path.rename(docs / path.name)
    if number == EDITED:
        write_benchmark(folder, question="From where does the {boat} sail?")
        add_references(folder)
    if number == NOT_MOUNTED:
        docs.rename(folder / "unmounted")
    if number == NOT_MOUNTED + 1:
        (folder / "unmounted").rename(docs)


EXPECTED = {
    0: "not comparable",
    BAD_MODEL: "worse",
    JUDGE_OUT: "not enough evidence",
    **dict.fromkeys(range(CUT, MENDED), "worse"),
    EDITED: "not comparable",
    NOT_MOUNTED: None,
    JUDGE_MOVED: "not enough evidence",  # ndcg@10 is the same, qa is not comparable
}


@pytest.fixture
def project(command: Command) -> Any:
    with ScriptedServer() as server:
        project = write_project(command, server.url)
        project.start()
        yield project, server
        assert project.process is not None
        project.process.kill()
        project.process.communicate()


def kill_in_the_judges_stage(project: Project, server: ScriptedServer) -> None:
    project.reword(59)
    server.script = lambda body, n: Reply(is_hung=True)
    project.ask(KILLED)
    deadline = time.monotonic() + 120
    while not server.in_flight:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert project.process is not None
    project.process.send_signal(signal.SIGKILL)
    project.process.communicate()
    server.script = lambda body, n: sensible(body)
    project.start()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_verdict_of_every_night_is_the_right_one(project: Any) -> None:
    team, server = project
    for number in range(N_NIGHTS):
        prepare(team, server, number)
        if number != NOT_MOUNTED:
            team.churn(number)
        if number == KILLED:
            kill_in_the_judges_stage(team, server)
        team.reports[number] = team.run(number)

    found = {number: verdict_of(report) for number, report in team.reports.items()}
    assert found == {number: EXPECTED.get(number, "same") for number in range(N_NIGHTS)}
    check_baselines(team)
    check_what_is_said(team)
    check_the_kill(team)
    check_a_back_fill(team)
    assert "sound" in team.command("warehouse", "verify").stderr


def outcome(report: dict[str, Any]) -> dict[str, Any]:
    (only,) = report["outcomes"]
    return dict(only)


def verdict_of(report: dict[str, Any]) -> str | None:
    verdict: str | None = outcome(report)["verdict"]
    assert (report["type"], report["state"]) == (
        ("FAILED", "failed") if verdict is None else ("COMPLETED", verdict)
    )
    return verdict


def check_baselines(team: Project) -> None:
    """Each night stands against the last good one: never a loss, nor one without coverage."""
    bad = {BAD_MODEL, JUDGE_OUT, *range(CUT, MENDED), NOT_MOUNTED}
    run_ids = {number: outcome(report)["run_id"] for number, report in team.reports.items()}
    for number in range(1, N_NIGHTS):
        if number == NOT_MOUNTED:
            continue
        good = max(earlier for earlier in range(number) if earlier not in bad)
        (comparison,) = outcome(team.reports[number])["comparisons"]
        assert comparison["baseline"] == {"run_ids": [run_ids[good]], "kind": "previous"}


def check_what_is_said(team: Project) -> None:
    reasons = {number: outcome(report)["reason"] for number, report in team.reports.items()}
    assert reasons[0] == "first night"
    assert "ndcg@10 fell by" in reasons[BAD_MODEL]
    assert "on 20 of 60 queries" in reasons[CUT]
    assert "scores failed: coverage 0.8" in reasons[JUDGE_OUT]
    assert "benchmark" in reasons[EDITED]
    assert "there is no such file or folder" in reasons[NOT_MOUNTED]
    assert reasons[JUDGE_MOVED] == "not comparable: qa"
    alarms = {number: outcome(report)["alarms"] for number, report in team.reports.items()}
    assert [number for number, said in alarms.items() if said] == [JUDGE_MOVED]
    # Six questions about each of eight responses, of which the last two are refused now.
    assert "of 48 answers about its anchor 16 went from yes to no" in alarms[JUDGE_MOVED][0]
    assert "20 removed" in outcome(team.reports[CUT])["why"][0]
    assert "20 of 20 lost queries touch them" in outcome(team.reports[CUT])["why"][0]
    assert outcome(team.reports[BAD_MODEL])["why"][1].startswith("model: embedding ")
    (comparison,) = outcome(team.reports[CUT])["comparisons"]
    assert sorted(comparison["lost_query_ids"]) == [f"q{number:02}" for number in range(20)]


def check_the_kill(team: Project) -> None:
    (event,) = team.command.sql("select stage, run_id from events where kind = 'crashed'")
    assert event["stage"] == "score_summaries"
    run_id = outcome(team.reports[KILLED])["run_id"]
    stages = team.command.sql(
        f"select stage, cached from stages where run_id = '{run_id}' order by position"
    )
    made = [row["stage"] for row in stages if not row["cached"]]
    assert made == ["score_summaries", "judge_anchor"]  # the anchor is judged each night


def check_a_back_fill(team: Project) -> None:
    """A night in the past is evaluated on the documents that it had, and is no baseline."""
    number = BAD_MODEL + 2
    night = (START + timedelta(days=number)).date().isoformat()
    filled = outcome(team.run(N_NIGHTS, date=night))
    rows = team.command.sql(
        "select run_id, corpus_digest, n_documents, attempt from runs "
        f"where logical_date = '{night}' order by attempt"
    )
    assert [row["attempt"] for row in rows] == [1, 2]
    assert rows[0]["corpus_digest"] == rows[1]["corpus_digest"]
    assert rows[1]["run_id"] == filled["run_id"]
    (comparison,) = outcome(team.run(N_NIGHTS))["comparisons"]
    assert comparison["baseline"]["run_ids"] == [outcome(team.reports[N_NIGHTS - 1])["run_id"]]
