"""The item store: first stored wins, nothing half-written is read, damage is noticed."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from schemas.errors import StageError, StorageError
from tasks.shards import KEY, list_shards
from tasks.vectors import VectorStore, key_of

SPACE = {"model": "m", "dtype": "float32"}
ROOT = Path(__file__).parents[2]


def keys(*names: str) -> np.ndarray:
    return np.array([hashlib.sha256(name.encode()).digest() for name in names], dtype=KEY)


def vectors(*values: float) -> np.ndarray:
    return np.array([[value, value + 0.5, -value] for value in values], dtype=np.float32)


def flags(*values: int) -> np.ndarray:
    return np.array(values, dtype=bool)


def store_at(folder: Path) -> VectorStore:
    return VectorStore(folder, SPACE)


def test_what_was_stored_comes_back_in_the_order_asked(tmp_path: Path) -> None:
    store_at(tmp_path).put_many(keys("a", "b", "c"), vectors(1, 2, 3), flags(0, 1, 0))

    stored = store_at(tmp_path).get_many(keys("c", "unknown", "b", "c"))

    assert stored.found.tolist() == [True, False, True, True]
    assert stored.truncated.tolist() == [False, False, True, False]
    assert np.array_equal(stored.vectors[[0, 2, 3]], vectors(3, 2, 3))
    assert not stored.vectors[1].any()


def test_an_empty_store_finds_nothing_and_makes_no_folder(tmp_path: Path) -> None:
    stored = store_at(tmp_path).get_many(keys("a", "b"))
    assert stored.found.tolist() == [False, False]
    assert stored.vectors.shape == (2, 0)
    assert list(tmp_path.iterdir()) == []


def test_asking_for_no_keys_finds_nothing(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    store.put_many(keys("a"), vectors(1), flags(0))
    assert store.get_many(keys()).found.shape == (0,)


def test_many_keys_of_many_shards_are_all_found(tmp_path: Path) -> None:
    names = [f"text {i}" for i in range(2_000)]
    store = store_at(tmp_path)
    for part in range(0, 2_000, 400):
        chosen = names[part : part + 400]
        store.put_many(keys(*chosen), vectors(*range(part, part + 400)), flags(*[0] * 400))
    order = np.random.default_rng(0).permutation(2_000)

    stored = store_at(tmp_path).get_many(keys(*[names[i] for i in order]))

    assert stored.found.all()
    assert np.array_equal(stored.vectors, vectors(*order))


def test_the_first_vector_stored_wins_for_every_reader(tmp_path: Path) -> None:
    first, second = store_at(tmp_path), store_at(tmp_path)
    assert not second.get_many(keys("a")).found.any()  # both writers saw an empty store
    first.put_many(keys("a", "b"), vectors(1, 2), flags(0, 0))
    second.put_many(keys("a", "c"), vectors(9, 3), flags(1, 0))

    for store in (first, second, store_at(tmp_path)):
        stored = store.get_many(keys("a", "b", "c"))
        assert np.array_equal(stored.vectors, vectors(1, 2, 3))
        assert stored.truncated.tolist() == [False, False, False]


def test_an_open_store_finds_what_another_has_stored_meanwhile(tmp_path: Path) -> None:
    reader = store_at(tmp_path)
    assert not reader.get_many(keys("a")).found.any()
    store_at(tmp_path).put_many(keys("a"), vectors(1), flags(0))
    assert reader.get_many(keys("a")).found.all()


def test_spaces_do_not_share_vectors(tmp_path: Path) -> None:
    VectorStore(tmp_path, {"model": "m"}).put_many(keys("a"), vectors(1), flags(0))
    assert not VectorStore(tmp_path, {"model": "n"}).get_many(keys("a")).found.any()


def test_the_space_is_described_beside_its_vectors(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    store.put_many(keys("a"), vectors(1), flags(0))
    assert '"model": "m"' in (store.folder / "space.json").read_text()


def test_one_flipped_bit_anywhere_is_never_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    original = store_at(tmp_path)
    original.put_many(keys("a", "b"), vectors(1, 2), flags(0, 1))
    (name,) = list_shards(original.folder)
    content = name.path.read_bytes()
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        name.path.write_bytes(damaged)
        caplog.clear()

        stored = store_at(tmp_path).get_many(keys("a", "b"))

        assert not stored.found.any(), f"byte {place}"
        assert "damaged" in caplog.text
        assert list_shards(original.folder) == []
    assert name.path.with_suffix(".damaged").exists()


@pytest.mark.parametrize("size", [0, 1, 100, 200, -1])
def test_a_short_shard_is_set_aside_and_its_texts_are_stored_anew(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    store_at(tmp_path).put_many(keys("a"), vectors(1), flags(0))
    (name,) = list_shards(store_at(tmp_path).folder)
    os.truncate(name.path, size if size >= 0 else name.path.stat().st_size - 1)

    store = store_at(tmp_path)
    assert not store.get_many(keys("a")).found.any()
    store.put_many(keys("a"), vectors(5), flags(0))

    assert np.array_equal(store_at(tmp_path).get_many(keys("a")).vectors, vectors(5))
    assert caplog.text.count("damaged") >= 1


def test_a_longer_shard_is_damaged_too(tmp_path: Path) -> None:
    store_at(tmp_path).put_many(keys("a"), vectors(1), flags(0))
    (name,) = list_shards(store_at(tmp_path).folder)
    name.path.write_bytes(name.path.read_bytes() + b"x")
    assert not store_at(tmp_path).get_many(keys("a")).found.any()


def test_a_damaged_shard_does_not_hide_a_whole_one(tmp_path: Path) -> None:
    for value, name in ((1, "a"), (2, "b"), (3, "c")):
        store_at(tmp_path).put_many(keys(name), vectors(value), flags(0))
    second = list_shards(store_at(tmp_path).folder)[1]
    second.path.write_bytes(second.path.read_bytes()[:-4] + b"\0\0\0\0")

    stored = store_at(tmp_path).get_many(keys("a", "b", "c"))

    assert stored.found.tolist() == [True, False, True]
    assert np.array_equal(stored.vectors[[0, 2]], vectors(1, 3))


def test_files_that_are_no_shards_are_left_alone(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    store.put_many(keys("a"), vectors(1), flags(0))
    for name in ("notes.txt", "00000002.vectors", ".1-abc.tmp"):
        (store.folder / name).write_bytes(b"not a shard")
    assert store_at(tmp_path).get_many(keys("a")).found.all()
    assert (store.folder / "00000002.vectors").exists()


def test_a_nan_is_never_stored(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    with pytest.raises(StageError, match="NaN"):
        store.put_many(keys("a", "b"), vectors(1, np.nan), flags(0, 0))
    assert not store.get_many(keys("a", "b")).found.any()


def test_a_key_that_comes_twice_in_one_shard_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="1 different keys among 2"):
        store_at(tmp_path).put_many(keys("a", "a"), vectors(1, 2), flags(0, 0))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = store_at(tmp_path / "file")
    with pytest.raises(StorageError, match="cannot be stored"):
        store.put_many(keys("a"), vectors(1), flags(0))


def test_the_key_depends_on_where_the_prompt_ends() -> None:
    assert key_of("bc", prompt="a") != key_of("c", prompt="ab")
    assert key_of("x", prompt="") == key_of("x", prompt="")


WRITER = """
import hashlib, sys, time
from pathlib import Path
import numpy as np
from tasks import vectors
from tasks.vectors import VectorStore

list_shards = vectors.list_shards

def list_slowly(folder):
    names = list_shards(folder)
    time.sleep(0.003)  # so that writers without a lock would choose the same number
    return names

vectors.list_shards = list_slowly
folder, value, rounds = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
store = VectorStore(folder, {"model": "m", "dtype": "float32"})
print("ready", flush=True)
for i in range(rounds):
    names = [f"{i}/{j}".encode() for j in range(50)]
    keys = np.array([hashlib.sha256(name).digest() for name in names], dtype="S32")
    store.put_many(keys, np.full((50, 64), value, np.float32), np.zeros(50, bool))
    mine = store.get_many(keys)
    assert mine.found.all()
    print(i, *sorted(set(mine.vectors[:, 0].tolist())), flush=True)
"""


def start_writer(folder: Path, value: float, rounds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(value), str(rounds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_that_store_the_same_texts_agree_on_every_vector(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, value, rounds=15) for value in (1.0, 2.0)]
    outputs = [writer.communicate(timeout=60)[0].splitlines()[1:] for writer in writers]

    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(outputs[0]) == 15
    assert outputs[0] == outputs[1]  # round by round both read the same winner
    numbers = [name.number for name in list_shards(store_at(tmp_path).folder)]
    assert numbers == list(range(1, 31))


def test_a_writer_killed_at_any_moment_leaves_nothing_half_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for attempt in range(4):
        writer = start_writer(tmp_path, 1.0, rounds=10_000)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.02 + 0.013 * attempt)
        writer.send_signal(signal.SIGKILL)
        confirmed = [line for line in writer.communicate()[0].splitlines() if line.endswith("1.0")]

        names = [f"{i}/{j}" for i in range(len(confirmed)) for j in range(50)]
        stored = store_at(tmp_path).get_many(keys(*names))

        assert stored.found.all()
        assert (stored.vectors == 1.0).all()
        assert caplog.text == ""
    store_at(tmp_path).put_many(keys("after"), vectors(1), flags(0))  # and no lock is left behind
