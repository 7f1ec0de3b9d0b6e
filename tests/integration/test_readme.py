"""The README's examples run as they stand there, and its numbers are the ones that they print."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.data.small_project import (
    DOCUMENTS,
    QUERIES,
    REPOSITORY,
    Command,
    write_small_project,
)

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(?:python|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```bash\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def block(words: str) -> str:
    """The one shell example that holds these words."""
    (found,) = [text for text in BLOCKS if words in text]
    return found


def section(title: str) -> str:
    return README.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture
def shell(command: Command) -> Command:
    """A folder that looks like a checkout to the examples, with `rankhouse` on the path."""
    (command.folder / "deployments").symlink_to(REPOSITORY / "deployments")
    (command.folder / "bin").mkdir()
    script = command.folder / "bin" / "rankhouse"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m flows.cli "$@"\n')
    script.chmod(0o755)
    environment = {
        **command.environment,
        "PATH": f"{command.folder / 'bin'}:{os.environ['PATH']}",
    }
    del environment["RANKHOUSE_HOME"]
    return Command(command.folder, command.folder / ".rankhouse-demo", environment)


def run(shell: Command, text: str) -> str:
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, f"{text}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demo_prints_the_numbers_of_the_readme(shell: Command) -> None:
    shown = section("What the demo shows")
    printed = run(shell, "rankhouse demo")
    rows = re.findall(r"^[a-z_@0-9]+ +[0-9.]+ +\d+ +\d+ +\d+ +\d+$", shown, flags=re.MULTILINE)
    assert len(rows) == 10
    for row in rows:
        assert row in printed.splitlines()

    # One setting changed at a time: three reports, and the chunk sizes' table.
    home = f"export RANKHOUSE_HOME={shell.folder}/.rankhouse-demo\n"
    variations = run(shell, block("--set chunking.size=1200"))
    reports = re.split(r"^(?=chunks-\d+ · )", variations, flags=re.MULTILINE)[1:]
    for size, report in zip(["600", "1,200", "200"], [printed, *reports], strict=True):
        means = dict(re.findall(r"^([a-z_@0-9]+) +([0-9.]+) ", report, flags=re.MULTILINE))
        cells = [f"{float(means[m]):.2f}" for m in ("hit@1", "rr@10", "evidence_recall@2000chars")]
        assert f"| {size} characters | {' | '.join(cells)} |" in shown
    labels = run(shell, f"{home}demo=deployments/demo/experiment.toml\n{block('name=answers')}")
    assert "answers · " in labels
    assert "documents · " in labels

    answer = run(shell, home + block("tags[1] as language"))
    for row in re.findall(r"^(?:en|fr|zh) .*$", shown, flags=re.MULTILINE):
        assert row.split() in [line.split() for line in answer.splitlines()]
    suggested = re.search(r"^  (RANKHOUSE_HOME=.*)$", printed, flags=re.MULTILINE)
    assert suggested is not None
    assert "query_id" in run(shell, suggested[1])
    assert "chunks-200" in run(shell, home + block("rankhouse history hit@1"))

    demo = f"{home}demo=deployments/demo/experiment.toml\n"
    compared = run(shell, demo + block("rankhouse compare latest"))
    (verdict,) = re.findall(r"^worse: .*$", section("Compare two runs"), flags=re.MULTILINE)
    assert verdict in compared.splitlines()
    nights = run(shell, home + block("rankhouse baseline accept latest")).splitlines()
    first = "not comparable: first night, there is no earlier one to compare it with"
    assert nights[:2] == [f"demo: {first}", f"demo-200: {first}"]
    assert nights[3].startswith("demo-200: same: ndcg@10 is ")


@pytest.mark.timeout(600)
def test_init_makes_an_experiment_that_runs(shell: Command) -> None:
    docs = shell.folder / "docs"
    docs.mkdir()
    (docs / "boats.md").write_text("# Boats\n\n## Winter berths\n\nBoats are moved in October.\n")
    (docs / "cars.md").write_text("# Cars\n\n## Height limit\n\nCars up to 2.1 metres fit.\n")
    printed = run(shell, block("rankhouse init docs\n"))
    assert "hit@1" in printed
    (shell.folder / "questions.csv").write_text("question,answer\nHow high?,2.1 metres\n")
    assert "hit@1" in run(shell, block("--questions questions.csv"))
    assert "2.1 metres" in (shell.folder / "asked" / "benchmark.jsonl").read_text()


def test_trec_files_are_scored(shell: Command) -> None:
    (shell.folder / "qrels.txt").write_text("q1 0 a 1\nq1 0 b 1\n")
    (shell.folder / "bm25.run").write_text("q1 Q0 a 1 9.5 x\nq1 Q0 x 2 8.5 x\n")
    with gzip.open(shell.folder / "dense.run.gz", "wt") as stream:
        stream.write("q1 Q0 b 1 0.9 y\nq1 Q0 a 2 0.8 y\n")
    text = section("Score TREC files: `rankhouse trec`")
    (example,) = re.findall(r"^(rankhouse trec .*)$", text, flags=re.MULTILINE)
    lines = run(shell, example).splitlines()
    assert any("bm25" in line and "0.5000" in line for line in lines)  # ap: one of two, first
    assert any("dense" in line and "1.0000" in line for line in lines)


def test_the_langchain_plugin_ranks_as_langchain_does(shell: Command) -> None:
    from langchain_core.documents import Document
    from langchain_core.vectorstores import InMemoryVectorStore

    text = section("Somebody else's retriever")
    source, plugin, *_ = (found[1] for found in re.finditer(FENCED, text))
    (shell.folder / "my_retriever.py").write_text(source)
    experiment = write_small_project(shell.folder)
    experiment.write_text(experiment.read_text().replace("[retrieval]\ndepth = 5\n", plugin))
    report = shell.evaluate(experiment, RANKHOUSE_HOME=str(shell.home))
    rows = json.loads(
        shell(
            *("sql", "--format", "json"),
            "select query_id, chunk_id, retrieval_score as score from rankings "
            f"join runs using (rankings_digest) where run_id = '{report['run_id']}' order by rank",
            RANKHOUSE_HOME=str(shell.home),
        ).stdout
    )
    namespace: dict[str, Any] = {}
    exec(source, namespace)  # noqa: S102 - the README's own example
    bare = InMemoryVectorStore(namespace["Trigrams"]())
    whole = {name: text for name, text in DOCUMENTS.items() if name != "tides.md"}  # a chunk each
    bare.add_documents([Document(text, id=name) for name, text in whole.items()])
    for query in QUERIES:
        ranked = [row for row in rows if row["query_id"] == query["query_id"]]
        scores = {row["chunk_id"].partition("#")[0]: row["score"] for row in ranked}
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        for document, score in bare.similarity_search_with_score(query["text"], k=10):
            assert scores[str(document.id)] == pytest.approx(score, abs=1e-12)


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert Path(REPOSITORY / target).exists(), target


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_demos_grid_runs_as_the_readme_says(shell: Command) -> None:
    listed = run(
        shell,
        f"export RANKHOUSE_HOME={shell.home}\n{block('rankhouse experiment deployments')}",
    )
    for method in ("dense", "bm25"):
        # planned, run, run alone and listed; the answers name the best once more
        assert len(re.findall(rf"demo-grid:size=600,method={method}\b", listed)) >= 4
