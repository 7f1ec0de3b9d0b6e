"""Every Prefect task of Rankhouse: it reads artifacts, calls one function, stores the result.

One screen a stage shows what its key is made of. Tasks take and give references only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.artifacts import Artifact
from schemas.encoders import Embedding
from schemas.experiment import Chunking, Labelling, Summary
from schemas.frames import CHUNKS, DOCUMENTS
from schemas.indexes import Index
from schemas.lexical_retrieval import Bm25, Hybrid
from schemas.rerankers import Rerank
from schemas.retrievers import Retrieval
from tasks.artifacts import ArtifactStore
from tasks.caching import Workspace, stage_policy
from tasks.measuring import Measurement
from tasks.stored_texts import ChunkTexts
from tasks.texts import GivenTexts, Texts, texts_of
from warehouse.load import LoadReport, load_parts

if TYPE_CHECKING:
    from tasks.engaging import Desk
    from tasks.filtering import Filters
    from tasks.ranked_lists import RankedLists

Output = dict[str, Any]


def store_of(workspace: Workspace) -> ArtifactStore:
    """The artifact store that a workspace names."""
    return ArtifactStore(workspace.store_url, scratch=Path(workspace.scratch))


@task(
    cache_policy=stage_policy(
        "load_corpus",
        "tasks.loading",
        libraries=("lxml", "pyarrow", "pypdfium2", "trafilatura"),
        ignoring=("source",),
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="load corpus",
)
def load_corpus(*, workspace: Workspace, source: Any, source_digest: str) -> Output:
    """Read the documents; ``source_digest`` covers the names and bytes of every file."""
    from tasks import loading

    measurement = Measurement("load_corpus")
    rows, lengths = loading.document_rows(loading.load_corpus(source)), array("q")
    documents = store_of(workspace).put_rows(
        "documents", _noting_lengths(rows, lengths, column=2), DOCUMENTS
    )
    return measurement.output(
        {"documents": documents},
        {"n_documents": documents.n_items, "n_characters": sum(lengths)},
    )


def _noting_lengths(
    rows: Iterable[tuple[Any, ...]], lengths: array[int], *, column: int
) -> Iterator[tuple[Any, ...]]:
    """The rows as they are; how many characters a column holds is noted on the way."""
    for row in rows:
        lengths.append(len(row[column]))
        yield row


@task(
    cache_policy=stage_policy(
        "load_benchmark", "tasks.loading", "tasks.quoting", ignoring=("source",)
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="load benchmark",
)
def load_benchmark(
    *, workspace: Workspace, source: Any, source_digest: str, split: str | None
) -> Output:
    """Read the queries of one split with their ground truth."""
    from tasks import loading, quoting

    measurement = Measurement("load_benchmark")
    store = store_of(workspace)
    everything = loading.queries_frame(loading.load_benchmark(source, split=None))
    queries = everything
    if split is not None:
        queries = loading.queries_frame(loading.load_benchmark(source, split=split))
    return measurement.output(
        {
            "queries": store.put_frame("queries", queries),
            "all_queries": store.put_frame("queries", everything),  # what the warehouse keeps
        },
        {
            "n_queries": queries.height,
            "n_bare_spans": quoting.count_bare_spans(queries),
            "n_filtered": queries["filter"].count(),
        },
    )


@task(
    cache_policy=stage_policy(
        "chunk_corpus",
        "tasks.chunking",
        libraries=("semantic-text-splitter", "sentencex", "tokenizers"),
        ignoring=("tokenizer_file",),
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="chunk {documents.n_items} documents",
)
def chunk_corpus(
    *,
    workspace: Workspace,
    documents: Artifact,
    chunking: Chunking,
    tokenizer_digest: str | None,
    tokenizer_file: str | None,
    plugin_digest: str | None,
) -> Output:
    """Cut the documents; the tokenizer counts only when sizes are in tokens."""
    from tasks.chunking import chunk_rows, columns_of_documents

    measurement = Measurement("chunk_corpus")
    store, lengths = store_of(workspace), array("q")
    rows = chunk_rows(
        store.frames(documents, columns=columns_of_documents(chunking)),
        chunking,
        tokenizer_file=None if tokenizer_file is None else Path(tokenizer_file),
    )
    chunks = store.put_rows("chunks", _noting_lengths(rows, lengths, column=4), CHUNKS)
    return measurement.output(
        {"chunks": chunks},
        {
            "n_chunks": chunks.n_items,
            "median_characters": median(lengths) if lengths else 0,
            "max_characters": max(lengths, default=0),
        },
    )


@task(
    cache_policy=stage_policy(
        "embed_chunks",
        "tasks.embedding",
        libraries=("torch", "transformers", "sentence-transformers", "tokenizers"),
        ignoring=("embedding", "model"),
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="embed {chunks.n_items} chunks",
)
def embed_chunks(
    *,
    workspace: Workspace,
    chunks: Artifact,
    embedding: Embedding,
    model: Any,
    settings: dict[str, Any],
) -> Output:
    """Turn chunks into vectors; ``settings`` holds the weights' digest and what decides bits."""
    measurement = Measurement("embed_chunks")
    store = store_of(workspace)
    return _embed(
        measurement,
        store,
        workspace,
        ChunkTexts(store, chunks),
        embedding,
        model,
        prompt=embedding.document_prompt,
    )


@task(
    cache_policy=stage_policy(
        "embed_queries",
        "tasks.embedding",
        libraries=("torch", "transformers", "sentence-transformers", "tokenizers"),
        ignoring=("embedding", "model"),
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="embed {queries.n_items} queries",
)
def embed_queries(
    *,
    workspace: Workspace,
    queries: Artifact,
    embedding: Embedding,
    model: Any,
    settings: dict[str, Any],
) -> Output:
    """Turn queries into vectors."""
    measurement = Measurement("embed_queries")
    store = store_of(workspace)
    frame = store.frame(queries)
    return _embed(
        measurement,
        store,
        workspace,
        GivenTexts(frame["text"].to_list(), frame["query_id"].to_list()),
        embedding,
        model,
        prompt=embedding.query_prompt,
    )


def _embed(
    measurement: Measurement,
    store: ArtifactStore,
    workspace: Workspace,
    texts: Texts,
    embedding: Embedding,
    model: Any,
    *,
    prompt: str,
) -> Output:
    from tasks.embedding import embed_texts
    from tasks.progress import progress_writer

    embedded = embed_texts(
        texts,
        model,
        embedding,
        prompt=prompt,
        items=Path(workspace.items) / "embeddings",
        threads=workspace.threads,
        device=workspace.device,
        say=progress_writer(workspace.shows_progress),
    )
    artifact = store.put_array("vectors", embedded.vectors)
    return measurement.output({"vectors": artifact}, embedded.figures)


@task(
    cache_policy=stage_policy("build_index", "tasks.indexing", libraries=("faiss-cpu",)),
    persist_result=True,
    result_serializer="json",
    task_run_name="build {index.kind} index of {vectors.n_items} vectors",
)
def build_index(*, workspace: Workspace, vectors: Artifact, index: Index) -> Output:
    """Build and save the FAISS index."""
    from tasks.indexing import write_index

    measurement = Measurement("build_index")
    store = store_of(workspace)
    path = store.scratch_file(".faiss")
    built = write_index(store.array(vectors), index, path, threads=workspace.threads)
    artifact = store.put_file("index", path, suffix=".faiss", n_items=vectors.n_items)
    return measurement.output({"index": artifact}, {"n_bytes": artifact.size, **built.figures})


@task(
    cache_policy=stage_policy("retrieve", "tasks.retrieving", libraries=("faiss-cpu", "numpy")),
    persist_result=True,
    result_serializer="json",
    task_run_name="retrieve for {queries.n_items} queries",
)
def retrieve(
    *,
    workspace: Workspace,
    index_file: Artifact,
    vectors: Artifact,
    query_vectors: Artifact,
    chunks: Artifact,
    queries: Artifact,
    documents: Artifact | None,
    index: Index,
    retrieval: Retrieval,
    ranks_documents: bool,
) -> Output:
    """Search the index and put results in the one order; ``documents`` where there are filters."""
    from tasks.retrieving import retrieve as search

    measurement = Measurement("retrieve")
    store = store_of(workspace)
    frame = store.frame(chunks, columns=("chunk_id", "doc_id"))
    retrieved = search(
        store.path(index_file),
        store.array(query_vectors),
        store.array(vectors),
        frame,
        store.frame(queries)["query_id"].to_list(),
        index=index,
        retrieval=retrieval,
        label_method="document" if ranks_documents else "span",
        threads=workspace.threads,
        filters=_filters(store, documents, frame, store.frame(queries)),
    )
    return measurement.output(*_retrieved(store, retrieved))


@task(
    cache_policy=stage_policy("index_terms", "tasks.terms", libraries=("bm25s", "PyStemmer")),
    persist_result=True,
    result_serializer="json",
    task_run_name="index the terms of {chunks.n_items} chunks",
)
def index_terms(*, workspace: Workspace, chunks: Artifact, bm25: Bm25) -> Output:
    """Weigh the terms of chunks, titles included, for BM25."""
    from tasks.terms import index_terms as index

    measurement = Measurement("index_terms")
    store = store_of(workspace)
    made = index(texts_of(store.frame(chunks, columns=("title", "text"))), bm25)
    artifacts = {
        "terms": store.put_frame("terms", pl.DataFrame({"term": made.terms}, {"term": pl.String})),
        "starts": store.put_array("term_starts", made.starts),
        "chunks": store.put_array("term_chunks", made.chunks),
        "weights": store.put_array("term_weights", made.weights),
    }
    n_bytes = sum(artifact.size for artifact in artifacts.values())
    return measurement.output(artifacts, {"n_terms": len(made.terms), "n_bytes": n_bytes})


@task(
    cache_policy=stage_policy(
        "retrieve_terms", "tasks.term_retrieving", libraries=("bm25s", "PyStemmer", "numpy")
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="retrieve by terms for {queries.n_items} queries",
)
def retrieve_terms(
    *,
    workspace: Workspace,
    terms: Artifact,
    starts: Artifact,
    term_chunks: Artifact,
    weights: Artifact,
    chunks: Artifact,
    queries: Artifact,
    documents: Artifact | None,
    bm25: Bm25,
    retrieval: Retrieval,
    ranks_documents: bool,
) -> Output:
    """Rank by BM25; ``documents`` are given where a query has a filter."""
    from tasks.term_retrieving import retrieve_terms as search
    from tasks.terms import TermIndex

    measurement = Measurement("retrieve_terms")
    store = store_of(workspace)
    frame = store.frame(chunks, columns=("chunk_id", "doc_id"))
    index = TermIndex(
        terms=store.frame(terms)["term"].to_list(),
        starts=store.array(starts),
        chunks=store.array(term_chunks),
        weights=store.array(weights),
        n_chunks=frame.height,
    )
    retrieved = search(
        index,
        frame,
        store.frame(queries),
        config=bm25,
        retrieval=retrieval,
        ranks_documents=ranks_documents,
        filters=_filters(store, documents, frame, store.frame(queries)),
    )
    return measurement.output(*_retrieved(store, retrieved))


@task(
    cache_policy=stage_policy(
        "fuse", "tasks.fusing", ignoring=("dense_latencies", "bm25_latencies")
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="fuse by {hybrid.fusion}",
)
def fuse(
    *,
    workspace: Workspace,
    dense: Artifact,
    bm25: Artifact,
    dense_latencies: Artifact,
    bm25_latencies: Artifact,
    queries: Artifact,
    hybrid: Hybrid,
    depth: int,
) -> Output:
    """Fuse the dense and the BM25 ranking of each query."""
    from tasks.fusing import fuse as fuse_rankings

    measurement = Measurement("fuse")
    store = store_of(workspace)
    fused = fuse_rankings(
        store.frame(dense),
        store.frame(bm25),
        [store.frame(dense_latencies), store.frame(bm25_latencies)],
        store.frame(queries)["query_id"].to_list(),
        hybrid,
        depth=depth,
    )
    return measurement.output(*_retrieved(store, fused))


@task(
    cache_policy=stage_policy(
        "rerank",
        "tasks.reranking",
        libraries=("torch", "transformers", "sentence-transformers", "tokenizers"),
        ignoring=("config", "model", "latencies"),
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="rerank the first {config.depth} of {queries.n_items} queries",
)
def rerank(
    *,
    workspace: Workspace,
    rankings: Artifact,
    latencies: Artifact,
    chunks: Artifact,
    queries: Artifact,
    config: Rerank,
    model: Any,
    settings: dict[str, Any],
) -> Output:
    """Order the first items anew; ``settings`` holds the weights' digest and what decides bits."""
    from tasks.progress import progress_writer
    from tasks.reranking import rerank as rerank_rankings

    measurement = Measurement("rerank")
    store = store_of(workspace)
    frame = store.frame(chunks)
    reranked = rerank_rankings(
        store.frame(rankings),
        store.frame(latencies),
        dict(zip(frame["chunk_id"].to_list(), texts_of(frame), strict=True)),
        dict(store.frame(queries).select("query_id", "text").iter_rows()),
        model,
        config,
        items=Path(workspace.items) / "reranker_scores",
        threads=workspace.threads,
        device=workspace.device,
        say=progress_writer(workspace.shows_progress),
    )
    return measurement.output(*_retrieved(store, reranked))


def _filters(
    store: ArtifactStore,
    documents: Artifact | None,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
) -> Filters | None:
    if documents is None:
        return None
    from tasks.filtering import Filters

    metadata = pl.read_parquet(store.path(documents), columns=["doc_id", "metadata"])
    return Filters.of(metadata, chunks, queries)


def _retrieved(
    store: ArtifactStore, retrieved: RankedLists
) -> tuple[dict[str, Artifact], dict[str, Any]]:
    artifacts = {
        "rankings": store.put_frame("rankings", retrieved.rankings),
        "latencies": store.put_frame("latencies", retrieved.latencies),
    }
    return artifacts, {**retrieved.figures, "short_queries": list(retrieved.short_queries)}


@task(
    cache_policy=stage_policy(
        "retrieve_elsewhere",
        "tasks.retrieving_elsewhere",
        libraries=("numpy",),
        ignoring=("retrieval",),
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="retrieve elsewhere for {queries.n_items} queries",
)
def retrieve_elsewhere(
    *,
    workspace: Workspace,
    documents: Artifact,
    chunks: Artifact,
    queries: Artifact,
    retrieval: Retrieval,
    settings: dict[str, Any],
    ranks_documents: bool,
) -> Output:
    """Ask somebody else's retriever; ``settings`` holds what of the section decides its answers."""
    from tasks.retrieving_elsewhere import retrieve_elsewhere as retrieve_from

    measurement = Measurement("retrieve_elsewhere")
    store = store_of(workspace)
    retrieved = retrieve_from(
        store.frame(documents),
        store.frame(chunks),
        store.frame(queries),
        retrieval,
        are_documents=ranks_documents,
        identity={name: settings[name] for name in ("url", "asked") if name in settings},
        items=Path(workspace.items) / "retrieved",
        shows_progress=workspace.shows_progress,
    )
    return measurement.output(
        {
            "rankings": store.put_frame("rankings", retrieved.rankings),
            "failed": store.put_frame("failed", retrieved.failed),
            "unmatched": store.put_frame("unmatched", retrieved.unmatched),
            "latencies": store.put_frame("latencies", retrieved.latencies),
        },
        {**retrieved.figures, "notes": retrieved.notes},
        is_reusable=retrieved.failed.is_empty(),
    )


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="fill quotes of spans")
def fill_quotes(
    *, workspace: Workspace, documents: Artifact, queries: Artifact, benchmark_path: str
) -> Output:
    """Give spans without a quote the one they had at their first evaluation; never cached."""
    from tasks import quoting

    measurement = Measurement("fill_quotes")
    store = store_of(workspace)
    filled = quoting.fill_quotes(
        store.frame(documents),
        store.frame(queries),
        folder=Path(workspace.items) / "quotes",
        benchmark_path=benchmark_path,
    )
    return measurement.output({"queries": store.put_frame("queries", filled)}, {})


@task(
    cache_policy=stage_policy("label", "tasks.labelling"),
    persist_result=True,
    result_serializer="json",
    task_run_name="label by {labelling.method}",
)
def label(
    *,
    workspace: Workspace,
    documents: Artifact,
    chunks: Artifact,
    queries: Artifact,
    labelling: Labelling,
) -> Output:
    """Label every chunk or document that has a gain or a judgement, retrieved or not."""
    from tasks.labelling import COLUMNS, label_corpus

    measurement = Measurement("label")
    store = store_of(workspace)
    of_documents, of_chunks = COLUMNS[labelling.method]
    labelled = label_corpus(
        store.frame(documents, columns=of_documents),
        store.frame(chunks, columns=of_chunks),
        store.frame(queries),
        config=labelling,
        known_quotes={},
    )
    return measurement.output(
        {
            "labels": store.put_frame("labels", labelled.labels),
            "truth": store.put_frame("truth", labelled.truth),
            "notes": store.put_frame("notes", labelled.notes),
        },
        labelled.figures,
    )


@task(
    cache_policy=stage_policy("rank", "tasks.scoring", "tasks.tie_reports", libraries=("numpy",)),
    persist_result=True,
    result_serializer="json",
    task_run_name="compute ranking measures",
)
def rank(
    *,
    workspace: Workspace,
    rankings: Artifact,
    labels: Artifact,
    truth: Artifact,
    chunks: Artifact,
    queries: Artifact,
    failed: Artifact | None,
    measures: list[tuple[str, int]],
    labelling: Labelling,
    depth: int,
) -> Output:
    """Compute every measure for every query; ``measures`` are names with contract versions.

    The values of ``failed`` queries, which nobody answered, are NULL.
    """
    from schemas.measures import Measure
    from tasks.scoring import (
        average_metrics,
        columns_of_chunks,
        mark_failed,
        score_rankings,
    )
    from tasks.tie_reports import report_ties

    measurement = Measurement("rank")
    store = store_of(workspace)
    parsed = [Measure.parse(name) for name, _ in measures]
    frames = [store.frame(item) for item in (rankings, labels, truth)]
    frames += [store.frame(chunks, columns=columns_of_chunks(parsed)), store.frame(queries)]
    options: dict[str, Any] = {
        "measures": parsed,
        "label_method": labelling.method,
        "min_coverage": labelling.min_coverage,
        "level": labelling.level,
        "depth": depth,
    }
    query_metrics = score_rankings(*frames, **options)
    if failed is not None and failed.n_items:
        query_metrics = mark_failed(query_metrics, store.frame(failed))
    run_metrics = average_metrics(query_metrics, frames[2])
    return measurement.output(
        {
            "query_metrics": store.put_frame("query_metrics", query_metrics),
            "run_metrics": store.put_frame("run_metrics", run_metrics),
        },
        {"ties": report_ties(*frames, **options).figures()},
    )


@task(
    cache_policy=stage_policy(
        "write_responses",
        "tasks.responding",
        libraries=("sentencex",),
        ignoring=("summary", "spent"),
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="write responses with {summary.generator_name}",
)
def write_responses(
    *,
    workspace: Workspace,
    queries: Artifact,
    rankings: Artifact,
    chunks: Artifact,
    summary: Summary,
    settings: dict[str, Any],
    spent: dict[str, float],
) -> Output:
    """Gather the contexts of each judged query, and its response: given, else generated.

    ``settings`` holds what of the section decides them, ``spent`` what the run has paid so far.
    """
    from tasks.calls import subject_of
    from tasks.gathering import gather_contexts
    from tasks.responding import make_generator, summarize_queries

    measurement = Measurement("write_responses")
    store = store_of(workspace)
    frames = store.frame(queries), store.frame(rankings), store.frame(chunks)
    with _desk(workspace, summary, spent) as desk:
        generator = make_generator(summary, desk.completer)
        responses = summarize_queries(*frames, summary, generator)
    n_failed = responses["status"].count()
    asked = {subject_of([text]): query_id for query_id, text in _pairs(frames[0], "text")}
    return measurement.output(
        {
            "contexts": store.put_frame("contexts", gather_contexts(*frames, summary)),
            "responses": store.put_frame("responses", responses),
            **_calls(desk, store, asked),
        },
        {"n_responses": responses.height, "n_failed": n_failed, **desk.figures()},
        is_reusable=isinstance(summary.generator, str) or not n_failed,
    )


@task(
    cache_policy=stage_policy(
        "build_question_bank", "tasks.questioning", ignoring=("summary", "spent")
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="ask questions with {summary.judge_name}",
)
def build_question_bank(
    *,
    workspace: Workspace,
    contexts: Artifact,
    summary: Summary,
    settings: dict[str, Any],
    spent: dict[str, float],
) -> Output:
    """Find key phrases and make closed questions, once for different contexts."""
    from tasks.questioning import build_question_bank as build
    from tasks.questioning import make_judge

    measurement = Measurement("build_question_bank")
    store = store_of(workspace)
    frame = store.frame(contexts)
    with _desk(workspace, summary, spent) as desk:
        bank = build(frame, summary, make_judge(summary, desk.completer))
    n_failed = bank["status"].count()
    asked = {digest: query_id for query_id, digest in _pairs(frame, "contexts_digest")}
    return measurement.output(
        {"bank": store.put_frame("bank", bank), **_calls(desk, store, asked)},
        {"n_contexts": bank.height, "n_failed": n_failed, **desk.figures()},
        is_reusable=isinstance(summary.judge, str) or not n_failed,
    )


@task(
    cache_policy=stage_policy(
        "score_summaries",
        "tasks.summarizing",
        "tasks.scoring",
        ignoring=("summary", "spent"),
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="score summaries with {summary.judge_name}",
)
def score_summaries(
    *,
    workspace: Workspace,
    queries: Artifact,
    contexts: Artifact,
    responses: Artifact,
    bank: Artifact,
    summary: Summary,
    settings: dict[str, Any],
    spent: dict[str, float],
) -> Output:
    """Ask each summary the questions of its contexts, and combine the scores."""
    from tasks import summarizing
    from tasks.calls import subject_of
    from tasks.questioning import make_judge
    from tasks.scoring import average_metrics

    measurement = Measurement("score_summaries")
    store = store_of(workspace)
    frame, given = store.frame(queries), store.frame(responses)
    with _desk(workspace, summary, spent) as desk:
        scored = summarizing.score_summaries(
            *(given, store.frame(contexts), store.frame(bank), summary),
            make_judge(summary, desk.completer),
        )
    values = summarizing.summary_metrics(frame, scored.scores, summary)
    # Lost ground truth is of ranking labels: no summary score rests on it.
    without_loss = frame.select("query_id", n_lost=pl.lit(0, dtype=pl.Int64))
    n_failed = int((scored.scores["status"] != "scored").sum())
    asked = {subject_of([text]): query_id for query_id, text in _pairs(given, "response")}
    return measurement.output(
        {
            "scores": store.put_frame("summary_scores", scored.scores),
            "questions": store.put_frame("summary_questions", scored.questions),
            "query_metrics": store.put_frame("query_metrics", values),
            "run_metrics": store.put_frame("run_metrics", average_metrics(values, without_loss)),
            **_calls(desk, store, asked),
        },
        {"n_failed": n_failed, **desk.figures()},
        is_reusable=summary.is_deterministic or not n_failed,
    )


@task(
    cache_policy=stage_policy("embed_canaries", "tasks.canaries", ignoring=("embedding", "model")),
    persist_result=True,
    result_serializer="json",
    task_run_name="embed canary texts",
)
def embed_canaries(
    *, workspace: Workspace, embedding: Embedding, model: Any, settings: dict[str, Any]
) -> Output:
    """Embed a few fixed texts anew, whatever the item store has of them."""
    from tasks.canaries import CANARIES_DIGEST
    from tasks.canaries import embed_canaries as embed

    measurement = Measurement("embed_canaries")
    store = store_of(workspace)
    embedded = embed(model, embedding, threads=workspace.threads, device=workspace.device)
    return measurement.output(
        {"canaries": store.put_array("canaries", embedded.vectors)},
        {**embedded.figures, "texts": CANARIES_DIGEST},
    )


@task(
    cache_policy=stage_policy(
        "judge_anchor", "tasks.anchors", ignoring=("summary", "spent", "path", "alpha")
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="judge the anchor with {summary.judge_name}",
)
def judge_anchor(
    *,
    workspace: Workspace,
    path: str | None,
    night: str,
    n_repeats: int,
    alpha: float,
    summary: Summary,
    settings: dict[str, Any],
    spent: dict[str, float],
) -> Output:
    """Ask the judge the questions of fixed responses; the file at ``path``, else built in."""
    from tasks import anchors
    from tasks.questioning import make_judge

    measurement = Measurement("judge_anchor")
    store = store_of(workspace)
    items = anchors.read_anchor(path)
    with _desk(workspace, summary, spent) as desk:
        judge = make_judge(summary, desk.completer)
        judged = anchors.judge_anchor(items, judge, summary, night=night, n_repeats=n_repeats)
    calls = desk.calls({}).with_columns(purpose=pl.lit("anchor"))
    return measurement.output(
        {
            "anchor": store.put_frame("anchor", anchors.frame_of_anchor(judged)),
            "calls": store.put_frame("llm_calls", calls),
        },
        {
            **anchors.figures_of_anchor(items, judged),
            "judge": settings["version"],
            "alpha": alpha,
            **desk.figures(),
        },
    )


@task(
    cache_policy=stage_policy(
        "judge_again", "tasks.summarizing", "tasks.judge_noise", ignoring=("summary", "spent")
    ),
    persist_result=True,
    result_serializer="json",
    task_run_name="judge again, {n_repeats} times, with {summary.judge_name}",
)
def judge_again(
    *,
    workspace: Workspace,
    contexts: Artifact,
    responses: Artifact,
    bank: Artifact,
    n_repeats: int,
    summary: Summary,
    settings: dict[str, Any],
    spent: dict[str, float],
) -> Output:
    """Ask the judge the same questions again, to know how much it differs from itself."""
    from tasks import summarizing
    from tasks.calls import subject_of
    from tasks.judge_noise import noise_of, qa_by_repeat
    from tasks.questioning import make_judge

    measurement = Measurement("judge_again")
    store = store_of(workspace)
    given = store.frame(responses)
    repeated = summary.model_copy(update={"repeats": 1 + n_repeats})
    with _desk(workspace, summary, spent) as desk:
        scored = summarizing.score_summaries(
            *(given, store.frame(contexts), store.frame(bank), repeated),
            make_judge(summary, desk.completer),
        )
    by_repeat = qa_by_repeat(scored.questions)
    asked = {subject_of([text]): query_id for query_id, text in _pairs(given, "response")}
    return measurement.output(
        {"noise": store.put_frame("noise", by_repeat), **_calls(desk, store, asked)},
        {
            "noise": noise_of(by_repeat, summary),
            "n_repeats": n_repeats,
            "n_judged": by_repeat["query_id"].n_unique(),
            **desk.figures(),
        },
    )


def _desk(
    workspace: Workspace, summary: Summary, spent: dict[str, float]
) -> AbstractContextManager[Desk]:
    from tasks.engaging import desk_of
    from tasks.pricing import Spent
    from tasks.progress import progress_writer

    return desk_of(
        summary,
        Path(workspace.items),
        spent=Spent(int(spent["calls"]), int(spent["tokens"]), spent["money"]),
        say=progress_writer(workspace.shows_progress),
    )


def _pairs(frame: pl.DataFrame, column: str) -> list[tuple[str, str]]:
    """Query and value, the last row first: the first query of equal values stays in a mapping."""
    return frame.select("query_id", column).drop_nulls().reverse().rows()


def _calls(desk: Desk, store: ArtifactStore, queries: dict[str, str]) -> dict[str, Artifact]:
    """The calls of a stage, where there is an LLM at all."""
    if not desk.summary.endpoints:
        return {}
    return {"calls": store.put_frame("llm_calls", desk.calls(queries))}


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="write results")
def write_results(*, started: Any, frames: Any) -> None:
    """Validate every frame of a run and put its part into the spool.

    Args:
        started: the StartedRun; quoted, so that Prefect does not look inside.
        frames: table name to frame; quoted likewise.
    """
    started.finish(frames)


@task(cache_policy=NO_CACHE, persist_result=False, task_run_name="load results")
def load_results(*, home: Any) -> LoadReport:
    """Load every part that waits, unless somebody holds the warehouse; ``home`` is a Home."""
    return load_parts(home)
