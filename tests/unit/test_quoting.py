"""Spans without a quote get one at their first evaluation, and keep it when the text changes."""

from pathlib import Path

import polars as pl

from schemas.frames import DOCUMENTS, QUERIES
from tasks.quoting import count_bare_spans, fill_quotes


def documents(text: str) -> pl.DataFrame:
    return pl.DataFrame(
        {"doc_id": ["a.txt"], "title": [None], "text": [text], "metadata": ["{}"]}, schema=DOCUMENTS
    )


def queries(*spans: dict[str, object]) -> pl.DataFrame:
    row = {name: None for name in QUERIES} | {"query_id": "q1", "text": "?", "spans": list(spans)}
    return pl.DataFrame([row], schema=QUERIES)


def span(start: int | None, end: int | None, quote: str | None = None) -> dict[str, object]:
    return {"doc_id": "a.txt", "start": start, "end": end, "quote": quote, "grade": 1}


def quotes(frame: pl.DataFrame) -> list[str | None]:
    return [item["quote"] for item in frame["spans"][0]]


def fill(text: str, frame: pl.DataFrame, folder: Path, path: str = "b.jsonl") -> pl.DataFrame:
    return fill_quotes(documents(text), frame, folder=folder, benchmark_path=path)


def test_a_bare_span_keeps_its_first_quote_when_the_document_changes(tmp_path: Path) -> None:
    frame = queries(span(4, 7), span(0, 3, "the"))
    assert count_bare_spans(frame) == 1
    assert quotes(fill("the cat sat", frame, tmp_path)) == ["cat", "the"]
    assert quotes(fill("now the cat sat", frame, tmp_path)) == ["cat", "the"]


def test_another_benchmark_starts_anew(tmp_path: Path) -> None:
    frame = queries(span(4, 7))
    fill("the cat sat", frame, tmp_path)
    assert quotes(fill("now the cat", frame, tmp_path, "other.jsonl")) == ["the"]


def test_a_span_out_of_range_gets_none_and_a_quote_alone_stays(tmp_path: Path) -> None:
    frame = queries(span(4, 70), span(None, None, "sat"))
    assert quotes(fill("the cat sat", frame, tmp_path)) == [None, "sat"]


def test_nothing_is_written_when_every_span_has_a_quote(tmp_path: Path) -> None:
    frame = queries(span(0, 3, "the"))
    assert fill("the cat", frame, tmp_path / "new").equals(frame)
    assert not (tmp_path / "new").exists()


def test_characters_are_code_points(tmp_path: Path) -> None:
    assert quotes(fill("🙂 é cat", queries(span(4, 7)), tmp_path)) == ["cat"]
