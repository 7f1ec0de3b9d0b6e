"""``rankhouse init`` as it is typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows import cli
from flows.commands.init import command
from schemas.experiment import read_experiment

DOCS = {
    "leave.md": "# Annual leave\n\nEveryone has 27 days.\n\n## Asking for it\n\nAsk early.\n",
    "pets.txt": "Pets on board\n\nDogs cost 12 euros.\n",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in DOCS.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def init(*words: str) -> int:
    return cli.run(lambda: command.main(list(words), standalone_mode=False))


def queries(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_it_writes_an_experiment_that_can_be_read_and_examples_that_say_what_they_are(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init("docs") == 0
    experiment = read_experiment(here / "experiment.toml")
    assert experiment.name == "docs"
    assert experiment.corpus.path == str(here / "docs")
    assert experiment.benchmark.path == str(here / "benchmark.jsonl")
    assert experiment.labelling.method == "document"
    assert queries(here / "benchmark.jsonl")[0] == {
        "query_id": "example-01",
        "text": "Annual leave",
        "tags": ["example"],
        "qrels": [{"doc_id": "leave.md", "grade": 1}],
    }
    out, err = capsys.readouterr()
    assert "3 example queries" in out
    assert "the queries are examples" in err
    assert err.splitlines()[-1] == "next: rankhouse evaluate experiment.toml"


def test_questions_become_queries_with_answers_and_missing_answers_are_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "query_id,question,answer\n007,How many days?,27  DAYS\n,What of cats?,9 euros\n"
    (here / "q.csv").write_text(rows, encoding="utf-8")
    assert init("docs", "--questions", "q.csv", "--into", "a b/c") == 0
    experiment = read_experiment(here / "a b" / "c" / "experiment.toml")
    assert experiment.labelling.method == "answer_text"
    assert experiment.corpus.path == str(here / "docs")
    first, second = queries(here / "a b" / "c" / "benchmark.jsonl")
    assert first == {"query_id": "007", "text": "How many days?", "answers": ["27  DAYS"]}
    err = capsys.readouterr().err
    assert "not found: 1 of 2: " in err
    assert str(second["query_id"]) in err
    assert "next: rankhouse evaluate 'a b/c/experiment.toml'" in err


def test_control_characters_of_a_name_do_not_reach_the_terminal(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "docs").rename(here / "do\x1b[31mcs")
    assert init("do\x1b[31mcs", "--into", "in\x1b[31mto") == 0
    assert read_experiment(here / "in\x1b[31mto" / "experiment.toml").name == "do-[31mcs"
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err


@pytest.mark.parametrize("taken", ["experiment.toml", "benchmark.jsonl"])
def test_it_never_overwrites(here: Path, taken: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / taken).write_text("mine")
    assert init("docs") == 2
    assert (here / taken).read_text() == "mine"
    assert sorted(path.name for path in here.iterdir()) == sorted(["docs", taken])
    assert f"{taken}: there is such a file already" in capsys.readouterr().err


BAD: list[tuple[str, str, str]] = [
    # what stands in q.csv, what docs/leave.md holds, what is said
    ("frage,answer\nx,y\n", "x", "'frage' is unknown"),
    ("question\nx\n", "x", "'answer'"),
    ("question,answer\nx,\n", "x", "blank"),
    ("question,answer\n", "x", "no query"),
    ("", "x", "empty"),
    ("question,answer\nx,y\n", "", "empty"),
    ("question,answer\nx,y\n", " \n", "empty"),
]


@pytest.mark.parametrize(("table", "document", "said"), BAD)
def test_bad_input_is_refused_before_anything_is_written(
    here: Path, table: str, document: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "q.csv").write_text(table)
    (here / "docs" / "leave.md").write_text(document)
    assert init("docs", "--questions", "q.csv", "--into", "out") == 2
    assert said in capsys.readouterr().err
    assert not (here / "out").exists()


def test_a_folder_without_documents_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "empty").mkdir()
    assert init("empty") == 2
    assert init("nowhere") == 2
    err = capsys.readouterr().err
    assert "no document" in err
    assert "nowhere" in err
    assert not (here / "experiment.toml").exists()


def test_it_works_inside_the_folder_of_documents(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here / "docs")
    assert init(".") == 0
    experiment = read_experiment(here / "docs" / "experiment.toml")
    assert (experiment.name, experiment.corpus.path) == ("docs", str(here / "docs"))


def test_it_loads_no_model_library_and_no_prefect(here: Path) -> None:
    code = (
        "import sys; from flows.cli import run; from flows.commands.init import command\n"
        "assert run(lambda: command.main(['docs'], standalone_mode=False)) == 0\n"
        "heavy = {'torch', 'faiss', 'sentence_transformers', 'prefect', 'openai', 'duckdb'}\n"
        "print('loaded:', *sorted(heavy & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    call = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{code}"]
    done = subprocess.run(call, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"
