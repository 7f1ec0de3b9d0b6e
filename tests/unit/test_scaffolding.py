"""An experiment file and a benchmark for somebody's own documents."""

import json
import tomllib
from pathlib import Path

import pytest

from schemas.errors import UsageError
from schemas.experiment import parse_experiment, read_experiment
from schemas.records import Document, GoldSpan, Judgement, Query
from tasks.scaffolding import (
    benchmark_text,
    experiment_name,
    experiment_text,
    lost_answers,
    path_from,
    toml_string,
)

HOSTILE = [
    'a "quoted" # name',
    "back\\slash\\",
    "tab\there",
    "new\nline = 1",
    "\x7f\x1b[31m",
    "{braces} {0}",
    "北京 é",
    "'''",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_survives_toml(name: str) -> None:
    assert tomllib.loads(f"key = {toml_string(name)}") == {"key": name}
    text = experiment_text(name="x", corpus=name, benchmark="b.jsonl", method="document")
    assert tomllib.loads(text)["corpus"] == {"path": name}


@pytest.mark.parametrize("name", [*HOSTILE, "x" * 300, "  ", "\udcff"])
def test_the_name_of_a_folder_becomes_one_that_an_experiment_may_bear(name: str) -> None:
    text = experiment_text(
        name=experiment_name(Path("/") / name), corpus="c", benchmark="b", method="span"
    )
    assert parse_experiment(tomllib.loads(text), where="here").name


def test_the_root_folder_has_no_name() -> None:
    assert experiment_name(Path("/")) == "experiment"


def test_a_name_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        toml_string("docs\udcff")


@pytest.mark.parametrize("method", ["document", "answer_text", "span"])
def test_the_experiment_file_is_valid_and_its_comments_stand_in_a_column(method: str) -> None:
    text = experiment_text(
        name="docs",
        corpus="docs",
        benchmark="benchmark.jsonl",
        method=method,  # type: ignore[arg-type]
    )
    experiment = parse_experiment(tomllib.loads(text), where="here")
    assert experiment.labelling.method == method
    columns = {line.index(" #") for line in text.splitlines() if " #" in line}
    assert columns == {31}


@pytest.mark.parametrize("name", ["docs", "~docs", "~", "a b", "[x]", "{y}", ".."])
def test_the_path_leads_from_the_file_to_the_folder(tmp_path: Path, name: str) -> None:
    folder, into = tmp_path / name, tmp_path / "deep" / "er"
    folder.mkdir(exist_ok=True)
    into.mkdir(parents=True)
    for place in (into, tmp_path):
        text = experiment_text(
            name="x", corpus=path_from(place, folder), benchmark="b", method="document"
        )
        file = place / "x.toml"
        file.write_text(text, encoding="utf-8")
        assert read_experiment(file).corpus.path == str(folder.resolve())


def test_the_path_holds_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    path = path_from(tmp_path / "link", tmp_path / "docs")
    assert (tmp_path / "link" / path).resolve() == tmp_path / "docs"


def test_the_benchmark_leaves_out_what_is_absent_and_keeps_what_is_empty() -> None:
    full = Query(
        "007", "Wer?\n", ("de",), None, ("A",), (GoldSpan("d", 1, 2, "q", 2),), (Judgement("d", 3),)
    )
    lines = benchmark_text([full, Query("NA", "x", answers=())]).splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "query_id": "007",
            "text": "Wer?\n",
            "tags": ["de"],
            "answers": ["A"],
            "spans": [{"doc_id": "d", "start": 1, "end": 2, "quote": "q", "grade": 2}],
            "qrels": [{"doc_id": "d", "grade": 3}],
        },
        {"query_id": "NA", "text": "x", "answers": []},
    ]


def test_a_query_is_lost_when_none_of_its_answers_stands_in_a_document() -> None:
    documents = [Document("a", "Kept for 90 days."), Document("b", "Cats are concatenated.")]
    queries = [
        Query("1", "?", answers=("91 days", "90  DAYS")),
        Query("2", "?", answers=("at",)),
        Query("3", "?", answers=()),
        Query("4", "?"),
    ]
    assert lost_answers(documents, queries) == ["2"]
