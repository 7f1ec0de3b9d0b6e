"""The artifact store: named by content, whole or not at all, checked when first read."""

from pathlib import Path

import fsspec
import numpy as np
import polars as pl
import pytest

from schemas.errors import ArtifactDamagedError, StorageError
from tasks.artifacts import ArtifactStore

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
