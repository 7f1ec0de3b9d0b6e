"""The demo's corpus and benchmark are what its README says."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from schemas.experiment import Experiment, Labelling, read_experiment
from schemas.records import Document
from tasks.chunking import chunk_documents
from tasks.labelling import Labelled, label_corpus
from tasks.loading import (
    documents_frame,
    load_benchmark,
    load_corpus,
    queries_frame,
    survey_benchmark,
    survey_corpus,
)
from tasks.matching import contains_answer

DEMO = Path(__file__).parents[2] / "deployments" / "demo"

Row = dict[str, Any]


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(DEMO / "experiment.toml")


@pytest.fixture(scope="module")
def documents(experiment: Experiment) -> dict[str, Document]:
    return {doc.doc_id: doc for doc in load_corpus(survey_corpus(experiment.corpus))}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    text = (DEMO / "benchmark.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def frames(
    experiment: Experiment, documents: dict[str, Document]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    source = survey_benchmark(experiment.benchmark)
    queries = queries_frame(load_benchmark(source, split=None))
    return documents_frame(documents.values()), queries


def label(
    frames: tuple[pl.DataFrame, pl.DataFrame], experiment: Experiment, method: str, size: int
) -> Labelled:
    documents, queries = frames
    chunking = experiment.chunking.model_copy(update={"size": size})
    chunks = chunk_documents([documents], chunking, tokenizer_file=None)
    labelling = Labelling.model_validate({"method": method})
    return label_corpus(documents, chunks, queries, config=labelling, known_quotes={})


def tagged(rows: list[Row], tag: str) -> list[Row]:
    return [row for row in rows if tag in row["tags"]]


def lost_queries(labelled: Labelled) -> list[str]:
    return labelled.truth.filter(pl.col("n_lost") > 0)["query_id"].to_list()


def test_there_is_as_much_as_the_experiment_file_says(
    rows: list[Row], documents: dict[str, Document]
) -> None:
    comments = (DEMO / "experiment.toml").read_text(encoding="utf-8")
    assert f"{len(documents)} documents" in comments
    assert f"{len(rows)} queries" in comments
    assert len(documents) >= 38
    assert len(rows) >= 58
    assert len(set(documents)) == len(documents)
    assert len({row["query_id"] for row in rows}) == len(rows)
    assert sum("response" in row for row in rows) >= 12
    assert all(("response" in row) == ("reference_contexts" in row) for row in rows)


def test_every_kind_of_file_and_every_language_is_there(
    rows: list[Row], documents: dict[str, Document]
) -> None:
    suffixes = Counter(Path(doc_id).suffix for doc_id in documents)
    assert suffixes.keys() == {".md", ".txt", ".html"}
    folders = Counter(doc_id.partition("/")[0] for doc_id in documents)
    assert folders["fr"] >= 3
    assert folders["zh"] >= 3
    languages = Counter(row["tags"][0] for row in rows)
    assert languages.keys() == {"en", "fr", "zh"}
    assert min(languages.values()) >= 4


def test_every_quote_stands_at_its_offsets_or_once_in_its_document(
    rows: list[Row], documents: dict[str, Document]
) -> None:
    kinds = Counter()
    for row in rows:
        for span in row.get("spans", []):
            if "lost" in row["tags"]:
                assert span["doc_id"] not in documents
                continue
            text = documents[span["doc_id"]].text
            kinds["start" in span, "quote" in span] += 1
            if "start" in span:
                assert 0 <= span["start"] < span["end"] <= len(text)
                if "quote" in span:
                    assert text[span["start"] : span["end"]] == span["quote"]
            else:
                assert text.count(span["quote"]) == 1
    assert kinds.keys() == {(True, True), (True, False), (False, True)}
    assert {span["grade"] for row in rows for span in row.get("spans", [])} == {0, 1, 2, 3}


def test_every_answer_but_the_lost_one_stands_in_a_document_of_its_qrels(
    rows: list[Row], documents: dict[str, Document]
) -> None:
    for row in rows:
        judged = [item["doc_id"] for item in row["qrels"] if item["grade"] > 0]
        holds = [
            any(contains_answer(documents[name].text, [answer]) for name in judged)
            for answer in row.get("answers", [])
            if "lost" not in row["tags"]
        ]
        assert all(holds), row["query_id"]
    (lost,) = tagged(rows, "lost")
    assert not any(contains_answer(doc.text, lost["answers"]) for doc in documents.values())


def test_the_special_cases_are_there(rows: list[Row]) -> None:
    (empty,) = tagged(rows, "no-answer")
    assert (empty["answers"], empty["spans"], empty["qrels"]) == ([], [], [])
    (documents_only,) = tagged(rows, "documents-only")
    assert "answers" not in documents_only
    assert "spans" not in documents_only
    assert len(tagged(rows, "near-duplicate")) >= 6
    assert len(tagged(rows, "paraphrase")) >= 10
    assert len(tagged(rows, "cross-lingual")) >= 4
    for quality in ("good", "partial", "wrong", "verbose"):
        assert len(tagged(rows, f"response-{quality}")) >= 2


@pytest.mark.parametrize("method", ["answer_text", "span", "document"])
def test_exactly_the_lost_query_is_lost_by_every_label_method(
    frames: tuple[pl.DataFrame, pl.DataFrame], experiment: Experiment, rows: list[Row], method: str
) -> None:
    labelled = label(frames, experiment, method, experiment.chunking.size)
    assert lost_queries(labelled) == [tagged(rows, "lost")[0]["query_id"]]


def test_small_chunks_cut_an_answer_in_two_and_keep_its_span(
    frames: tuple[pl.DataFrame, pl.DataFrame], experiment: Experiment, rows: list[Row]
) -> None:
    (cut,) = tagged(rows, "cut")
    assert cut["query_id"] in lost_queries(label(frames, experiment, "answer_text", 200))
    assert cut["query_id"] not in lost_queries(label(frames, experiment, "span", 200))
