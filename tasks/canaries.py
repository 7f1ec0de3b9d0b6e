"""Canary texts: embedded anew each night, so that a model that changed under its name is seen.

An item store gives a text's first vector for ever, also when the endpoint behind it serves another
model by now; these texts are never looked up in it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from schemas.encoders import Embedding
from schemas.experiment import digest_of
from tasks.models import ResolvedModel
from tasks.shards import Vectors

if TYPE_CHECKING:
    from tasks.embedding import EmbeddedTexts

CANARIES = (
    "The ferry to Bergen leaves at seven every morning, except on Sundays.",
    "def mean(values): return sum(values) / len(values)",
    "Le contrat prend fin le 31 décembre, sauf avis contraire du locataire.",
    "Der Antrag ist spätestens drei Wochen vor Beginn der Reise zu stellen.",
    "请在每次使用之后用清水冲洗过滤器。",
    "الاجتماع القادم يوم الثلاثاء في القاعة الكبيرة.",
)
"""Never edit one: vectors of other texts cannot be compared."""
CANARIES_DIGEST = digest_of(list(CANARIES))


def embed_canaries(
    model: ResolvedModel, config: Embedding, *, threads: int | None, device: str
) -> EmbeddedTexts:
    """(n, dim) the vectors of ``CANARIES``, as documents, in a store of their own that is dropped.

    Raises:
        StageError: they could not be embedded.
        ConfigurationError: the device cannot be used, or the model cannot be loaded.
    """
    from tasks.embedding import embed_texts
    from tasks.texts import GivenTexts

    with TemporaryDirectory(prefix="rankhouse-canaries-") as folder:
        return embed_texts(
            GivenTexts(CANARIES),
            model,
            config,
            prompt=config.document_prompt,
            items=Path(folder),
            threads=threads,
            device=device,
        )


def cosine_distances(ours: Vectors, theirs: Vectors) -> Vectors | None:
    """(n,) one minus the cosine of each text's two vectors; None: their shapes differ."""
    if ours.shape != theirs.shape:
        return None
    both = [np.asarray(vectors, dtype=np.float64) for vectors in (ours, theirs)]
    units = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in both]
    return np.asarray(1.0 - np.einsum("ij,ij->i", *units), dtype=np.float64)
