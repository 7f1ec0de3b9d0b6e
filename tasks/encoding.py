"""The texts that no store knows yet, encoded in good order and stored as they come."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.encoders import Embedding
from schemas.errors import StageError
from tasks.models import ResolvedModel
from tasks.shards import Flags, Keys, Vectors
from tasks.vectors import VectorStore

BLOCK_BATCHES = 4  # batches between two looks at the clock
STORE_SECONDS = 15.0  # the work that a killed run has to do again, at most
STORE_ROWS = 16_384  # vectors that wait, at most: memory
SAY_SECONDS = 2.0
EXAMPLES = 5

LIBRARIES = ("sentence-transformers", "tokenizers", "torch", "transformers")
DTYPE = "float32"

Say = Callable[[str], None]


class Encoder(Protocol):
    """A loaded model."""

    @property
    def max_tokens(self) -> int | None:
        """Longer texts are cut, special tokens counted; None: never."""

    def count_tokens(self, texts: list[str], *, prompt: str) -> NDArray[np.int64]:
        """(n,) tokens of each text with its prompt and special tokens, before anything is cut."""

    def encode(self, texts: list[str], *, prompt: str) -> Vectors:
        """(n, dim) the vector of each text."""


def embedding_space(model: ResolvedModel, config: Embedding, *, device: str) -> dict[str, Any]:
    """What must be equal for two vectors of one text to be interchangeable.

    Batch size and threads are not part of it: they move last bits, and the first vector holds.
    """
    return {
        "model": model.digest,
        "normalize": config.normalize,
        "deterministic": config.deterministic,
        "device": device.partition(":")[0],
        "dtype": DTYPE,
        "versions": {name: version(name) for name in LIBRARIES},
    }


@dataclass(frozen=True, slots=True)
class Missing:
    """Different texts that have to be encoded, with the names that errors give them."""

    texts: list[str]
    names: list[str]
    keys: Keys  # (n,)

    def only(self, chosen: Flags) -> Missing:
        """Those of them that are (n,) chosen."""
        rows = np.flatnonzero(chosen).tolist()
        texts, names = ([of_all[row] for row in rows] for of_all in (self.texts, self.names))
        return Missing(texts, names, self.keys[rows])


def encode_missing(
    missing: Missing,
    encoder: Encoder,
    store: VectorStore,
    *,
    prompt: str,
    batch_size: int,
    say: Say | None,
) -> None:
    """Encode and store, the longest first: batches of like lengths, no memory surprise late.

    Raises:
        StageError: NaN or zero vectors; they are not stored, earlier ones may be.
        StorageError: the store cannot be written.
    """
    counts = encoder.count_tokens(missing.texts, prompt=prompt)
    limit = encoder.max_tokens or np.inf
    truncated: Flags = np.asarray(counts > limit)
    order = np.argsort(-counts, kind="stable")
    work = np.minimum(counts, limit)[order].cumsum(dtype=np.float64)
    progress = _Progress(len(order), float(work[-1]), say)
    waiting: list[tuple[Keys, Vectors, Flags]] = []
    stored_at = time.monotonic()
    block = batch_size * BLOCK_BATCHES
    for start in range(0, len(order), block):
        rows = order[start : start + block]
        end = start + len(rows)
        vectors = encoder.encode([missing.texts[row] for row in rows], prompt=prompt)
        _refuse_useless(vectors, [missing.names[row] for row in rows])
        waiting.append((missing.keys[rows], vectors, truncated[rows]))
        is_full = sum(len(keys) for keys, _, _ in waiting) >= STORE_ROWS
        if is_full or end == len(order) or time.monotonic() - stored_at > STORE_SECONDS:
            store.put_many(*(np.concatenate(arrays) for arrays in zip(*waiting, strict=True)))
            waiting, stored_at = [], time.monotonic()
        progress.advance(end, float(work[end - 1]))


def _refuse_useless(vectors: Vectors, names: list[str]) -> None:
    is_finite: Flags = np.asarray(np.isfinite(vectors).all(axis=1))
    useless = np.flatnonzero(~is_finite | ~vectors.any(axis=1))
    if useless.size:
        kind = "zero" if is_finite[useless].all() else "NaN or infinite"
        examples = ", ".join(names[row] for row in useless[:EXAMPLES])
        more = f" and {useless.size - EXAMPLES} more" if useless.size > EXAMPLES else ""
        raise StageError(
            f"the model made {kind} vectors of {useless.size} of {len(names)} texts: {examples}"
            f"{more}. Expected finite vectors with a direction. These were not stored: look at "
            "the texts, or choose another model."
        )


@dataclass(slots=True)
class _Progress:
    """Says how many texts are done, how fast, and how long the rest takes by its tokens."""

    n_texts: int
    work: float  # tokens
    say: Say | None
    started: float = field(default_factory=lambda: time.monotonic())
    said: float = field(default_factory=lambda: time.monotonic())

    def advance(self, n_done: int, work_done: float) -> None:
        now = time.monotonic()
        if self.say is None or now - self.said < SAY_SECONDS or n_done == self.n_texts:
            return
        self.said = now
        seconds = now - self.started
        left = round(seconds * (self.work - work_done) / max(work_done, 1.0))
        self.say(
            f"embedded {n_done:,} of {self.n_texts:,} texts, {n_done / seconds:,.0f} a second, "
            f"{left // 60}:{left % 60:02} left"
        )
