"""Texts into vectors by an OpenAI-compatible embeddings endpoint: batched, retried, stored.

Each text is asked for once: what was answered is stored within seconds, also when a later batch
fails. A batch that the endpoint refuses is halved until it takes it, or one text is left to name.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from schemas.encoders import Embedding
from schemas.endpoints import EmbeddingEndpoint
from schemas.errors import ConfigurationError, StageError
from tasks.encoding import Missing, Say
from tasks.looping import BackgroundLoop, map_concurrently
from tasks.persisting import Persister
from tasks.posting import Poster, detail_of, key_of
from tasks.pricing import MILLION
from tasks.probing import hint_of
from tasks.progress import progress_bar
from tasks.shards import KEY, Flags, Keys, Vectors
from tasks.troubles import Trouble
from tasks.vectors import VectorStore
from tasks.vectors import key_of as vector_key_of

SECTION = "embedding.endpoint"
STORE_SECONDS = 5.0  # the answers that a killed run has to pay again, at most
PROBE = "Are you there?"
NOTHING_PAID: dict[str, float | int | str | None] = {
    "n_calls": 0,
    "tokens": 0,
    "cost": 0.0,
    "currency": None,
}
_TOO_MUCH = (400, 413, 422)


def endpoint_space(config: Embedding, endpoint: EmbeddingEndpoint) -> dict[str, Any]:
    """What must be equal for two vectors of one text to be interchangeable."""
    return {**endpoint.identity, "normalize": config.normalize}


def encode_by_endpoint(
    missing: Missing,
    store: VectorStore,
    config: Embedding,
    *,
    prompt: str,
    say: Say | None,
) -> dict[str, float | int | str | None]:
    """Ask for the vector of each text and store it.

    Args:
        missing: the texts.
        store: of the endpoint's space.
        config: the experiment's section; it has an endpoint.
        prompt: stands before each text.
        say: told how far it is.

    Returns:
        ``n_calls``, ``tokens`` as the endpoint counted them (None: it did not say), and ``cost``
        with its ``currency`` (None: no ``price``, or no tokens).

    Raises:
        StageError: a text could not be embedded; the vectors of others that came are stored.
        StorageError: the store cannot be written.
    """
    assert config.endpoint is not None  # noqa: S101
    work = _Work(config, config.endpoint, missing, store, prompt)
    order = np.argsort([-len(text) for text in missing.texts], kind="stable")  # like sizes together
    size = config.endpoint.batch_size
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    loop = BackgroundLoop()
    try:
        tell = None if say is None else progress_bar(say, "embeddings", len(batches))
        width = 2 * config.endpoint.max_concurrency
        loop.run(map_concurrently(work.embed, batches, width=width, tell=tell))
    except Trouble as trouble:
        raise StageError(
            f"{config.endpoint.shown}: {trouble.message}. What was embedded before is stored; the "
            "next run asks for the rest."
        ) from trouble
    finally:
        loop.run(work.poster.close())
        loop.close()
        work.flush()
    return work.figures()


def check_endpoint(config: Embedding, items: Path) -> None:
    """Refuse an endpoint that cannot work, before anything is spent, by one text at first use.

    Raises:
        ConfigurationError: no key, no such server or model, no embeddings, or another dimension.
    """
    endpoint = config.endpoint
    if endpoint is None:
        return
    key_of(endpoint, SECTION)
    store = VectorStore(items, endpoint_space(config, endpoint))
    keys = np.array([vector_key_of(PROBE, prompt="")], dtype=KEY)
    if store.get_many(keys).found.all():
        return
    quick = config.model_copy(update={"endpoint": endpoint.model_copy(update={"attempts": 2})})
    missing = Missing([PROBE], [repr(PROBE)], keys)
    try:
        encode_by_endpoint(missing, store, quick, prompt="", say=None)
    except StageError as error:
        trouble = error.__cause__
        if not isinstance(trouble, Trouble):
            raise
        if trouble.was_turned_away and trouble.code is not None:
            return  # it is there and busy
        raise ConfigurationError(
            f"{SECTION}: {endpoint.shown}: {trouble.message}; "
            f"{hint_of(trouble, endpoint.key_variable)}"
        ) from None


@dataclass
class _Work:
    """The batches of one stage."""

    config: Embedding
    endpoint: EmbeddingEndpoint
    missing: Missing
    store: VectorStore
    prompt: str
    format: str = "base64"  # a quarter of the bytes; "float" where the endpoint does not know it
    tokens: int = 0
    counts_tokens: bool = True
    waiting: list[tuple[Keys, Vectors]] = field(default_factory=list)
    stored_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.dim = self.store.dim  # 0: not known yet
        self.poster = Poster(self.endpoint, SECTION)
        self.persister = Persister(self.endpoint, deadline=self.endpoint.deadline, section=SECTION)

    async def embed(self, rows: NDArray[np.int64]) -> None:
        """Embed the texts of these rows; a batch that is refused is halved."""
        try:
            vectors = await self.persister.ask(lambda seconds: self._post(rows, seconds))
        except Trouble as trouble:
            if trouble.remedy == "adapt" and self._adapt(trouble):
                await self.embed(rows)
            elif trouble.code in _TOO_MUCH and len(rows) > 1 and not _is_about_dim(trouble):
                for half in np.array_split(rows, 2):
                    await self.embed(half)
            else:
                trouble.message += f", for {self._named(rows)}"
                raise
            return
        self.waiting.append((self.missing.keys[rows], vectors))
        if time.monotonic() - self.stored_at > STORE_SECONDS:
            self.flush()

    async def _post(self, rows: NDArray[np.int64], seconds: float) -> Vectors:
        texts = [self.prompt + self.missing.texts[row] for row in rows]
        asked_as = self.format
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "input": texts,
            "encoding_format": asked_as,
        }
        if self.endpoint.dimensions is not None:
            body["dimensions"] = self.endpoint.dimensions
        reply = await self.poster.post(body, seconds, path="/embeddings")
        self._count(reply)
        vectors = vectors_of(reply, len(texts))
        self._check(vectors, rows)
        if self.config.normalize:
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32)

    def _check(self, vectors: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        wanted = self.endpoint.dimensions or self.dim
        if wanted and vectors.shape[1] != wanted:
            source = (
                f"{SECTION}.dimensions is {wanted}; leave it out if the model does not take it"
                if self.endpoint.dimensions
                else f"those before had {wanted}: it is not the model that it was"
            )
            message = f"its vectors have {vectors.shape[1]} dimensions, and {source}"
            raise Trouble("invalid_reply", message, remedy="none")
        self.dim = vectors.shape[1]
        is_finite: Flags = np.asarray(np.isfinite(vectors).all(axis=1))
        useless = np.flatnonzero(~is_finite | ~vectors.any(axis=1))
        if useless.size:
            kind = "a zero vector" if is_finite[useless[0]] else "a vector with NaN or infinity"
            name = self.missing.names[rows[useless[0]]]
            raise Trouble("invalid_reply", f"it gave {kind} for {name}", remedy="wait")

    def _count(self, reply: Any) -> None:
        usage = reply.get("usage") if isinstance(reply, dict) else None
        tokens = usage.get("prompt_tokens", usage.get("total_tokens")) if usage else None
        if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < 2**53:
            self.tokens += tokens
        else:
            self.counts_tokens = False

    def _adapt(self, trouble: Trouble) -> bool:
        if self.format == "base64" and "encoding_format" in trouble.message:
            self.format = "float"
            return True
        return False

    def _named(self, rows: NDArray[np.int64]) -> str:
        first = self.missing.names[rows[0]]
        characters = len(self.missing.texts[rows[0]])
        if len(rows) == 1:
            return f"{first} ({characters:,} characters)"
        return f"{first} ({characters:,} characters) and {len(rows) - 1} more"

    def flush(self) -> None:
        """Store what has come."""
        if self.waiting:
            keys = np.concatenate([keys for keys, _ in self.waiting])
            vectors = np.concatenate([vectors for _, vectors in self.waiting])
            truncated: Flags = np.zeros(len(keys), dtype=np.bool_)
            self.waiting = []
            self.store.put_many(keys, vectors, truncated)
        self.stored_at = time.monotonic()

    def figures(self) -> dict[str, float | int | str | None]:
        """What it took; see ``encode_by_endpoint``."""
        tokens = self.tokens if self.counts_tokens else None
        price = self.endpoint.price
        has_cost = tokens is not None and price is not None
        return {
            "n_calls": self.persister.n_sent,
            "tokens": tokens,
            "cost": cast(int, tokens) * cast(float, price) / MILLION if has_cost else None,
            "currency": self.endpoint.currency if has_cost else None,
        }


def vectors_of(reply: Any, n_texts: int) -> NDArray[np.float64]:
    """(n, dim) the embeddings of a reply, each at its index, from lists or base64.

    Raises:
        Trouble: it is not what an embeddings endpoint answers.
    """
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list):
        raise _invalid(f"the endpoint's answer holds no embeddings: {detail_of(reply)[:120]}")
    if len(data) != n_texts:
        raise _invalid(f"the answer holds {len(data)} embeddings of {n_texts} texts")
    found: dict[int, NDArray[np.float64]] = {}
    for item in data:
        index = item.get("index") if isinstance(item, dict) else None
        if not isinstance(index, int) or not 0 <= index < n_texts or index in found:
            raise _invalid(
                f"an embedding has the index {index!r}; expected each of 0 to n - 1 once"
            )
        found[index] = _vector(item.get("embedding"))
    lengths = {len(vector) for vector in found.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise _invalid(f"embeddings of one answer have {sorted(lengths)} dimensions")
    return np.stack([found[index] for index in range(n_texts)])


def _vector(value: Any) -> NDArray[np.float64]:
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), "<f4").astype(np.float64)
        vector = np.array(value, dtype=np.float64)
    except (ValueError, TypeError):
        raise _invalid(f"an embedding is no list of numbers: {str(value)[:60]}") from None
    if vector.ndim != 1:
        raise _invalid(f"an embedding is no list of numbers: {str(value)[:60]}")
    return vector


def _invalid(message: str) -> Trouble:
    return Trouble("invalid_reply", message, remedy="wait")


def _is_about_dim(trouble: Trouble) -> bool:
    return "dimension" in trouble.message.lower()
