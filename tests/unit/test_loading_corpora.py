from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from schemas.errors import InputError
from schemas.experiment import Corpus
from schemas.records import Document
from tasks.loading import (
    documents_frame,
    documents_from_frame,
    load_corpus,
    survey_corpus,
)

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def load(path: Path, format: str | None = None) -> list[Document]:
    return list(
        load_corpus(survey_corpus(Corpus.model_validate({"path": str(path), "format": format})))
    )


def refused(path: Path, format: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load(path, format)
    return str(caught.value)


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def ids(path: Path) -> list[str]:
    return [document.doc_id for document in load(path)]


def test_jsonl_rows_become_documents_with_metadata(write: Write) -> None:
    path = write(
        "c.jsonl",
        lines(
            {"doc_id": "007", "text": "x", "title": "T", "lang": "fr", "n": 1.5},
            {"_id": 12, "text": "y\r\n", "title": " ", "metadata": {"url": "u"}, "tags": ["a"]},
        )
        + "\r\n  \n"
        + lines({"_id": "NA", "text": "z", "title": None}),
    )
    assert load(path) == [
        Document("007", "x", "T", {"lang": "fr", "n": 1.5}),
        Document("12", "y\r\n", None, {"url": "u", "tags": ["a"]}),
        Document("NA", "z"),
    ]


IDS = ["007", "NA", "null", "1e5", "True", "1.0", "-0", "2024-01-01", " x ", "日本"]


@pytest.mark.parametrize("format", ["jsonl", "csv", "tsv", "parquet", "beir"])
def test_ids_stay_what_they_are_in_every_format(write: Write, tmp_path: Path, format: str) -> None:
    rows = [{"doc_id": doc_id, "text": "x"} for doc_id in IDS]
    if format == "parquet":
        path = tmp_path / "c.parquet"
        pl.DataFrame(rows).write_parquet(path)
    elif format in ("csv", "tsv"):
        separator = "," if format == "csv" else "\t"
        text = "\n".join(separator.join(row.values()) for row in rows)
        path = write(f"c.{format}", f"doc_id{separator}text\n{text}\n")
    elif format == "beir":
        path = write("beir/corpus.jsonl", lines(*rows)).parent
    else:
        path = write("c.jsonl", lines(*rows))
    assert ids(path) == IDS


def test_csv_fields_keep_newlines_quotes_and_length(write: Write) -> None:
    long = "word " * 40_000  # the csv module stops at 131,072 characters unless it is told
    path = write("c.csv", f'_id,title,text,year\r\n1,"A, b","a\r\n""b""\n",0042\r\n2,,{long},\r\n')
    assert load(path) == [
        Document("1", 'a\r\n"b"\n', "A, b", {"year": "0042"}),
        Document("2", long, None, {"year": ""}),
    ]


def test_parquet_metadata_becomes_json(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    pl.DataFrame(
        {
            "doc_id": [1, 2],
            "text": ["x", "y"],
            "day": [date(2026, 1, 2), None],
            "nan": [float("nan"), 0.5],
            "tags": [["a"], []],
        }
    ).write_parquet(path)
    assert load(path) == [
        Document("1", "x", None, {"day": "2026-01-02", "nan": None, "tags": ["a"]}),
        Document("2", "y", None, {"day": None, "nan": 0.5, "tags": []}),
    ]


def test_documents_survive_their_frame_and_metadata_is_canonical() -> None:
    documents = [
        Document("007", "x\r\n", "T", {"b": [1, None], "a": "é"}),
        Document("NA", "👩\u200d👧\x00", None, {}),
    ]
    frame = documents_frame(iter(documents))
    assert frame["metadata"].to_list() == ['{"a":"é","b":[1,null]}', "{}"]
    assert documents_from_frame(frame) == documents


# SQuAD and ragas as corpora


def test_squad_paragraphs_are_documents_and_articles_of_one_title_are_numbered_on(
    write: Write,
) -> None:
    articles = [
        {
            "title": "A_b",
            "paragraphs": [{"context": "one", "qas": []}, {"context": "two", "qas": []}],
        },
        {"title": "C", "paragraphs": [{"context": "three", "qas": []}]},
        {"title": "A_b", "paragraphs": [{"context": "four", "qas": []}]},
    ]
    assert load(write("s.json", json.dumps({"version": "1.1", "data": articles}))) == [
        Document("A_b/0000", "one", "A_b"),
        Document("A_b/0001", "two", "A_b"),
        Document("C/0000", "three", "C"),
        Document("A_b/0002", "four", "A_b"),
    ]


def test_ragas_contexts_are_documents_once_each(write: Write) -> None:
    rows = [
        {"user_input": "q", "reference_contexts": ["abc", "other"], "retrieved_contexts": ["abc"]},
        {"user_input": "r", "reference_contexts": ["abc"]},
    ]
    expected = [
        # printf abc | sha256sum
        Document("ba7816bf8f01cfea", "abc"),
        Document("d9298a10d1b07358", "other"),
    ]
    assert load(write("r.json", json.dumps(rows))) == expected
    assert load(write("r.jsonl", lines(*rows))) == expected


# What is refused


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "c.jsonl",
            b'{"doc_id": "a", "text": "x"}\n{"doc_id": "b", "text": "caf\xe9"}\n',
            r"c\.jsonl:2: byte 57 \(0xe9\) is not UTF-8",
        ),
        ("c.jsonl", "\ufeff".encode() + b"\xff", r"c\.jsonl:1: byte 3 \(0xff\) is not UTF-8"),
        ("a.txt", b"abc\xc3", r"a\.txt: byte 3 \(0xc3\) is not UTF-8"),
        ("a.md", "é".encode("utf-16"), r"a\.md: the file begins like UTF-16"),
        ("c.csv", b"doc_id,text\na,\x80\n", r"c\.csv: byte 14 \(0x80\) is not UTF-8"),
        ("a.txt", b"", r"a\.txt: the file is empty \(0 bytes\)"),
        ("a.txt", b" \n\t ", r"a\.txt: the document 'a\.txt' is empty"),
        ("c.jsonl", b"\n\n", r"c\.jsonl: there is no document in it"),
        ("c.csv", b"doc_id,text\n", r"c\.csv: there is no document in it"),
        ("c.jsonl", '{"doc_id": "a", "text": "  "}', r"c\.jsonl:1: the document 'a' is empty"),
        (
            "c.jsonl",
            '{"doc_id": "a", "text": "x"}\n\n{"_id": "a", "text": "y"}',
            r"c\.jsonl:3: the doc_id 'a' is given twice, first on line 1",
        ),
        (
            "c.jsonl",
            '{"doc_id": 7, "text": "x"}\n{"doc_id": "7", "text": "y"}',
            r"c\.jsonl:2: the doc_id '7' is given twice",
        ),
        ("c.csv", "doc_id,text\na,x\na,y\n", r"c\.csv:3: the doc_id 'a' is given twice"),
        (
            "c.jsonl",
            '{"text": "x"}',
            r"c\.jsonl:1: there is no 'doc_id' \(or '_id'\); the keys are: 'text'",
        ),
        ("c.jsonl", '{"doc_id": " ", "text": "x"}', r"doc_id is blank"),
        ("c.jsonl", '{"doc_id": 1.0, "text": "x"}', r"doc_id is the number 1\.0; ids are strings"),
        ("c.jsonl", '{"doc_id": true, "text": "x"}', r"doc_id is True; expected a string"),
        (
            "c.jsonl",
            '{"doc_id": "a", "_id": "b", "text": "x"}',
            r"'doc_id' and '_id' are both given and differ",
        ),
        (
            "c.jsonl",
            '{"doc_id": "a", "body": "x"}',
            r"there is no 'text'; the keys are: 'doc_id', 'body'",
        ),
        ("c.jsonl", '{"doc_id": "a", "text": ["x"]}', r"'text' is \['x'\], not a string"),
        ("c.jsonl", '{"doc_id": "a", "text": "x", "title": 3}', r"'title' is 3; expected a string"),
        ("c.jsonl", '["a"]', r"expected a JSON object, but this is a list"),
        (
            "c.jsonl",
            '{"doc_id": "a", "text": "x"',
            r"c\.jsonl:1: this is not valid JSON: .* at character 28",
        ),
        ("c.jsonl", '{"doc_id": "a", "text": "x", "n": NaN}', r"NaN is not a JSON number"),
        ("c.jsonl", '{"doc_id": "a", "text": "x", "n": 1e999}', r"1e999 is too large"),
        ("c.jsonl", '{"doc_id": "a", "text": "x", "text": "y"}', r"the key 'text' stands twice"),
        ("c.jsonl", r'{"doc_id": "a", "text": "\ud83d"}', r"half of a surrogate pair"),
        (
            "c.jsonl",
            '{"doc_id": "a", "text": "x", "n": ' + "9" * 5_000 + "}",
            r"this is not valid JSON: Exceeds the limit",
        ),
        ("c.jsonl", '{"doc_id": "a", "text": "x", "n": ' + "[" * 200_000, r"nested too deeply"),
        ("c.csv", "doc_id,text\na,b,c\n", r"c\.csv:2: the row has 3 fields and the header 2"),
        ("c.csv", 'doc_id,text\na,"b"c\n', r"c\.csv:2: this is not valid CSV"),
        ("c.csv", 'doc_id,text\na,"b\n\n', r"c\.csv:2: this is not valid CSV: unexpected end"),
        (
            "c.csv",
            "doc_id,text,text\na,b,c\n",
            r"c\.csv:1: the header names the column 'text' twice",
        ),
        ("c.csv", "doc_id;text\na;b\n", r"c\.csv:2: there is no 'doc_id'"),
        ("c.parquet", b"PAR1 this is none", r"c\.parquet: this Parquet file cannot be read"),
        ("s.json", '{"data": 3}', r"'data' of the file is 3, not a list"),
        (
            "s.json",
            '{"data": [{"title": "A", "paragraphs": [{"qas": []}]}]}',
            r"the paragraph A/0000 has no 'context'; the keys are: 'qas'",
        ),
        ("s.json", '{"data": [{"paragraphs": []}]}', r"article 1 has no 'title'"),
        (
            "r.json",
            '[{"user_input": "q", "reference_contexts": ["x", " "]}]',
            r"r\.json:1: 'reference_contexts' holds a blank context",
        ),
        (
            "r.json",
            '[{"user_input": "q", "reference_contexts": "x"}]',
            r"expected a list of strings",
        ),
        ("c.xyz", "x", r"its format cannot be told from its name: expected \.txt"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_place(
    write: Write, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load(write(name, content))


def test_what_is_missing_or_of_another_kind_is_refused(write: Write, tmp_path: Path) -> None:
    path = write("corpus.jsonl", lines({"doc_id": "a", "text": "x"}))
    assert "there is no such file or folder; did you mean 'corpus.jsonl'?" in refused(
        tmp_path / "corpus.json"
    )
    assert f"there is no such file or folder, nor the folder {tmp_path}/no" in refused(
        tmp_path / "no" / "such"
    )
    assert "format 'beir' is a folder, and this is a file" in refused(path, "beir")
    assert "format 'jsonl' is one file; name it" in refused(tmp_path, "jsonl")
    (tmp_path / "empty").mkdir()
    assert "there is no document in it: expected .txt" in refused(tmp_path / "empty")
    assert "the folder is empty" in refused(tmp_path / "empty")
    write("data/a.jsonl", "x")
    assert "found 1 .jsonl" in refused(tmp_path / "data")
    assert "there is no document in it" in refused(tmp_path / "data" / "*.md")
    assert "there is no such folder" in refused(tmp_path / "absent" / "*.md")


def test_a_file_that_may_not_be_read_is_refused(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.txt", "x")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    assert refused(path) == f"{path}: cannot be read (Permission denied)"
    monkeypatch.setattr(os, "scandir", deny)
    assert refused(tmp_path) == f"{tmp_path}: cannot be read (Permission denied)"


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    message = refused(tmp_path)
    assert r"the name b'caf\xe9.txt' is not UTF-8" in message
    message.encode()


def test_a_parquet_value_that_json_cannot_hold_is_refused_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "c.parquet"
    pl.DataFrame(
        {"doc_id": ["a", "b"], "text": ["x", "y"], "v": [1.0, float("inf")]}
    ).write_parquet(path)
    assert "c.parquet:2: a value is infinite" in refused(path)
    pl.DataFrame({"doc_id": ["a"], "text": ["x"], "v": [b"\x00"]}).write_parquet(path)
    assert "c.parquet:1: a value is a bytes; expected text, numbers or dates" in refused(path)
    pl.DataFrame({"doc_id": ["a", None], "text": ["x", "y"]}).write_parquet(path)
    assert "c.parquet:2: there is no 'doc_id'" in refused(path)
    pl.DataFrame({"doc_id": [1.5], "text": ["x"]}).write_parquet(path)
    assert "doc_id is the number 1.5" in refused(path)
