"""A file is hashed once a process, and again as soon as it may be another."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import file_digests
from tasks.file_digests import rename_file, sha256_of_file

SECOND = 10**9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b"first")
    time.sleep(0.02)  # the clock of the file system ticks: what comes after has another time
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests of the files that were really read."""
    digests: list[str] = []

    def digest_of(stream: Any, name: str) -> Any:
        found = hashlib.file_digest(stream, name)
        digests.append(found.hexdigest())
        return found

    monkeypatch.setattr(file_digests, "hashlib", SimpleNamespace(file_digest=digest_of))
    return digests


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file was changed long ago."""
    clock = SimpleNamespace(time_ns=lambda: time.time_ns() + 10 * SECOND)
    monkeypatch.setattr(file_digests, "time", clock)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.usefixtures("later")
def test_a_file_that_stays_is_read_once(path: Path, reads: list[str]) -> None:
    assert [sha256_of_file(path) for _ in range(3)] == [sha256(b"first")] * 3
    assert len(reads) == 1


@pytest.mark.usefixtures("later")
def test_a_file_that_we_rename_is_not_read_again(path: Path, reads: list[str]) -> None:
    sha256_of_file(path)
    rename_file(path, path.with_name("named"))
    assert sha256_of_file(path.with_name("named")) == sha256(b"first")
    assert len(reads) == 1


@pytest.mark.parametrize(("is_own", "n_reads"), [(False, 2), (True, 1)])
def test_what_nobody_else_can_write_to_need_not_settle(
    path: Path, reads: list[str], is_own: bool, n_reads: int
) -> None:
    path.write_bytes(b"first")
    sha256_of_file(path, is_own=is_own)
    rename_file(path, path.with_name("named"))
    assert sha256_of_file(path.with_name("named")) == sha256(b"first")
    assert len(reads) == n_reads


@pytest.mark.usefixtures("later")
def test_what_stood_at_the_new_name_is_not_taken_for_the_renamed_file(path: Path) -> None:
    target = path.with_name("named")
    target.write_bytes(b"other")
    sha256_of_file(target)
    rename_file(path, target)  # was never hashed
    assert sha256_of_file(target) == sha256(b"first")


@pytest.mark.usefixtures("later")
def test_other_content_of_the_same_size_is_read(path: Path) -> None:
    sha256_of_file(path)
    path.write_bytes(b"other")
    assert sha256_of_file(path) == sha256(b"other")


@pytest.mark.usefixtures("later")
def test_other_content_is_read_although_its_time_of_writing_was_set_back(path: Path) -> None:
    before = path.stat()
    sha256_of_file(path)
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert after.st_mtime_ns == before.st_mtime_ns
    assert sha256_of_file(path) == sha256(b"other")


@pytest.mark.usefixtures("later")
def test_another_file_at_the_same_path_is_read(path: Path) -> None:
    before = path.stat()
    sha256_of_file(path)
    other = path.with_name("other")
    other.write_bytes(b"other")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert sha256_of_file(path) == sha256(b"other")


def test_a_change_within_the_tick_of_the_first_writing_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # both writings look alike, as where the clock of the file system has not ticked between them
    monkeypatch.setattr(file_digests, "_seen", lambda found: (1, 1, found.st_size, 1, 1))
    path.write_bytes(b"first")
    assert sha256_of_file(path) == sha256(b"first")
    path.write_bytes(b"other")
    assert sha256_of_file(path) == sha256(b"other")


@pytest.mark.parametrize(("seconds", "n_reads"), [(1.5, 2), (2.5, 1)])
def test_a_clock_that_ticks_whole_seconds_is_given_two_of_them(
    path: Path,
    reads: list[str],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    n_reads: int,
) -> None:
    second = path.stat().st_ctime_ns // SECOND * SECOND

    def coarse(descriptor: int) -> Any:
        found = os.fstat(descriptor)
        times = {"st_mtime_ns": second, "st_ctime_ns": second}
        return SimpleNamespace(
            st_dev=found.st_dev, st_ino=found.st_ino, st_size=found.st_size, **times
        )

    clock = SimpleNamespace(time_ns=lambda: second + int(seconds * SECOND))
    monkeypatch.setattr(file_digests, "os", SimpleNamespace(fstat=coarse))
    monkeypatch.setattr(file_digests, "time", clock)
    assert [sha256_of_file(path) for _ in range(2)] == [sha256(b"first")] * 2
    assert len(reads) == n_reads


@pytest.mark.usefixtures("later")
def test_what_is_written_while_it_is_read_is_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest_of(stream: Any, name: str) -> Any:
        found = hashlib.file_digest(stream, name)
        path.write_bytes(b"longer than before")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(file_digests, "hashlib", SimpleNamespace(file_digest=digest_of))
        assert sha256_of_file(path) == sha256(b"first")
    assert sha256_of_file(path) == sha256(b"longer than before")


@pytest.mark.usefixtures("later")
def test_more_files_than_are_kept_in_mind_have_their_own_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_digests, "MOST_KNOWN", 3)
    paths = [tmp_path / str(i) for i in range(8)]
    for path in paths:
        path.write_bytes(path.name.encode())
    for _ in range(2):
        assert [sha256_of_file(path) for path in paths] == [sha256(p.name.encode()) for p in paths]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sha256_of_file(tmp_path / "nowhere")
