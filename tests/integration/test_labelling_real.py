"""Labels of XQuAD, English and Chinese, by all three methods, against plain re-computations."""

import json
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from schemas.experiment import Labelling
from schemas.frames import CHUNKS, DOCUMENTS, QUERIES
from tasks.labelling import Labelled, check_strict, label_corpus

SHARED = Path(
    os.environ.get("RANKHOUSE_SHARED_DATA", Path(__file__).parents[2].parent / "shared" / "data")
)
N_QUERIES = 1190
# The English file's own answer ends inside a number: "… square kilometres (2,70" of "(2,700,000".
CUT_ANSWER = "5729e2316aef0514001550c5"


@dataclass(frozen=True)
class Benchmark:
    documents: pl.DataFrame
    chunks: pl.DataFrame
    queries: pl.DataFrame

    def label(self, method: str) -> Labelled:
        config = Labelling.model_validate({"method": method})
        return label_corpus(
            self.documents, self.chunks, self.queries, config=config, known_quotes={}
        )


def read(language: str, size: int | None) -> Benchmark:
    """A document a paragraph; chunks are whole paragraphs, or windows of ``size``."""
    path = SHARED / "xquad" / f"xquad.{language}.json"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set RANKHOUSE_SHARED_DATA to the folder that holds xquad/")
    documents, chunks, queries = [], [], []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for number, paragraph in enumerate(article["paragraphs"]):
            doc_id, text = f"{article['title']}/{number:04d}", paragraph["context"]
            documents.append((doc_id, article["title"], text, "{}"))
            for start in range(0, len(text), size or len(text)):
                end = min(len(text), start + (size or len(text)))
                chunks.append(
                    (f"{doc_id}#{start}-{end}", doc_id, start, end, text[start:end], None)
                )
            for qa in paragraph["qas"]:
                spans = [
                    {
                        "doc_id": doc_id,
                        "start": answer["answer_start"],
                        "end": answer["answer_start"] + len(answer["text"]),
                        "quote": answer["text"],
                        "grade": 1,
                    }
                    for answer in qa["answers"]
                ]
                answers = [answer["text"] for answer in qa["answers"]]
                query = {"query_id": qa["id"], "text": qa["question"]}
                queries.append(
                    dict.fromkeys(QUERIES) | query | {"answers": answers, "spans": spans}
                )
    return Benchmark(
        pl.DataFrame(documents, schema=DOCUMENTS, orient="row"),
        pl.DataFrame(chunks, schema=CHUNKS, orient="row"),
        pl.DataFrame(queries, schema=QUERIES),
    )


def items(labelled: Labelled) -> set[tuple[str, str]]:
    rows = labelled.labels.filter(pl.col("kind") == "item")
    return set(rows.select("query_id", "item_id").iter_rows())


def folded(text: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text).casefold()).strip()


@pytest.mark.parametrize("size", [None, 200])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_answers_are_found_where_a_regular_expression_finds_them(
    language: str, size: int | None
) -> None:
    benchmark = read(language, size)
    latin = "[0-9a-zà-öø-ɏ]"  # the only alphabetic script and digits of these answers' edges
    texts = {
        chunk_id: folded(text)
        for chunk_id, text in benchmark.chunks.select("chunk_id", "text").iter_rows()
    }
    expected = set()
    for query_id, answers in benchmark.queries.select("query_id", "answers").iter_rows():
        for answer in map(folded, answers):
            before = f"(?<!{latin})" if re.match(latin, answer[0]) else ""
            after = f"(?!{latin})" if re.match(latin, answer[-1]) else ""
            pattern = re.compile(before + re.escape(answer) + after)
            expected.update(
                (query_id, chunk_id)
                for chunk_id, text in texts.items()
                if answer in text and pattern.search(text)
            )
    labelled = benchmark.label("answer_text")
    assert items(labelled) == expected
    n_found = len({query_id for query_id, _ in expected})
    lost = labelled.truth.filter(pl.col("n_lost") > 0)
    assert lost.height == N_QUERIES - n_found
    assert labelled.truth["n_relevant"].sum() == len(expected) + lost.height
    if size is None:
        assert lost["query_id"].to_list() == ([CUT_ANSWER] if language == "en" else [])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_whole_paragraphs_hold_their_spans_and_nothing_is_lost(language: str) -> None:
    benchmark = read(language, None)
    labelled = benchmark.label("span")
    assert items(labelled) == {
        (query_id, f"{spans[0]['doc_id']}#0-{length}")
        for query_id, spans, length in benchmark.queries.with_columns(
            doc_id=pl.col("spans").list.first().struct.field("doc_id")
        )
        .join(
            benchmark.documents.select("doc_id", length=pl.col("text").str.len_chars()),
            on="doc_id",
        )
        .select("query_id", "spans", "length")
        .iter_rows()
    }
    assert labelled.notes.is_empty()
    assert labelled.truth["n_relevant"].to_list() == [1] * N_QUERIES
    check_strict(labelled.notes)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_span_is_in_a_window_that_holds_half_of_the_shorter(language: str) -> None:
    benchmark = read(language, 200)
    labelled = benchmark.label("span")
    expected = set()
    for query_id, spans in benchmark.queries.select("query_id", "spans").iter_rows():
        for span in spans:
            for start, end, chunk_id in (
                benchmark.chunks.filter(pl.col("doc_id") == span["doc_id"])
                .select("start", "end", "chunk_id")
                .iter_rows()
            ):
                shared = len(range(max(start, span["start"]), min(end, span["end"])))
                if shared and 2 * shared >= min(end - start, span["end"] - span["start"]):
                    expected.add((query_id, chunk_id))
    assert items(labelled) == expected
    assert labelled.truth["n_lost"].sum() == 0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_spans_judge_their_documents(language: str) -> None:
    benchmark = read(language, 200)
    labelled = benchmark.label("document")
    assert items(labelled) == {
        (query_id, span["doc_id"])
        for query_id, spans in benchmark.queries.select("query_id", "spans").iter_rows()
        for span in spans
    }
    assert labelled.truth["null_reason"].drop_nulls().is_empty()


def test_documents_that_left_lose_their_queries_and_only_those() -> None:
    benchmark = read("en", None)
    gone = benchmark.documents["doc_id"][0]
    rest = Benchmark(
        benchmark.documents.filter(pl.col("doc_id") != gone),
        benchmark.chunks.filter(pl.col("doc_id") != gone),
        benchmark.queries,
    )
    asked = {
        query_id
        for query_id, spans in benchmark.queries.select("query_id", "spans").iter_rows()
        if spans[0]["doc_id"] == gone
    }
    for method in ("span", "document"):
        labelled = rest.label(method)
        lost = labelled.truth.filter(pl.col("n_lost") > 0)
        assert set(lost["query_id"]) == asked
        assert set(labelled.notes["cause"]) == {"document_gone"}
        assert labelled.truth["n_relevant"].to_list() == [1] * N_QUERIES
