"""Somebody's own code neither ends the command nor writes among its results."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from schemas.errors import ConfigurationError, StageError
from schemas.retrievers import Retrieval
from tasks.plugin_retrieving import retrieve_by_plugin
from tasks.plugins import import_function, prints_to_stderr

PLUGIN = """
import sys
print("importing")

class Retriever:
    def __init__(self, chunks, options):
        self.chunks, self.options = chunks, options

    def retrieve(self, query, k, *, filter):
        print("asked", query)
        if "exit" in self.options:
            sys.exit(self.options["exit"])
        return [{"chunk_id": chunk.chunk_id, "score": 1.0} for chunk in self.chunks[:1]]

def make(corpus, options):
    return Retriever(corpus.chunks, options)

def leave(corpus, options):
    sys.exit(0)
"""


def ask(plugin: str, **options: int) -> None:
    documents = pl.DataFrame({"doc_id": ["a"], "text": ["dogs"], "title": [""], "metadata": [None]})
    chunks = pl.DataFrame(
        {
            "chunk_id": ["a#0-4"],
            "doc_id": ["a"],
            "start": [0],
            "end": [4],
            "text": ["dogs"],
            "title": [""],
        }
    )
    queries = pl.DataFrame({"query_id": ["q"], "text": ["dog"], "filter": [None]})
    section = Retrieval(plugin=plugin, depth=5, options=options)
    retrieve_by_plugin(documents, chunks, queries, section, are_documents=False)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "prints_and_exits.py").write_text(PLUGIN)
    (tmp_path / "exits_when_imported.py").write_text("import sys; sys.exit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("prints_and_exits", "exits_when_imported"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "prints_and_exits"


@pytest.mark.parametrize("code", [0, 7, 10])
def test_a_retriever_that_exits_ends_its_stage_and_not_the_command(plugin: str, code: int) -> None:
    with pytest.raises(StageError, match=f"on the query 'q': SystemExit: {code}"):
        ask(f"{plugin}:make", exit=code)


def test_a_factory_that_exits_ends_its_stage_and_not_the_command(plugin: str) -> None:
    with pytest.raises(StageError, match="the factory raised SystemExit: 0"):
        ask(f"{plugin}:leave")


def test_a_module_that_exits_when_imported_is_refused(plugin: str) -> None:
    with pytest.raises(ConfigurationError, match="failed with SystemExit: 0"):
        import_function("exits_when_imported:make", "retrieval.plugin")


def test_what_a_plugin_prints_is_not_among_the_results(
    plugin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(f"{plugin}:make")
    print("result")
    out, err = capsys.readouterr()
    assert (out, err) == ("result\n", "importing\nasked dog\n")


def test_standard_output_comes_back_whichever_thread_leaves_last() -> None:
    before = sys.stdout
    first, second = prints_to_stderr(), prints_to_stderr()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.stdout is sys.stderr
    second.__exit__(None, None, None)
    assert sys.stdout is before
