"""Files that are written for somebody."""

import os
from pathlib import Path

import pytest

from schemas.errors import StorageError, UsageError
from tasks.new_files import write_new_files


def test_files_are_written_whole_into_a_folder_that_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "place"
    write_new_files(folder, {"a": "é\n", "b": "x\r\n"})
    assert (folder / "a").read_bytes() == "é\n".encode()
    assert (folder / "b").read_bytes() == b"x\r\n"
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("taken", ["a", "b"])
def test_nothing_is_written_when_one_of_the_files_exists(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="already, and nothing was written"):
        write_new_files(tmp_path, {"a": "1", "b": "2"})
    assert [path.name for path in tmp_path.iterdir()] == [taken]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept_and_the_other_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    second = tmp_path / "b"
    link = os.link

    def race(source: Path, target: Path) -> None:
        if target == second:
            second.write_text("theirs")
        if not has_links:
            raise OSError(1, "Operation not permitted")
        link(source, target)

    monkeypatch.setattr(os, "link", race)
    with pytest.raises(UsageError, match="b: there is such a file already"):
        write_new_files(tmp_path, {"a": "1", "b": "2"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b": "theirs"}


def test_files_are_written_where_the_file_system_has_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write_new_files(tmp_path, {"a": "1"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "1"}


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file: cannot be written \(a file is in its place\)"):
        write_new_files(tmp_path / "file", {"a": "1"})
    with pytest.raises(StorageError, match=r"deep: cannot be written \(a file is in its place\)"):
        write_new_files(tmp_path / "file" / "deep", {"a": "1"})
