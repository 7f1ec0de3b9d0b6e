"""The stages between chunks and rankings, by ``retrieval.method``; each returns its rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flows.elsewhere_stages import retrieve_elsewhere
from schemas.artifacts import Artifact
from schemas.errors import StageError
from tasks import stages
from tasks.caching import StageRun
from tasks.factories import check_enough

if TYPE_CHECKING:
    from flows.pipeline import Pipeline
    from schemas.rerankers import Rerank
    from tasks.models import ResolvedModel

RETRIEVING = ("retrieve", "retrieve_terms", "fuse", "rerank", "retrieve_elsewhere")
"""The stages that make rankings; the last of a run that has any makes those that are scored."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What there is to retrieve from, and for."""

    documents: Artifact
    chunks: Artifact
    queries: Artifact
    filtered: Artifact | None = None  # the documents, where a query has a filter


def retrieve(pipeline: Pipeline, searched: Searched) -> Artifact:
    """Run the retrieving stages of the experiment's method.

    Returns:
        The rankings that are labelled and scored.
    """
    if pipeline.runs["load_benchmark"].output.figures["n_filtered"]:
        if pipeline.has(searched.documents, searched.queries):
            _check_filters(pipeline, searched)
        searched = replace(searched, filtered=searched.documents)
    retrieval = pipeline.experiment.retrieval
    method = METHODS[retrieval.method] if retrieval.elsewhere is None else retrieve_elsewhere
    retrieved = method(pipeline, searched)
    if retrieval.rerank is not None:
        retrieved = _rerank(pipeline, searched, retrieved, retrieval.rerank)
    return retrieved["rankings"]


def last_retrieving(runs: Mapping[str, StageRun]) -> StageRun:
    """The stage of a run that made its rankings."""
    return [run for run in runs.values() if run.stage in RETRIEVING][-1]


def _retrieve_dense(
    pipeline: Pipeline, searched: Searched, depth: int | None = None
) -> dict[str, Artifact]:
    """Embed chunks and queries, index the chunks' vectors and search them."""
    experiment, model = pipeline.experiment, _model(pipeline)
    if pipeline.has(searched.chunks):
        n_chunks = searched.chunks.n_items
        check_enough(experiment.index, None, n_chunks, n_chunks)  # before anything is embedded
    common = {"embedding": experiment.embedding, "model": model}
    vectors = pipeline.run_stage(
        stages.embed_chunks,
        chunks=searched.chunks,
        settings=_encoder_settings(pipeline, experiment.embedding.document_prompt),
        **common,
    )["vectors"]
    query_vectors = pipeline.run_stage(
        stages.embed_queries,
        queries=searched.queries,
        settings=_encoder_settings(pipeline, experiment.embedding.query_prompt),
        **common,
    )["vectors"]
    index = pipeline.run_stage(
        stages.build_index, vectors=vectors, index=experiment.index.for_building()
    )["index"]
    return pipeline.run_stage(
        stages.retrieve,
        index_file=index,
        vectors=vectors,
        query_vectors=query_vectors,
        chunks=searched.chunks,
        queries=searched.queries,
        documents=searched.filtered,
        index=experiment.index.for_searching(),
        retrieval=experiment.retrieval.of_list(depth),
        ranks_documents=experiment.labelling.method == "document",
    )


def _retrieve_terms(
    pipeline: Pipeline, searched: Searched, depth: int | None = None
) -> dict[str, Artifact]:
    """Index the chunks' terms and rank them by BM25."""
    experiment = pipeline.experiment
    bm25 = experiment.retrieval.bm25
    index = pipeline.run_stage(stages.index_terms, chunks=searched.chunks, bm25=bm25)
    return pipeline.run_stage(
        stages.retrieve_terms,
        terms=index["terms"],
        starts=index["starts"],
        term_chunks=index["chunks"],
        weights=index["weights"],
        chunks=searched.chunks,
        queries=searched.queries,
        documents=searched.filtered,
        bm25=bm25,
        retrieval=experiment.retrieval.of_list(depth),
        ranks_documents=experiment.labelling.method == "document",
    )


def _retrieve_both(pipeline: Pipeline, searched: Searched) -> dict[str, Artifact]:
    """Retrieve by BM25 and by vectors, and fuse the two."""
    hybrid = pipeline.experiment.retrieval.hybrid
    bm25 = _retrieve_terms(pipeline, searched, hybrid.bm25_depth)
    dense = _retrieve_dense(pipeline, searched, hybrid.dense_depth)
    return pipeline.run_stage(
        stages.fuse,
        dense=dense["rankings"],
        bm25=bm25["rankings"],
        dense_latencies=dense["latencies"],
        bm25_latencies=bm25["latencies"],
        queries=searched.queries,
        hybrid=hybrid,
        depth=pipeline.experiment.retrieval.depth,
    )


def _rerank(
    pipeline: Pipeline, searched: Searched, retrieved: dict[str, Artifact], rerank: Rerank
) -> dict[str, Artifact]:
    """Let a CrossEncoder order the first items."""
    model = pipeline.inputs.reranker
    if model is None:
        raise StageError("there is no reranking model, though the experiment reranks")
    return pipeline.run_stage(
        stages.rerank,
        rankings=retrieved["rankings"],
        latencies=retrieved["latencies"],
        chunks=searched.chunks,
        queries=searched.queries,
        config=rerank,
        model=model,
        settings={
            "weights": model.digest,
            "depth": rerank.depth,
            "batch_size": rerank.batch_size,
            "max_length": rerank.max_length,
            "threads": pipeline.workspace.threads,
            "device": pipeline.workspace.device.partition(":")[0],
        },
    )


def _check_filters(pipeline: Pipeline, searched: Searched) -> None:
    """Refuse filters on what no document has, before anything is embedded."""
    import polars as pl

    from tasks.filtering import check_filters

    documents = pipeline.store.path(searched.documents)
    check_filters(
        pl.read_parquet(documents, columns=["doc_id", "metadata"]),
        pipeline.store.frame(searched.queries),
    )


def _encoder_settings(pipeline: Pipeline, prompt: str) -> dict[str, Any]:
    """What of the embedding section decides bits, with the weights in place of their path."""
    embedding = pipeline.experiment.embedding
    return {
        "weights": _model(pipeline).digest,
        "prompt": prompt,
        "normalize": embedding.normalize,
        "batch_size": embedding.batch_size,
        "deterministic": embedding.deterministic,
        "threads": pipeline.workspace.threads,
        "device": pipeline.workspace.device.partition(":")[0],
    }


def _model(pipeline: Pipeline) -> ResolvedModel:
    model = pipeline.inputs.model
    if model is None:
        raise StageError("there is no embedding model, though this method embeds")
    return model


METHODS: dict[str, Callable[[Pipeline, Searched], dict[str, Artifact]]] = {
    "dense": _retrieve_dense,
    "bm25": _retrieve_terms,
    "hybrid": _retrieve_both,
}
