"""Static embeddings without torch: a text's vector is the mean of its tokens' rows in a table.

What sentence-transformers' ``StaticEmbedding`` works out, to the bit before it is normalised and
within 1e-7 after: the import of torch and sentence-transformers (six seconds of CPU) is more than
such a model takes for 40,000 texts.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.shards import Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer

KIND = "StaticEmbedding"
TABLE = "embedding.weight"
TYPES = ("F16", "F32")  # what NumPy reads


@dataclass(frozen=True, slots=True)
class StaticEncoder:
    """A table of static vectors with its tokenizer, as an ``Encoder``."""

    tokenizer: Tokenizer
    table: Vectors  # (n_tokens, dim)
    normalize: bool

    @property
    def max_tokens(self) -> int | None:
        """No text is cut."""
        return None

    def count_tokens(self, texts: list[str], *, prompt: str) -> NDArray[np.int64]:
        """(n,) characters, since the model never cuts."""
        return np.array([len(prompt) + len(text) for text in texts], dtype=np.int64)

    def encode(self, texts: list[str], *, prompt: str) -> Vectors:
        """(n, dim) the vector of each text, whatever the other texts are; no token: zeros."""
        vectors = np.zeros((len(texts), self.table.shape[1]), dtype=np.float32)
        tokenized = self.tokenizer.encode_batch_fast(
            [prompt + text for text in texts], add_special_tokens=False
        )
        for row, tokens in enumerate(tokenized):
            ids = tokens.ids
            if ids:
                # One row after the other, as torch's EmbeddingBag adds them.
                np.add.reduce(self.table[ids], axis=0, out=vectors[row])
                vectors[row] /= np.float32(len(ids))
        if self.normalize:
            lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1))
            vectors /= np.where(lengths > 0, lengths, 1)[:, None]
        return vectors


def load_static_encoder(folder: Path, *, normalize: bool) -> StaticEncoder | None:
    """Load a model that is one static table and nothing else.

    None: it is another model, or its files are not as expected here. Then sentence-transformers,
    which knows more kinds of tables, loads it or says what is wrong.
    """
    from safetensors import SafetensorError, safe_open

    with suppress(OSError, ValueError, KeyError, TypeError, SafetensorError):
        (module,) = json.loads((folder / "modules.json").read_text("utf-8"))
        here = folder / str(module["path"])
        if str(module["type"]).rpartition(".")[2] != KIND or not _has_plain_settings(folder):
            return None
        if not (here / "tokenizer.json").is_file():
            return None
        with safe_open(here / "model.safetensors", framework="numpy") as file:
            if list(file.keys()) != [TABLE] or file.get_slice(TABLE).get_dtype() not in TYPES:
                return None
            table = np.ascontiguousarray(file.get_tensor(TABLE), dtype=np.float32)
        tokenizer = _read_tokenizer(here / "tokenizer.json")
        return None if tokenizer is None else StaticEncoder(tokenizer, table, normalize)
    return None


def _has_plain_settings(folder: Path) -> bool:
    """Whether nothing is done to the vectors afterwards."""
    path = folder / "config_sentence_transformers.json"
    return not path.is_file() or json.loads(path.read_text("utf-8")).get("truncate_dim") is None


def _read_tokenizer(path: Path) -> Tokenizer | None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception:  # the library raises Exception itself; see above who says what is wrong
        return None
    tokenizer.no_padding()
    return tokenizer
