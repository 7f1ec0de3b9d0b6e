"""Real documents and questions: the figures that independent code measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data.small_project import Command

DOCS_QA = """
name = "docs-qa"
measures = ["hit@1", "hit@5", "recall@5", "rr@232"]
[corpus]
path = "corpus.jsonl"
[benchmark]
path = "benchmark.jsonl"
[chunking]
method = "none"
[retrieval]
depth = 232
[labelling]
method = "document"
[execution]
threads = 1
"""


def means(report: dict[str, Any]) -> dict[str, float]:
    return {row["measure"]: row["mean"] for row in report["measures"]}


@pytest.fixture
def docs_qa(command: Command, shared_data: Callable[[str], Path]) -> Path:
    """232 sections with their headings as titles, 100 questions with the sections that answer."""
    sections = json.loads((shared_data("docs-qa") / "anthropic_docs.json").read_text())
    questions = json.loads((shared_data("docs-qa") / "docs_evaluation_dataset.json").read_text())
    documents = [
        {"doc_id": row["chunk_link"], "title": row["chunk_heading"], "text": row["text"]}
        for row in sections
    ]
    queries = [
        {
            "query_id": row["id"],
            "text": row["question"],
            "qrels": [{"doc_id": link} for link in row["correct_chunks"]],
        }
        for row in questions
    ]
    for name, rows in (("corpus", documents), ("benchmark", queries)):
        (command.folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    file = command.folder / "docs-qa.toml"
    file.write_text(DOCS_QA)
    return file


@pytest.mark.timeout(600)
def test_docs_qa_gives_the_figures_measured_independently(command: Command, docs_qa: Path) -> None:
    with_title = means(command.evaluate(docs_qa))
    assert with_title == pytest.approx(
        {"hit@1": 0.61, "hit@5": 0.91, "recall@5": 0.73, "rr@232": 0.738}, abs=0.015
    )
    text_alone = means(command.evaluate(docs_qa, "--set", "chunking.with_title=false"))
    assert text_alone == pytest.approx(
        {"hit@1": 0.61, "hit@5": 0.92, "recall@5": 0.73, "rr@232": 0.745}, abs=0.015
    )


@pytest.mark.timeout(600)
def test_docs_qa_in_chunks_is_found_better_than_whole_sections(
    command: Command, docs_qa: Path
) -> None:
    settings = ["chunking.method=recursive", "chunking.size=800"]
    report = command.evaluate(docs_qa, *(word for item in settings for word in ("--set", item)))
    found = means(report)
    assert 0.65 <= found["hit@1"] <= 0.73
    assert 0.74 <= found["recall@5"] <= 0.79
    assert 0.77 <= found["rr@232"] <= 0.82
    assert report["short_queries"] == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_xquad_runs_with_every_label_method(
    command: Command, shared_data: Callable[[str], Path], language: str
) -> None:
    source = shared_data("xquad") / f"xquad.{language}.json"
    file = command.folder / "xquad.toml"
    paths = f'[corpus]\npath = "{source}"\n[benchmark]\npath = "{source}"\n'
    settings = (
        '[chunking]\nmethod = "sentences"\nsize = 300\n[retrieval]\ndepth = 20\n'
        '[labelling]\nmethod = "answer_text"\n[execution]\nthreads = 1\n'
    )
    file.write_text(paths + settings)
    found = {}
    for method in ("answer_text", "span", "document"):
        report = command.evaluate(
            file, "--set", f"labelling.method={method}", "--set", 'measures=["hit@1","hit@10"]'
        )
        assert report["sizes"]["n_documents"] == 240
        assert {row["n_queries"] for row in report["measures"]} == {1190}
        assert {row["n_scored"] for row in report["measures"]} == {1190}
        found[method] = means(report)
    # A chunk that covers the gold span holds the answer, and its paragraph is the gold document.
    for measure in ("hit@1", "hit@10"):
        assert found["span"][measure] <= found["answer_text"][measure] + 0.02
        assert found["span"][measure] <= found["document"][measure]
    if language == "en":
        assert found["document"]["hit@1"] > 0.8
