"""Static vectors: worked by hand, and which models are left to sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tasks.static_encoding import load_static_encoder

TABLE = np.array([[0, 0], [3, 4], [1, 0], [5, 8]], dtype=np.float16)
STATIC = {"path": "", "type": "sentence_transformers.models.StaticEmbedding"}


def write_model(
    folder: Path,
    *,
    modules: list[dict[str, str]] | None = None,
    settings: dict[str, Any] | None = None,
    table: dict[str, np.ndarray] | None = None,
) -> Path:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "a": 1, "b": 2, "c": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(table or {"embedding.weight": TABLE}, folder / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(modules or [STATIC]), "utf-8")
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings or {}), "utf-8")
    return folder


def test_a_vector_is_the_mean_of_its_tokens_rows(tmp_path: Path) -> None:
    encoder = load_static_encoder(write_model(tmp_path), normalize=False)
    assert encoder is not None
    assert encoder.max_tokens is None
    # a c: ([3, 4] + [5, 8]) / 2; the prompt "b " adds [1, 0]
    assert encoder.encode(["a c", ""], prompt="").tolist() == [[4, 6], [0, 0]]
    assert encoder.encode(["a c"], prompt="b ").tolist() == [[3, 4]]


def test_normalised_vectors_have_the_length_one_unless_they_are_zero(tmp_path: Path) -> None:
    encoder = load_static_encoder(write_model(tmp_path), normalize=True)
    assert encoder is not None
    np.testing.assert_allclose(encoder.encode(["a", ""], prompt=""), [[0.6, 0.8], [0, 0]])


@pytest.mark.parametrize(
    "other",
    [
        {"modules": [{"path": "", "type": "sentence_transformers.models.Transformer"}]},
        {"modules": [STATIC, {"path": "1", "type": "sentence_transformers.models.Normalize"}]},
        {"settings": {"truncate_dim": 1}},
        {"table": {"embeddings": TABLE}},
        {"table": {"embedding.weight": TABLE, "weights": TABLE[:, 0].copy()}},
        {"table": {"embedding.weight": TABLE.astype(np.float64)}},
    ],
)
def test_any_other_model_is_left_to_sentence_transformers(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    assert load_static_encoder(write_model(tmp_path, **other), normalize=True) is None


@pytest.mark.parametrize("name", ["modules.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_are_left_to_sentence_transformers(tmp_path: Path, name: str) -> None:
    write_model(tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    assert load_static_encoder(tmp_path, normalize=True) is None
    (tmp_path / name).unlink()
    assert load_static_encoder(tmp_path, normalize=True) is None
