"""What is embedded, what is reused and what is refused, with an encoder of a few lines."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.encoders import Embedding
from schemas.errors import StageError
from schemas.frames import CHUNKS
from tasks import encoding
from tasks.artifacts import ROWS_AT_ONCE, ArtifactStore
from tasks.embedding import EmbeddedTexts, embed_texts
from tasks.encoding import embedding_space
from tasks.loaded_models import keeping_models
from tasks.models import ResolvedModel
from tasks.stored_texts import ChunkTexts
from tasks.texts import GivenTexts, Texts

MODEL = ResolvedModel("fake", Path("/nowhere"), None, "d" * 64, None, 3)


@dataclass
class FakeEncoder:
    """Counts letters; as a real model, its last bits depend on what else is in the batch."""

    max_tokens: int | None = 3
    batches: list[list[str]] = field(default_factory=list)

    def count_tokens(self, texts: list[str], *, prompt: str) -> np.ndarray:
        return np.array([len((prompt + text).split()) for text in texts])

    def encode(self, texts: list[str], *, prompt: str) -> np.ndarray:
        self.batches.append(texts)
        rows = [[(prompt + text).count(letter) for letter in "abcdefgh"] for text in texts]
        return (np.array(rows) * (1 + 2e-7 * len(texts))).astype(np.float32)

    @property
    def encoded(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


class SlowEncoder(FakeEncoder):
    """Slow enough for two runs to meet."""

    def encode(self, texts: list[str], *, prompt: str) -> np.ndarray:
        time.sleep(0.2)
        return super().encode(texts, prompt=prompt)


def embed(
    texts: list[str] | Texts, items: Path, load: Callable[..., Any] | None = None, **changes: Any
) -> tuple[EmbeddedTexts, FakeEncoder]:
    encoder = FakeEncoder()
    arguments: dict[str, Any] = {"prompt": "", "threads": None, "device": "cpu", **changes}
    config = arguments.pop("config", Embedding(batch_size=2))
    load = load or (lambda *_, **__: encoder)
    names = arguments.pop("names", None)
    given = GivenTexts(texts, names) if isinstance(texts, list) else texts
    return embed_texts(given, MODEL, config, items=items, load=load, **arguments), encoder


def test_vectors_come_in_the_order_of_the_texts(tmp_path: Path) -> None:
    embedded, _ = embed(["a", "bb bb bb bb", "c c"], tmp_path)
    expected = np.zeros((3, 8))
    expected[0, 0], expected[1, 1], expected[2, 2] = 1, 8, 2
    np.testing.assert_allclose(embedded.vectors, expected, rtol=1e-5)
    assert embedded.vectors.dtype == np.float32
    assert embedded.vectors.flags.c_contiguous


def stored_chunks(folder: Path, n: int) -> tuple[ChunkTexts, list[str], list[str]]:
    """Chunks in an artifact store, what is embedded of each, and their ids."""
    titles, words = [None, "head", ""], ["a", "b b", "c a g", "d e f b"]
    rows = [
        (f"d{i}#0-9", f"d{i}", 0, 9, f"{words[i % 4]} {i % 997}", titles[i % 3]) for i in range(n)
    ]
    store = ArtifactStore(str(folder), scratch=folder).prepare()
    texts = [text if title is None else f"{title}\n{text}" for *_, text, title in rows]
    return ChunkTexts(store, store.put_rows("chunks", rows, CHUNKS)), texts, [r[0] for r in rows]


@pytest.mark.parametrize("n_known", [0, 1_000])
def test_stored_chunks_get_the_vectors_of_their_texts_to_the_last_bit(
    tmp_path: Path, n_known: int
) -> None:
    # a vector's last bits depend on its batch, so the batches have to be the same
    stored, texts, names = stored_chunks(tmp_path / "store", 2 * ROWS_AT_ONCE + 500)
    options: dict[str, Any] = {"prompt": "passage: ", "config": Embedding(batch_size=7)}
    for items in ("by list", "in parts") if n_known else ():
        embed(texts[:n_known], tmp_path / items, **options)

    listed, by_list = embed(texts, tmp_path / "by list", names=names, **options)
    parts, in_parts = embed(stored, tmp_path / "in parts", **options)

    assert in_parts.batches == by_list.batches
    assert set(in_parts.encoded) == set(texts) - set(texts[:n_known])
    assert parts.vectors.tobytes() == listed.vectors.tobytes()
    assert parts.figures | {"seconds_encode": 0} == listed.figures | {"seconds_encode": 0}


def test_stored_chunks_without_a_direction_are_named(tmp_path: Path) -> None:
    stored, _, names = stored_chunks(tmp_path / "store", ROWS_AT_ONCE + 1)
    with pytest.raises(StageError, match="zero vectors of") as caught:
        embed(stored, tmp_path / "items", load=lambda *_, **__: ZeroEncoder())
    assert any(f"{name}," in str(caught.value) for name in names)


def test_a_text_that_comes_twice_is_encoded_once(tmp_path: Path) -> None:
    embedded, encoder = embed(["a", "b", "a", "a"], tmp_path)
    assert sorted(encoder.encoded) == ["a", "b"]
    assert np.array_equal(embedded.vectors[0], embedded.vectors[3])
    assert embedded.figures["n_texts"] == 4
    assert embedded.figures["n_unique"] == 2
    assert embedded.figures["n_encoded"] == 2


def test_a_rerun_gives_the_same_bytes_and_does_not_open_the_model(tmp_path: Path) -> None:
    texts = [f"{'ab ' * i}c" for i in range(20)]
    first, _ = embed(texts, tmp_path)

    again, _ = embed(texts[::-1], tmp_path, load=lambda *_, **__: pytest.fail("it was opened"))

    assert again.vectors[::-1].tobytes() == first.vectors.tobytes()
    assert again.figures["n_encoded"] == 0
    assert again.figures["n_reused"] == 20
    assert again.figures["seconds_encode"] == 0


def test_an_incremental_run_keeps_the_first_bytes_where_a_fresh_one_differs(
    tmp_path: Path,
) -> None:
    # "a" alone makes a batch of one; with others around it its last bits would be different
    alone, _ = embed(["a"], tmp_path / "incremental")
    grown, encoder = embed(["a", "b", "c"], tmp_path / "incremental")
    fresh, _ = embed(["a", "b", "c"], tmp_path / "fresh")

    assert sorted(encoder.encoded) == ["b", "c"]
    assert grown.vectors[0].tobytes() == alone.vectors[0].tobytes()
    assert grown.vectors[0].tobytes() != fresh.vectors[0].tobytes()
    np.testing.assert_allclose(grown.vectors, fresh.vectors, rtol=1e-6)


def test_one_edited_text_is_the_only_one_encoded(tmp_path: Path) -> None:
    texts = [f"a {i}" for i in range(50)]
    embed(texts, tmp_path)
    embedded, encoder = embed([*texts[:-1], "a edited"], tmp_path)
    assert encoder.encoded == ["a edited"]
    assert embedded.figures["n_reused"] == 49


def test_what_is_longer_than_the_model_reads_is_counted_also_when_it_is_reused(
    tmp_path: Path,
) -> None:
    texts = ["a b c", "a b c d", "a b c d", "e"]  # the model reads three tokens
    first, _ = embed(texts, tmp_path)
    again, _ = embed(texts, tmp_path)
    assert first.figures["n_truncated"] == again.figures["n_truncated"] == 2


def test_the_prompt_counts_against_the_limit(tmp_path: Path) -> None:
    embedded, _ = embed(["a b c"], tmp_path, prompt="query: ")
    assert embedded.figures["n_truncated"] == 1


def test_a_model_without_a_limit_cuts_nothing(tmp_path: Path) -> None:
    encoder = FakeEncoder(max_tokens=None)
    embedded, _ = embed(["a " * 1_000], tmp_path, load=lambda *_, **__: encoder)
    assert embedded.figures["n_truncated"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "b "},
        {"config": Embedding(batch_size=2, normalize=False)},
        {"config": Embedding(batch_size=2, deterministic=True)},
        {"device": "cuda:0"},
    ],
)
def test_what_may_change_a_vector_is_not_answered_from_the_store(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    embed(["a"], tmp_path)
    embedded, _ = embed(["a"], tmp_path, **change)
    assert embedded.figures["n_encoded"] == 1


@pytest.mark.parametrize("change", [{"config": Embedding(batch_size=7)}, {"threads": 2}])
def test_batch_size_and_threads_do_not_ask_for_new_vectors(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    embed(["a"], tmp_path)
    embedded, _ = embed(["a"], tmp_path, **change)
    assert embedded.figures["n_encoded"] == 0


def test_two_devices_of_a_kind_share_their_vectors() -> None:
    first = embedding_space(MODEL, Embedding(), device="cuda:0")
    assert embedding_space(MODEL, Embedding(), device="cuda:1") == first
    assert embedding_space(MODEL, Embedding(), device="cpu") != first


@pytest.mark.parametrize(("letter", "kind"), [(np.nan, "NaN or infinite"), (0.0, "zero")])
def test_useless_vectors_are_refused_by_name_and_not_stored(
    tmp_path: Path, letter: float, kind: str
) -> None:
    class Broken(FakeEncoder):
        def encode(self, texts: list[str], *, prompt: str) -> np.ndarray:
            vectors = super().encode(texts, prompt=prompt)
            vectors[["d" in text for text in texts]] *= letter
            return vectors

    texts, names = ["a", "d", "b", "d d"], ["doc#0-1", "doc#1-2", "doc#2-3", "doc#3-6"]
    with pytest.raises(StageError, match=rf"{kind} vectors of 2 of 4 .*doc#3-6, doc#1-2"):
        embed(texts, tmp_path, load=lambda *_, **__: Broken(), names=names)

    embedded, _ = embed(texts, tmp_path)
    assert embedded.figures["n_encoded"] == 4


def test_without_names_an_error_shows_the_texts(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="'no such letters: xyz'"):
        embed(["no such letters: xyz"], tmp_path, load=lambda *_, **__: ZeroEncoder())


class ZeroEncoder(FakeEncoder):
    def encode(self, texts: list[str], *, prompt: str) -> np.ndarray:
        return np.zeros((len(texts), 8), dtype=np.float32)


def test_nothing_to_embed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="no texts"):
        embed([], tmp_path)


def test_two_runs_of_a_process_that_need_the_same_texts_encode_them_once(tmp_path: Path) -> None:
    encoders = [SlowEncoder(), SlowEncoder()]

    def run(encoder: SlowEncoder) -> EmbeddedTexts:
        return embed(["a", "b", "c"], tmp_path, load=lambda *_, **__: encoder)[0]

    with ThreadPoolExecutor(2) as pool:
        embedded = list(pool.map(run, encoders))
    assert sorted(encoders[0].encoded + encoders[1].encoded) == ["a", "b", "c"]
    assert sorted(each.figures["n_encoded"] for each in embedded) == [0, 3]
    np.testing.assert_array_equal(embedded[0].vectors, embedded[1].vectors)


def test_two_processes_that_need_the_same_texts_encode_them_once(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.unit.test_embedding import SlowEncoder, embed\n"
        "encoder = SlowEncoder()\n"
        "embed(['a', 'b', 'c'], Path(sys.argv[1]), load=lambda *_, **__: encoder)\n"
        "print(len(encoder.encoded))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    assert sorted(process.communicate(timeout=60)[0] for process in processes) == ["0\n", "3\n"]


@pytest.mark.parametrize("can_be_renamed", [True, False])
def test_texts_of_a_damaged_shard_are_encoded_again_also_where_it_cannot_be_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_be_renamed: bool
) -> None:
    first, _ = embed(["a", "b", "c"], tmp_path)
    embed(["d", "e"], tmp_path)
    (path,) = tmp_path.rglob("00000001-*.vectors")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    if not can_be_renamed:
        monkeypatch.setattr(Path, "rename", refuse)
    embedded, encoder = embed(["a", "b", "c", "d"], tmp_path)
    assert sorted(encoder.encoded) == ["a", "b", "c"]
    assert embedded.figures["n_reused"] == 1
    np.testing.assert_array_equal(embedded.vectors[:3], first.vectors)
    assert path.exists() == (not can_be_renamed)


def test_models_are_kept_only_where_that_was_asked_for(tmp_path: Path) -> None:
    loads: list[str] = []

    def load(*_: Any, **__: Any) -> FakeEncoder:
        loads.append("loaded")
        return FakeEncoder()

    embed(["a"], tmp_path, load=load)
    embed(["b"], tmp_path, load=load)
    assert len(loads) == 2
    with keeping_models():
        embed(["c"], tmp_path, load=load)
        embed(["d"], tmp_path, load=load)
        assert len(loads) == 3
        embed(["e"], tmp_path, load=load, config=Embedding(batch_size=3))
        assert len(loads) == 4
    embed(["f"], tmp_path, load=load)
    assert len(loads) == 5


def test_the_longest_texts_are_encoded_first(tmp_path: Path) -> None:
    _, encoder = embed(["a", "a a a", "a a", "a a a a"], tmp_path)
    assert encoder.encoded == ["a a a a", "a a a", "a a", "a"]


def test_a_run_that_dies_has_stored_what_it_encoded_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(FakeEncoder):
        def encode(self, texts: list[str], *, prompt: str) -> np.ndarray:
            if len(self.batches) == 2:
                raise KeyboardInterrupt
            return super().encode(texts, prompt=prompt)

    monkeypatch.setattr(encoding, "STORE_SECONDS", 0.0)
    texts = [f"a {i}" for i in range(30)]
    with pytest.raises(KeyboardInterrupt):
        embed(texts, tmp_path, load=lambda *_, **__: Dying())

    embedded, _ = embed(texts, tmp_path)
    assert embedded.figures["n_reused"] == 16  # two blocks of 2 x 4 texts


def test_progress_says_how_many_how_fast_and_how_long_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1_000, 5))
    monkeypatch.setattr(encoding.time, "monotonic", lambda: float(next(clock)))
    said: list[str] = []
    embed([f"a {i}" for i in range(30)], tmp_path, say=said.append)
    assert said
    assert all("of 30 texts" in line and " a second, " in line for line in said)
    assert said[0].startswith("embedded 8 of 30 texts, ")
    assert all(line.endswith(" left") for line in said)
