"""Parsed sources that are kept beside compiled files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tasks import parsed_sources
from tasks.parsed_sources import ParsedSources, parse_source

SOURCE = '"""Says what it is."""\nfrom tasks import loading\nimport tasks.ranking\n\nx = 1\n'


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "__pycache__" / "sources.json"


@pytest.fixture
def unparsable(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str) -> object:
        raise AssertionError(f"parsed again: {source}")

    monkeypatch.setattr(parsed_sources, "parse_source", refuse)


def kept(path: Path, *sources: str) -> list[tuple[list[str], str]]:
    store = ParsedSources(path)
    found = [store.of(source) for source in sources]
    store.keep()
    return found


def test_imports_and_a_digest_that_layout_and_docstrings_do_not_move() -> None:
    imports, digest = parse_source(SOURCE)
    assert imports == ["tasks.loading", "tasks.ranking"]
    assert (
        parse_source("from tasks import loading\nimport tasks.ranking; x = 1  # one")[1] == digest
    )
    assert parse_source(SOURCE.replace("x = 1", "x = 2"))[1] != digest


def test_another_process_does_not_parse_again(path: Path, request: pytest.FixtureRequest) -> None:
    first = kept(path, SOURCE, "y = 2")
    request.getfixturevalue("unparsable")
    assert [tuple(one) for one in kept(path, SOURCE, "y = 2")] == first
    with pytest.raises(AssertionError, match="parsed again: y = 3"):
        kept(path, "y = 3")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff\xfe", b'{"a": [["x"]]}'])
def test_a_file_that_cannot_be_read_is_written_anew(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert kept(path, SOURCE) == [parse_source(SOURCE)]
    assert len(json.loads(path.read_bytes())) == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["sources.json"]


def test_where_nothing_can_be_written_sources_are_parsed(tmp_path: Path, path: Path) -> None:
    path.parent.write_text("a file where the folder should be")
    assert kept(path, SOURCE) == [parse_source(SOURCE)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["__pycache__"]


def test_nothing_is_written_where_python_writes_no_compiled_files(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    kept(path, SOURCE)
    assert not path.exists()


def test_what_another_process_has_kept_meanwhile_stays_until_there_is_too_much(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = ParsedSources(path)
    early.of("a = 1")
    kept(path, "b = 1", "c = 1")
    early.keep()
    assert len(json.loads(path.read_bytes())) == 3
    monkeypatch.setattr(parsed_sources, "MOST_KEPT", 3)
    kept(path, "d = 1")
    assert len(json.loads(path.read_bytes())) == 1
