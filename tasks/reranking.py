"""The first items of each ranking, ordered by what a CrossEncoder makes of query and text.

A pair's first score is stored with the time that it took, and read from then on, so that a rerun
loads no model. Scores are the model's logits: an activation such as a sigmoid keeps their order but
rounds high ones to ties. With ``tasks/embedding.py`` the only module that knows torch and
sentence-transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from schemas.errors import ConfigurationError, StageError
from schemas.frames import LATENCIES, RANKINGS
from schemas.rerankers import Rerank
from tasks.embedding import first_line, torch_threads
from tasks.encoding import LIBRARIES, Say
from tasks.latencies import add_latencies, latency_figures
from tasks.loaded_models import model_in_turn
from tasks.models import ResolvedModel
from tasks.quieting import quiet_libraries
from tasks.ranked_lists import RankedLists
from tasks.rescoring import Floats
from tasks.shards import KEY, Flags, Keys, Vectors
from tasks.vectors import VectorStore, key_of

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

STORE_SECONDS = 15.0  # the work that a killed run has to do again, at most
SAY_SECONDS = 2.0


class PairScorer(Protocol):
    """A loaded model."""

    def scores(self, query: str, texts: list[str]) -> Floats:
        """(n,) how well each text answers the query; higher is better."""

    def are_truncated(self, query: str, texts: list[str]) -> Flags:
        """(n,) whether a pair is longer than the model reads."""


@dataclass(frozen=True, slots=True)
class LoadedCrossEncoder:
    """A sentence-transformers CrossEncoder as a ``PairScorer``."""

    model: CrossEncoder
    batch_size: int
    threads: int | None

    def scores(self, query: str, texts: list[str]) -> Floats:
        """(n,) logits."""
        import torch

        with quiet_libraries(), torch_threads(self.threads):
            logits = self.model.predict(
                [(query, text) for text in texts],
                batch_size=self.batch_size,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
            )
        return np.asarray(logits, dtype=np.float64)

    def are_truncated(self, query: str, texts: list[str]) -> Flags:
        """(n,) whether a pair is longer than the model reads."""
        limit = self.model.max_seq_length
        tokenizer: Any = self.model.tokenizer
        if limit is None or not callable(tokenizer):
            return np.zeros(len(texts), dtype=np.bool_)
        tokens = tokenizer([query] * len(texts), texts, truncation=False, verbose=False)
        return np.array([len(ids) > limit for ids in tokens["input_ids"]], dtype=np.bool_)


def load_reranker(
    model: ResolvedModel, config: Rerank, *, threads: int | None, device: str
) -> LoadedCrossEncoder:
    """Load a CrossEncoder from its folder, in float32.

    Raises:
        ConfigurationError: it cannot be loaded, or gives more than one score a pair.
    """
    with quiet_libraries():
        from sentence_transformers import CrossEncoder
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            loaded = CrossEncoder(
                str(model.folder),
                device=device,
                local_files_only=True,
                max_length=config.max_length,
            )
        except Exception as error:  # each kind of model has its own ways to fail
            raise ConfigurationError(
                f"retrieval.rerank.model: {model.name} cannot be loaded from {model.folder} on "
                f"{device} ({type(error).__name__}: {first_line(error)})"
            ) from error
        loaded.float()
    if loaded.num_labels != 1:
        raise ConfigurationError(
            f"retrieval.rerank.model: {model.name} gives {loaded.num_labels} scores a pair; "
            "expected one. A model that classifies pairs is no reranker."
        )
    return LoadedCrossEncoder(loaded, config.batch_size, threads)


def rerank(
    rankings: pl.DataFrame,
    latencies: pl.DataFrame,
    text_of_chunk: Mapping[str, str],
    text_of_query: Mapping[str, str],
    model: ResolvedModel,
    config: Rerank,
    *,
    items: Path,
    threads: int | None,
    device: str,
    say: Say | None = None,
    load: Callable[..., PairScorer] = load_reranker,
) -> RankedLists:
    """Order the first ``config.depth`` items of each query by their scores, then by id.

    The items below them keep their order, and as their ``retrieval_score`` the query's lowest score
    minus 1, 2, 3, …: an order, no measure of anything.

    Args:
        rankings: RANKINGS; of a document its best chunk is read.
        latencies: LATENCIES of what made them.
        text_of_chunk: what stands for each chunk, title included.
        text_of_query: by id, in the benchmark's order.
        model: its files.
        config: the experiment's section.
        items: the folder of the item store of scores.
        threads: of torch; None: as many as it likes.
        device: as torch names it.
        say: told how far it is.
        load: opens the model; called only when a pair has to be scored.

    Returns:
        Rankings, and latencies of the whole path: a pair's share of the time is stored with its
        score. Figures: ``n_pairs`` (different ones), of these ``n_scored`` and ``n_reused``, and
        ``n_truncated`` (longer than the model reads).

    Raises:
        StageError: the model gave NaN or infinite scores; these are not stored.
        ConfigurationError: see ``load_reranker``.
        StorageError: the item store cannot be read or written.
    """
    head = rankings.filter(pl.col("rank") <= config.depth)
    pairs = [
        (text_of_query[query_id], text_of_chunk[chunk_id])
        for query_id, chunk_id in head.select("query_id", "chunk_id").iter_rows()
    ]
    keys = np.array([key_of(text, prompt=query) for query, text in pairs], dtype=KEY)
    unique, first, places = np.unique(keys, return_index=True, return_inverse=True)
    store = VectorStore(items, _space(model, config, device=device))
    stored = store.get_many(unique)
    new = np.flatnonzero(~stored.found)
    if new.size:
        settings = (config.batch_size, config.max_length, threads)
        with store.encoding():
            # What another run or process scored while this one waited is not scored again.
            new = np.flatnonzero(~store.get_many(unique).found)
            new = new[np.argsort(first[new], kind="stable")]  # query by query, as they are ranked
            with model_in_turn(
                (model.digest, device, "pairs", *settings),
                lambda: load(model, config, threads=threads, device=device),
            ) as scorer:
                _score([pairs[i] for i in first[new]], unique[new], scorer, store, model.name, say)
        stored = store.get_many(unique)
    of_head = stored.vectors[places] if len(pairs) else np.zeros((0, 2), dtype=np.float32)
    order = list(text_of_query)
    reranked = _reordered(rankings, head, of_head[:, 0].astype(np.float64), order)
    spent = head.select("query_id", milliseconds=pl.Series(of_head[:, 1], dtype=pl.Float64))
    own = pl.DataFrame({"query_id": order}, {"query_id": pl.String}).join(
        spent.group_by("query_id").agg(pl.col("milliseconds").sum()),
        on="query_id",
        how="left",
        maintain_order="left",
    )
    whole = add_latencies([latencies, own.fill_null(0.0).cast(LATENCIES)])
    figures = {
        "n_queries": len(order),
        "n_results": reranked.height,
        "n_pairs": len(unique),
        "n_scored": int(new.size),
        "n_reused": len(unique) - int(new.size),
        "n_truncated": int(stored.truncated.sum()),
        **latency_figures(whole["milliseconds"]),
    }
    return RankedLists(reranked, whole, figures)


def _space(model: ResolvedModel, config: Rerank, *, device: str) -> dict[str, Any]:
    """What must be equal for two scores of one pair to be interchangeable."""
    return {
        "reranker": model.digest,
        "max_length": config.max_length,
        "device": device.partition(":")[0],
        "dtype": "float32",
        "versions": {name: version(name) for name in LIBRARIES},
    }


def _score(
    pairs: list[tuple[str, str]],
    keys: Keys,
    scorer: PairScorer,
    store: VectorStore,
    name: str,
    say: Say | None,
) -> None:
    """Score and store pairs, the texts of one query at a time."""
    if not pairs:
        return
    starts = [0, *(i for i in range(1, len(pairs)) if pairs[i][0] != pairs[i - 1][0]), len(pairs)]
    scorer.scores(*_one(pairs[0]))  # the first is slow
    waiting: list[tuple[Keys, Vectors, Flags]] = []
    stored_at = said_at = monotonic()
    for start, end in pairwise(starts):
        query, texts = pairs[start][0], [text for _, text in pairs[start:end]]
        started = perf_counter()
        scores = scorer.scores(query, texts)
        share = 1000 * (perf_counter() - started) / len(texts)  # milliseconds a pair
        useless = np.flatnonzero(~np.isfinite(scores))
        if scores.shape != (len(texts),) or useless.size:
            raise StageError(
                f"the reranker {name} gave {useless.size} NaN or infinite scores among "
                f"{len(texts)} for the query {query[:80]!r}, such as for the text "
                f"{texts[useless[0] if useless.size else 0][:80]!r}. Expected a finite score a "
                "pair. These were not stored: choose another model."
            )
        vectors = np.column_stack([scores, np.full(len(texts), share)]).astype(np.float32)
        waiting.append((keys[start:end], vectors, scorer.are_truncated(query, texts)))
        if end == len(pairs) or monotonic() - stored_at > STORE_SECONDS:
            store.put_many(*(np.concatenate(arrays) for arrays in zip(*waiting, strict=True)))
            waiting, stored_at = [], monotonic()
        if say is not None and monotonic() - said_at > SAY_SECONDS:
            say(f"reranked {end:,} of {len(pairs):,} pairs")
            said_at = monotonic()


def _one(pair: tuple[str, str]) -> tuple[str, list[str]]:
    return pair[0], [pair[1]]


def _reordered(
    rankings: pl.DataFrame, head: pl.DataFrame, scores: Floats, order: list[str]
) -> pl.DataFrame:
    places = pl.DataFrame({"query_id": order}, {"query_id": pl.String}).with_row_index("query")
    scored = head.with_columns(retrieval_score=pl.Series(scores, dtype=pl.Float64) + 0.0)
    lowest = scored.group_by("query_id").agg(lowest=pl.col("retrieval_score").min())
    tail = (
        rankings.join(head.select("query_id", "rank"), on=["query_id", "rank"], how="anti")
        .sort("query_id", "rank")
        .join(lowest, on="query_id", maintain_order="left")
        .with_columns(
            retrieval_score=pl.col("lowest")
            - pl.int_range(1, pl.len() + 1).over("query_id") * _step(pl.col("lowest"))
        )
        .drop("lowest")
    )
    return (
        pl.concat([scored, tail])
        .join(places, on="query_id")
        .sort("query", "retrieval_score", "item_id", descending=[False, True, True])
        .with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query"))
        .select(RANKINGS.names())
    )


def _step(lowest: pl.Expr) -> pl.Expr:
    """1, or more where a score is so large that 1 less would be the same number."""
    return pl.max_horizontal(pl.lit(1.0), lowest.abs() * 2.0**-50)
