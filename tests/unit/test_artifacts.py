"""The artifact store: named by content, whole or not at all, checked when first read."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import polars as pl
import pytest

from schemas.artifacts import Artifact
from schemas.errors import ArtifactDamagedError, FailedError, StageError, StorageError
from schemas.frames import CHUNKS
from tasks import file_digests
from tasks.artifacts import CHARACTERS_AT_ONCE, ROWS_AT_ONCE, ArtifactStore

Row = tuple[str, str, int, int, str, str | None]

FRAME = pl.DataFrame({"doc_id": ["007", "NA"], "text": ["eins", None]})


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path / "store"), scratch=tmp_path / "scratch").prepare()


def reopened(tmp_path: Path) -> ArtifactStore:
    """As another process would see it: nothing verified yet."""
    return ArtifactStore(str(tmp_path / "store"), scratch=tmp_path / "scratch")


def test_a_frame_comes_back_as_it_was(store: ArtifactStore) -> None:
    artifact = store.put_frame("documents", FRAME)
    assert store.frame(artifact).equals(FRAME)
    assert (artifact.kind, artifact.n_items) == ("documents", 2)


def test_equal_content_has_one_name(store: ArtifactStore) -> None:
    assert store.put_frame("documents", FRAME) == store.put_frame("documents", FRAME.clone())
    assert len(store.names()) == 1


def test_an_array_comes_back_mapped_and_equal(store: ArtifactStore) -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    artifact = store.put_array("vectors", vectors)
    mapped = store.array(artifact)
    assert isinstance(mapped, np.memmap)
    assert mapped.dtype == np.float32
    np.testing.assert_array_equal(mapped, vectors)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 7)])
def test_an_array_is_what_numpy_itself_writes(
    store: ArtifactStore, tmp_path: Path, shape: tuple[int, int]
) -> None:
    vectors = np.ones(shape, dtype=np.float32)
    np.save(tmp_path / "own.npy", vectors)
    written = store.path(store.put_array("vectors", vectors)).read_bytes()
    assert written == (tmp_path / "own.npy").read_bytes()


def test_a_transposed_array_is_stored_in_row_order(store: ArtifactStore) -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(store.array(store.put_array("vectors", vectors)), vectors)


def test_a_missing_artifact_is_named(store: ArtifactStore, tmp_path: Path) -> None:
    artifact = store.put_frame("chunks", FRAME)
    (tmp_path / "store" / artifact.name).unlink()
    assert not store.has(artifact)
    with pytest.raises(ArtifactDamagedError, match="is missing") as caught:
        reopened(tmp_path).frame(artifact)
    assert caught.value.name == artifact.name


def test_a_truncated_artifact_is_not_there(store: ArtifactStore, tmp_path: Path) -> None:
    artifact = store.put_frame("chunks", FRAME)
    path = tmp_path / "store" / artifact.name
    path.write_bytes(path.read_bytes()[:-1])
    assert not store.has(artifact)
    with pytest.raises(ArtifactDamagedError, match="bytes, expected"):
        reopened(tmp_path).frame(artifact)


def test_a_flipped_byte_is_found_when_first_read(store: ArtifactStore, tmp_path: Path) -> None:
    artifact = store.put_frame("chunks", FRAME)
    path = tmp_path / "store" / artifact.name
    altered = bytearray(path.read_bytes())
    altered[len(altered) // 2] ^= 1
    path.write_bytes(altered)
    fresh = reopened(tmp_path)
    assert fresh.has(artifact), "the size is right: only the digest can tell"
    with pytest.raises(ArtifactDamagedError, match="was altered"):
        fresh.frame(artifact)


@pytest.mark.parametrize("keeps_time", [False, True])
def test_a_byte_flipped_after_it_was_read_is_found_by_the_same_process(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_time: bool
) -> None:
    later = SimpleNamespace(time_ns=lambda: time.time_ns() + 10**10)
    monkeypatch.setattr(file_digests, "time", later)  # so that its digest is remembered
    artifact = store.put_frame("chunks", FRAME)
    store.frame(artifact)
    path = tmp_path / "store" / artifact.name
    content, before = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    time.sleep(0.02)
    path.write_bytes(content)
    if keeps_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    for reader in (store, reopened(tmp_path)):
        with pytest.raises(ArtifactDamagedError, match="was altered"):
            reader.frame(artifact)
        with pytest.raises(ArtifactDamagedError, match="was altered"):
            next(reader.frames(artifact, columns=["text"]))


# rows, which are written and read a part at a time

ODD_TEXTS = [
    "",
    "é\u0301\r\n",
    "你好。👩\u200d👩\u200d👧",
    "A\x00B",
    " \n ",
    "\ufeffx",
    "x" * 5_000,
]


def row(i: int) -> Row:
    text = ODD_TEXTS[i % 7] + str(i % 5)
    return f"dé{i}#0-1", f"dé{i}", i, 2**40 + i, text, [None, "", "Title"][i % 3]


def rows_of(n: int) -> Iterator[Row]:
    return (row(i) for i in range(n))


def frame_of(n: int) -> pl.DataFrame:
    return pl.DataFrame(list(rows_of(n)), schema=CHUNKS, orient="row")


def put_rows(store: ArtifactStore, n: int) -> Artifact:
    return store.put_rows("chunks", rows_of(n), CHUNKS)


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]


@pytest.mark.parametrize(
    "n", [0, 1, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 3 * ROWS_AT_ONCE + 5]
)
@pytest.mark.parametrize("is_frame", [False, True])
def test_rows_come_back_as_they_were_whole_and_in_parts(
    store: ArtifactStore, n: int, is_frame: bool
) -> None:
    expected = list(rows_of(n))
    artifact = put_rows(store, n)
    if is_frame:
        artifact = store.put_frame("chunks", frame_of(n))
    assert artifact.n_items == n
    whole = store.frame(artifact)
    assert whole.schema == CHUNKS
    assert whole.rows() == expected
    parts = list(store.frames(artifact, columns=list(CHUNKS)))
    assert [row for part in parts for row in part.rows()] == expected
    heights = [part.height for part in parts if part.height]
    assert heights == [min(ROWS_AT_ONCE, n - start) for start in range(0, n, ROWS_AT_ONCE)]
    assert all(part.schema == CHUNKS for part in parts)


def test_columns_come_in_the_order_that_they_were_asked_for(store: ArtifactStore) -> None:
    artifact = put_rows(store, ROWS_AT_ONCE + 1)
    expected = [(row(i)[5], row(i)[0]) for i in range(ROWS_AT_ONCE + 1)]
    parts = store.frames(artifact, columns=("title", "chunk_id"))
    assert [row for part in parts for row in part.rows()] == expected
    assert store.frame(artifact, columns=("title", "chunk_id")).rows() == expected


def test_long_texts_make_parts_of_fewer_rows(store: ArtifactStore) -> None:
    half = "é" * (CHARACTERS_AT_ONCE // 2)
    texts = [half, half, "a", half, half, half, "b"]
    rows = [(f"d#{i}-9", "d", i, 9, text, None) for i, text in enumerate(texts)]
    parts = list(store.frames(store.put_rows("chunks", rows, CHUNKS), columns=["start", "text"]))
    assert [part["start"].to_list() for part in parts] == [[0, 1], [2, 3, 4], [5, 6]]
    assert [text for part in parts for text in part["text"]] == texts


@pytest.mark.parametrize("n", [0, 1, 2 * ROWS_AT_ONCE + 1])
def test_the_same_rows_have_the_same_digest(store: ArtifactStore, n: int) -> None:
    assert put_rows(store, n) == put_rows(store, n)
    assert put_rows(store, n).digest != put_rows(store, n + 1).digest


@pytest.mark.parametrize("error", [RuntimeError("cut short"), KeyboardInterrupt()])
@pytest.mark.parametrize("n", [0, 5, 2 * ROWS_AT_ONCE + 5])
def test_rows_that_break_off_leave_nothing(
    store: ArtifactStore, tmp_path: Path, error: BaseException, n: int
) -> None:
    def broken() -> Iterator[Row]:
        yield from rows_of(n)
        raise error

    with pytest.raises(type(error)) as caught:
        store.put_rows("chunks", broken(), CHUNKS)
    assert caught.value is error
    assert files_of(tmp_path) == []


def test_rows_that_cannot_be_read_are_not_taken_for_a_full_disk(
    store: ArtifactStore, tmp_path: Path
) -> None:
    def unreadable() -> Iterator[Row]:
        yield row(0)
        raise FileNotFoundError(2, "No such file or directory", "novel.txt")

    with pytest.raises(StageError, match=r"could not be read.*novel\.txt"):
        store.put_rows("chunks", unreadable(), CHUNKS)
    assert files_of(tmp_path) == []


@pytest.mark.parametrize("wrong", [("a", "b"), ("a", "b", "no number", 1, "text", None)])
def test_rows_that_do_not_fit_the_schema_are_refused(
    store: ArtifactStore, tmp_path: Path, wrong: Any
) -> None:
    with pytest.raises((ValueError, IndexError), match=r"argument|convert|range"):
        store.put_rows("chunks", [wrong], CHUNKS)
    assert files_of(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("n", [0, 3, 3 * ROWS_AT_ONCE])
@pytest.mark.parametrize(
    "put",
    [put_rows, lambda store, n: store.put_frame("chunks", frame_of(n))],
    ids=["rows", "frame"],
)
def test_a_full_disk_is_said_and_nothing_stays(
    store: ArtifactStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    put: Callable[[ArtifactStore, int], Artifact],
    n: int,
) -> None:
    make_path = store.scratch_file

    def on_a_full_disk(suffix: str) -> Path:
        path = make_path(suffix)
        path.symlink_to("/dev/full")
        return path

    monkeypatch.setattr(store, "scratch_file", on_a_full_disk)
    with pytest.raises(FailedError, match=r"written \(No space left on device\)\. Make room"):
        put(store, n)
    assert files_of(tmp_path) == []


def test_what_is_forgotten_is_gone(store: ArtifactStore) -> None:
    artifact = store.put_frame("chunks", FRAME)
    store.forget(artifact.name)
    store.forget(artifact.name)
    assert not store.has(artifact)


def test_a_failed_write_leaves_nothing(store: ArtifactStore, tmp_path: Path) -> None:
    class Unwritable:
        height = 0

        def write_parquet(self, *_: object, **__: object) -> None:
            raise RuntimeError("cut short")

    with pytest.raises(RuntimeError):
        store.put_frame("chunks", Unwritable())  # type: ignore[arg-type]
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file, not a folder")
    with pytest.raises(StorageError, match=r"execution\.store"):
        ArtifactStore(str(tmp_path / "store"), scratch=tmp_path / "scratch").prepare()


def test_an_unknown_protocol_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="fsspec URL"):
        ArtifactStore("nowhere://bucket", scratch=tmp_path)


def test_a_remote_store_serves_another_machine(tmp_path: Path) -> None:
    url = f"memory://rankhouse-{tmp_path.name}"
    artifact = ArtifactStore(url, scratch=tmp_path / "one").prepare().put_frame("chunks", FRAME)
    elsewhere = ArtifactStore(url, scratch=tmp_path / "two").prepare()
    assert elsewhere.has(artifact)
    assert elsewhere.frame(artifact).equals(FRAME)
    elsewhere.forget(artifact.name)
    assert not elsewhere.has(artifact)
    assert fsspec.filesystem("memory").find(url.removeprefix("memory:/")) == []
