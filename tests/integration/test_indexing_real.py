"""Approximate indexes and incremental runs, by the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.data.small_project import Command

HNSW = ("--set", "index.kind=hnsw", "--set", "index.m=4")
IVF = ("--set", "index.kind=ivf_flat", "--set", "index.n_lists=2")
WITHOUT_MODEL = """
import sys
from flows.cli import command, run
code = run(lambda: command.main(["evaluate", *sys.argv[1:]], standalone_mode=False))
loaded = {"torch", "sentence_transformers", "transformers"} & set(sys.modules)
sys.exit(f"loaded {loaded}" if loaded else code)
"""


def test_an_approximate_index_reports_its_own_loss_and_another_n_probe_searches_the_same_file(
    command: Command, small: Path
) -> None:
    graph = command.evaluate(small, *HNSW)
    # Five chunks and a search that looks at all of them lose nothing.
    assert graph["sizes"]["ann_recall"] == {"ann_recall@5": 1.0}
    one_list = command.evaluate(small, *IVF, "--set", "index.n_probe=1")
    assert one_list["sizes"]["ann_recall"]["ann_recall@5"] < 1
    both_lists = command("evaluate", str(small), *IVF, "--set", "index.n_probe=2").stdout
    assert "ann_recall@5 1.0000: the share of the exact nearest chunks" in both_lists
    rows = command.sql(
        "select stage, cached, figures from stages join runs using (run_id) "
        "where stage in ('build_index', 'retrieve') order by run_id, stage"
    )
    figures = [json.loads(row["figures"]) for row in rows]
    assert [one["factory"] for one in figures[::2]] == ["HNSW4", "IVF2,Flat", "IVF2,Flat"]
    assert [one["ann_recall@5"] for one in figures[1::2]][::2] == [1.0, 1.0]
    assert {"n_bytes", "train_seconds", "build_seconds"} <= set(figures[0])
    assert [row["cached"] for row in rows] == [False, False, False, False, True, False]


def test_a_changed_corpus_of_known_texts_is_indexed_anew_without_a_model(
    command: Command, small: Path
) -> None:
    command.evaluate(small)
    (small.parent / "docs" / "meals.txt").unlink()  # what is left has its vectors
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_MODEL, str(small), "--format", "json"],
        env=command.environment,
        cwd=command.folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    cached = {stage["stage"]: stage["cached"] for stage in report["stages"]}
    assert not cached["embed_chunks"]
    assert not cached["build_index"]
    assert report["sizes"]["n_encoded"] == 0


def test_too_few_chunks_for_an_index_end_the_run_before_anything_is_embedded(
    command: Command, small: Path
) -> None:
    result = command("evaluate", str(small), *IVF[:2], "--set", "index.n_lists=100", exit_code=1)
    assert "need at least 100 vectors" in result.stderr
    stages = command.sql("select stage, status from stages order by position")
    assert "embed_chunks" not in [row["stage"] for row in stages if row["status"] != "failed"]
