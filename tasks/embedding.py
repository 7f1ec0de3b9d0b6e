"""Texts into vectors: what was encoded once is read from the item store, the rest is encoded.

With ``tasks/reranking.py`` the only module that knows torch and sentence-transformers, and it
imports them only when a text has to be encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schemas.encoders import Embedding
from schemas.errors import ConfigurationError, StageError
from tasks.encoding import Encoder, Missing, Say, embedding_space, encode_missing
from tasks.endpoint_embedding import NOTHING_PAID, encode_by_endpoint, endpoint_space
from tasks.loaded_models import model_in_turn
from tasks.memory import give_back
from tasks.models import ResolvedModel
from tasks.quieting import quiet_libraries
from tasks.shards import KEY, Keys, Vectors
from tasks.static_encoding import load_static_encoder
from tasks.texts import Texts
from tasks.vectors import VectorStore, is_among, key_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CPU = "cpu"
UNLIMITED = 10**9  # tokenizers without a limit carry numbers like 1e30
TOKENIZED_AT_ONCE = 1_000

Paid = Mapping[str, float | int | str | None]  # figures of an endpoint's calls


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """The vectors of some texts, in their order."""

    vectors: Vectors  # (n, dim), C-contiguous
    figures: dict[str, float | int | str | None]


@dataclass(frozen=True, slots=True)
class SentenceEncoder:
    """A sentence-transformers model as an ``Encoder``."""

    model: SentenceTransformer
    batch_size: int
    normalize: bool
    threads: int | None

    @property
    def max_tokens(self) -> int | None:
        """Longer texts are cut, special tokens counted; None: never."""
        limit = self.model.max_seq_length
        return None if limit is None or limit >= UNLIMITED else int(limit)

    def count_tokens(self, texts: list[str], *, prompt: str) -> NDArray[np.int64]:
        """(n,) tokens before anything is cut; characters where the model never cuts."""
        tokenizer: Any = self.model.tokenizer
        if self.max_tokens is None or not callable(tokenizer):
            return np.array([len(prompt) + len(text) for text in texts], dtype=np.int64)
        counts: list[int] = []
        for start in range(0, len(texts), TOKENIZED_AT_ONCE):
            tokens = tokenizer(
                [prompt + text for text in texts[start : start + TOKENIZED_AT_ONCE]],
                truncation=False,
                padding=False,
                return_attention_mask=False,
                verbose=False,
            )
            counts.extend(len(ids) for ids in tokens["input_ids"])
        return np.array(counts, dtype=np.int64)

    def encode(self, texts: list[str], *, prompt: str) -> Vectors:
        """(n, dim) the vector of each text."""
        with quiet_libraries(), torch_threads(self.threads):
            vectors = self.model.encode(
                texts,
                prompt=prompt,  # even when empty: else a prompt of the model's own is used
                batch_size=self.batch_size,
                normalize_embeddings=self.normalize,
                show_progress_bar=False,
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)


def load_encoder(
    model: ResolvedModel, config: Embedding, *, threads: int | None, device: str
) -> Encoder:
    """Load a model from its folder, in float32 whatever its weights are stored in.

    On a CPU a table of static vectors is read without torch; its bits depend on the text alone.
    With ``deterministic`` one text makes a batch and torch gets one thread, so that nothing but the
    text decides the bits of its vector.

    Raises:
        ConfigurationError: the device cannot be used, or the model cannot be loaded.
    """
    if device == CPU and model.folder is not None:
        static = load_static_encoder(model.folder, normalize=config.normalize)
        if static is not None:
            return static
    with quiet_libraries():
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise ConfigurationError(
                f"execution.device is {device!r}, which torch {torch.__version__} cannot use here "
                f"({first_line(error)}). 'cpu' always works."
            ) from None
        try:
            loaded = SentenceTransformer(str(model.folder), device=device, local_files_only=True)
        except Exception as error:  # each kind of model has its own ways to fail
            raise ConfigurationError(
                f"embedding.model: {model.name} cannot be loaded from {model.folder} "
                f"({type(error).__name__}: {first_line(error)})"
            ) from error
        loaded.float()
    return SentenceEncoder(
        model=loaded,
        batch_size=1 if config.deterministic else config.batch_size,
        normalize=config.normalize,
        threads=1 if config.deterministic else threads,
    )


def embed_texts(
    texts: Texts,
    model: ResolvedModel,
    config: Embedding,
    *,
    prompt: str,
    items: Path,
    threads: int | None,
    device: str,
    say: Say | None = None,
    load: Callable[..., Encoder] = load_encoder,
) -> EmbeddedTexts:
    """Embed each text with ``prompt`` before it, each different text once.

    Args:
        texts: what the model reads, without the prompt; those that have no vector stay in memory.
        model: its files; see ``resolve_model``.
        config: the experiment's section.
        prompt: ``config.query_prompt`` or ``config.document_prompt``.
        items: the folder of the item store of embeddings.
        threads: of torch; None: as many as it likes.
        device: as torch names it, such as ``cpu`` or ``cuda:0``.
        say: told how far it is, every two seconds at most.
        load: opens the model; called only when a text has to be encoded.

    Returns:
        Vectors in the order of the texts, and as figures ``n_texts``, ``n_unique``, of these
        ``n_encoded`` and ``n_reused``, then ``n_truncated`` (texts longer than the model reads),
        ``dim`` and ``seconds_encode`` (with loading; 0 when nothing was encoded). With an
        endpoint also ``n_calls``, ``tokens``, ``cost`` and ``currency``.

    Raises:
        StageError: no texts, or the model made NaN or zero vectors; these are not stored.
        ConfigurationError: the device cannot be used, or the model cannot be loaded.
        StorageError: the item store cannot be read or written.
    """
    if not len(texts):
        raise StageError("there is nothing to embed: no texts came in")
    store = VectorStore(items, _space(model, config, device=device))
    keys, new = _look_up(texts, store, prompt=prompt)
    unique = np.unique(keys)
    while np.count_nonzero(~store.has_many(unique)) > len(new.texts):  # a shard was damaged
        keys, new = _look_up(texts, store, prompt=prompt)
    n_encoded, n_unique = 0, len(unique)
    del unique
    seconds = 0.0
    paid: Paid = {} if config.endpoint is None else NOTHING_PAID

    def encode(missing: Missing) -> Paid:
        if config.endpoint is not None:
            return encode_by_endpoint(missing, store, config, prompt=prompt, say=say)
        settings = (config.batch_size, config.normalize, config.deterministic, threads)
        with model_in_turn(
            (model.digest, device, *settings),
            lambda: load(model, config, threads=threads, device=device),
        ) as encoder:
            encode_missing(
                missing, encoder, store, prompt=prompt, batch_size=config.batch_size, say=say
            )
        return {}

    if new.texts:
        started = monotonic()
        with store.encoding():
            # What another run or process encoded while this one waited is not encoded again.
            new = new.only(~store.has_many(new.keys))
            n_encoded = len(new.texts)
            if n_encoded:
                paid = encode(new)
        del new
        seconds = monotonic() - started
        give_back()  # the model, before as many vectors as there are texts come in
    stored = store.get_many(keys)  # another writer may have been first, and then holds
    if not stored.found.all():
        raise StageError(f"{store.folder}: vectors that were just stored are gone. Run it again.")
    figures = {
        "n_texts": len(texts),
        "n_unique": n_unique,
        "n_encoded": n_encoded,
        "n_reused": n_unique - n_encoded,
        "n_truncated": int(stored.truncated.sum()),
        "dim": stored.vectors.shape[1],
        "seconds_encode": round(seconds, 3),
        **paid,
    }
    return EmbeddedTexts(stored.vectors, figures)


def _look_up(texts: Texts, store: VectorStore, *, prompt: str) -> tuple[Keys, Missing]:
    """The (n,) key of each text, and each different text that has no vector, by key."""
    keys, start = np.empty(len(texts), dtype=KEY), 0
    known = store.keys()
    new: dict[bytes, tuple[str, str]] = {}
    for part, names in texts.parts():
        of_part = keys[start : start + len(part)]
        of_part[:] = [key_of(text, prompt=prompt) for text in part]
        for row in np.flatnonzero(~is_among(of_part, known)).tolist():
            name = repr(part[row][:80]) if names is None else names[row]
            new.setdefault(of_part[row], (part[row], name))
        start += len(part)
    ascending = sorted(new)
    return keys, Missing(
        texts=[new[key][0] for key in ascending],
        names=[new[key][1] for key in ascending],
        keys=np.array(ascending, dtype=KEY),
    )


def find_missing(
    texts: Sequence[str],
    model: ResolvedModel,
    config: Embedding,
    *,
    prompt: str,
    items: Path,
    device: str,
) -> dict[tuple[Path, bytes], str]:
    """The texts that have no vector yet, by their place in the item store; see ``embed_texts``."""
    by_key = {key_of(text, prompt=prompt): text for text in texts}
    store = VectorStore(items, _space(model, config, device=device))
    keys = np.array(sorted(by_key), dtype=KEY)
    found = store.get_many(keys).found
    return {
        (store.folder, key): by_key[key]
        for key, is_found in zip(sorted(by_key), found, strict=True)
        if not is_found
    }


def _space(model: ResolvedModel, config: Embedding, *, device: str) -> dict[str, Any]:
    if config.endpoint is not None:
        return endpoint_space(config, config.endpoint)
    return embedding_space(model, config, device=device)


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Give torch a number of threads for a while; None: as many as it likes."""
    import torch

    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if threads is not None:
            torch.set_num_threads(before)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its class."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
