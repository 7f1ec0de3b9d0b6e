"""Bad input is refused with exit code 2, before anything is spent or written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.data.small_project import QUERIES, Command, write_small_project
from warehouse.connect import create_warehouse

Spoil = Callable[[Path], None]


def replace_in(name: str, old: str, new: str) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return spoil


def remove(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def empty_corpus(folder: Path) -> None:
    for path in sorted((folder / "docs").rglob("*")):
        if path.is_file():
            path.unlink()


def home_is_a_file(folder: Path) -> None:
    (folder / "home").write_text("not a folder")


def warehouse_is_text(folder: Path) -> None:
    (folder / "home").mkdir()
    (folder / "home" / "warehouse.duckdb").write_text("not a database, but long enough " * 999)


def warehouse_is_newer(folder: Path) -> None:
    path = folder / "home" / "warehouse.duckdb"
    path.parent.mkdir()
    create_warehouse(path)
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "insert into migrations values (999, '0999_later.sql', 'x', now(), '9.9.9', 'v9')"
        )


def append_query(**fields: object) -> Spoil:
    def spoil(folder: Path) -> None:
        query = {"query_id": "q9", "text": "What?", "spans": []} | fields
        with (folder / "benchmark.jsonl").open("a") as stream:
            stream.write(json.dumps(query) + "\n")

    return spoil


BEFORE_ANYTHING_STARTS: dict[str, tuple[Spoil, list[str]]] = {
    "no experiment": (remove("small.toml"), ["small.toml", "rankhouse init"]),
    "no corpus": (replace_in("small.toml", '"docs"', '"dosc"'), ["dosc"]),
    "empty corpus": (empty_corpus, ["docs"]),
    "no benchmark": (remove("benchmark.jsonl"), ["benchmark.jsonl"]),
    "empty benchmark": (lambda f: (f / "benchmark.jsonl").write_text("") and None, ["benchmark"]),
    "unknown key": (replace_in("small.toml", "size =", "sise ="), ["chunking.sise", "'size'"]),
    "wrong type": (replace_in("small.toml", "120", '"many"'), ["chunking.size", "'many'"]),
    "deep cutoff": (replace_in("small.toml", "hit@3", "hit@30"), ["hit@30", "depth"]),
    "overlap": (replace_in("small.toml", "120", "120\noverlap = 120"), ["overlap is 120"]),
    "unknown model": (
        replace_in("small.toml", "[retrieval]", '[embedding]\nmodel = "no/such"\n[retrieval]'),
        ["no/such"],
    ),
    "unknown measure": (replace_in("small.toml", "hit@3", "hitt@3"), ["hitt", "hit"]),
    "absent plug-in": (
        replace_in("small.toml", "size = 120", 'size = 120\nplugin = "absent.module:cut"'),
        ["absent.module", "PYTHONPATH"],
    ),
    "query twice": (append_query(query_id="q1"), ["benchmark.jsonl:6", "'q1'"]),
    "empty query": (append_query(text=" "), ["benchmark.jsonl:6"]),
    "blank answer": (append_query(answers=[" "]), ["benchmark.jsonl:6", "answer"]),
    "home is a file": (home_is_a_file, ["home", "RANKHOUSE_HOME"]),
    "warehouse is no database": (warehouse_is_text, ["not a DuckDB"]),
    "warehouse is newer": (warehouse_is_newer, ["999", "Upgrade Rankhouse"]),
    "store that cannot be written": (
        replace_in("small.toml", "[execution]", '[execution]\nstore = "/proc/rankhouse"'),
        ["/proc/rankhouse", "execution.store"],
    ),
}


@pytest.mark.parametrize("case", BEFORE_ANYTHING_STARTS)
def test_it_is_refused_before_anything_starts(offline_command: Command, case: str) -> None:
    spoil, words = BEFORE_ANYTHING_STARTS[case]
    file = write_small_project(offline_command.folder)
    spoil(offline_command.folder)
    result = offline_command("evaluate", str(file), exit_code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    for written in ("prefect", "spool", "artifacts", "items"):
        assert not (offline_command.home / written).exists(), written


WHILE_LOADING: dict[str, tuple[Spoil, list[str]]] = {
    "not UTF-8": (
        lambda folder: (folder / "docs" / "pets.txt").write_bytes(b"caf\xe9") and None,
        ["pets.txt", "byte 3"],
    ),
    "empty document": (
        lambda folder: (folder / "docs" / "pets.txt").write_text(" \n") and None,
        ["pets.txt", "empty"],
    ),
}


@pytest.mark.parametrize("case", WHILE_LOADING)
def test_it_is_refused_while_loading_and_no_run_is_written(command: Command, case: str) -> None:
    assert len(QUERIES) == 5
    spoil, words = WHILE_LOADING[case]
    file = write_small_project(command.folder)
    spoil(command.folder)
    result = command("evaluate", str(file), exit_code=2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    assert not (command.home / "warehouse.duckdb").exists()
    assert [path for path in (command.home / "spool").glob("*") if path.name != "refused"] == []


def test_a_night_in_the_future_is_refused(offline_command: Command) -> None:
    file = write_small_project(offline_command.folder)
    result = offline_command("evaluate", str(file), "--date", "9999-12-31", exit_code=2)
    assert "is in the future" in result.stderr
    assert not (offline_command.home / "prefect").exists()


def test_a_damaged_prefect_database_is_set_aside_and_the_run_goes_on(
    offline_command: Command,
) -> None:
    file = write_small_project(offline_command.folder)
    database = offline_command.home / "prefect" / "prefect.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"no database at all " * 300)
    result = offline_command("evaluate", str(file))
    assert "prefect.db is damaged" in result.stderr
    assert list(database.parent.glob("prefect.damaged-*"))


def test_sql_that_is_not_utf8_is_refused(command: Command, small: Path) -> None:
    command.evaluate(small)
    result = command("sql", b"select '\xff'".decode("utf-8", "surrogateescape"), exit_code=2)
    assert "not UTF-8" in result.stderr


def test_commands_that_only_read_need_no_server_and_say_what_is_missing(
    offline_command: Command,
) -> None:
    for words in (("sql", "select 1"), ("runs",)):
        result = offline_command(*words, exit_code=2)
        assert f"no runs in {offline_command.home} yet" in result.stderr
        assert "rankhouse evaluate EXPERIMENT.toml" in result.stderr
