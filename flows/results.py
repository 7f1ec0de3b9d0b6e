"""What a run leaves in the warehouse: the frames of its part, from its stages' artifacts."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import polars as pl

from flows.elsewhere_stages import events_of, reason_of_failures
from flows.provenance import git_state, machine, versions
from schemas.comparability import comparability_key
from schemas.experiment import Experiment, Summary
from schemas.frames import LLM_CALLS
from schemas.orders import at_date
from tasks.caching import StageRun
from tasks.engaging import version_of_judge
from tasks.measuring import peak_memory
from warehouse import rows
from warehouse.baselines import BACKFILL_TAG

if TYPE_CHECKING:
    from flows.pipeline import Pipeline
    from flows.preflight import Inputs

OUTPUT_OF = {
    "load_corpus": "documents",
    "load_benchmark": "queries",
    "chunk_corpus": "chunks",
    "label": "labels",
    "embed_chunks": "vectors",
    "embed_queries": "vectors",
    "build_index": "index",
    "retrieve": "rankings",
    "index_terms": "terms",
    "retrieve_terms": "rankings",
    "fuse": "rankings",
    "rerank": "rankings",
    "retrieve_elsewhere": "rankings",
    "rank": "query_metrics",
    "write_responses": "responses",
    "build_question_bank": "bank",
    "score_summaries": "scores",
    "embed_canaries": "canaries",
    "judge_anchor": "anchor",
    "judge_again": "noise",
}
"""The artifact that a stage's row in ``stages`` names as its output."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """Who a run is: known before its first stage."""

    run_id: str
    logical_date: date
    flow_run_id: str | None
    grid_id: str | None = None  # its runs go on side by side in one process
    primary_measure: str | None = None  # of its grid
    suite: str | None = None
    is_backfill: bool = False
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.perf_counter)
    cpu_started: float = field(default_factory=time.process_time)


def frames_of(pipeline: Pipeline, context: RunContext) -> dict[str, pl.DataFrame]:
    """The frames of a run whose stages are all done."""
    run_id = context.run_id
    read = pipeline.store.frame
    query_metrics, run_metrics = metrics_of(pipeline)
    summary = pipeline.experiment.summary
    keys = {
        name: comparability_key(
            pipeline.experiment,
            benchmark_digest=pipeline.inputs.benchmark.digest,
            measure=name,
            judge_version="" if summary is None else version_of_judge(summary),
        )
        for name in run_metrics["measure"]
    }
    rankings, labels = pipeline.retrieved, pipeline.artifact("label", "labels")
    frames = {
        "runs": rows.runs_frame(run_row(pipeline, context)),
        "stages": rows.stages_frame(stage_rows(pipeline, run_id)),
        "events": rows.events_frame(event_rows(pipeline, context)),
        "queries": rows.queries_frame(
            read(pipeline.artifact("load_benchmark", "all_queries")),
            benchmark_digest=pipeline.inputs.benchmark.digest,
        ),
        "rankings": rows.rankings_frame(read(rankings), rankings_digest=rankings.digest),
        "labels": rows.labels_frame(read(labels), labels_digest=labels.digest),
        "query_metrics": rows.query_metrics_frame(query_metrics, run_id=run_id),
        "run_metrics": rows.run_metrics_frame(run_metrics, run_id=run_id, comparability_keys=keys),
        "measures": rows.measures_frame(run_metrics["measure"].to_list()),
    }
    if "score_summaries" in pipeline.runs:
        for table, name in (("summary_scores", "scores"), ("summary_questions", "questions")):
            frame = read(pipeline.artifact("score_summaries", name))
            frames[table] = rows.summary_frame(frame, run_id=run_id)
        frames["llm_calls"] = rows.summary_frame(calls_of(pipeline), run_id=run_id)
    return frames


def calls_of(pipeline: Pipeline) -> pl.DataFrame:
    """The LLM calls of all stages; those of a stage that was reused cost this run nothing."""
    frames = [LLM_CALLS.to_frame()]
    for run in pipeline.runs.values():
        if "calls" not in run.output.artifacts:
            continue
        calls = pipeline.store.frame(run.output.artifacts["calls"])
        if run.is_cached:
            calls = calls.filter(pl.col("status") == "answered").with_columns(
                is_reused=pl.lit(value=True), n_tries=pl.lit(0, dtype=pl.Int64)
            )
        frames.append(calls)
    return pl.concat(frames).drop("subject")


def failed_frames_of(
    pipeline: Pipeline, context: RunContext, *, stage: str, error: BaseException
) -> dict[str, pl.DataFrame]:
    """The frames of a run that failed: what ran, and where and why it ended."""
    message = f"{type(error).__name__}: {error}"
    done = stage_rows(pipeline, context.run_id)
    failed = rows.StageRow(
        run_id=context.run_id,
        position=len(done) + 1,
        stage=stage,
        status="failed",
        cached=False,
        message=message,
    )
    return {
        "runs": rows.runs_frame(
            run_row(pipeline, context, status="failed", reason=f"{stage}: {message}")
        ),
        "stages": rows.stages_frame([*(row for row in done if row.stage != stage), failed]),
    }


def metrics_of(pipeline: Pipeline) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Values a query and means a run, of ranking measures and summary scores together."""
    read = pipeline.store.frame
    query_metrics = [read(pipeline.artifact("rank", "query_metrics"))]
    run_metrics = [read(pipeline.artifact("rank", "run_metrics"))]
    if "score_summaries" in pipeline.runs:
        query_metrics.append(read(pipeline.artifact("score_summaries", "query_metrics")))
        run_metrics.append(read(pipeline.artifact("score_summaries", "run_metrics")))
    return pl.concat(query_metrics), pl.concat(run_metrics)


def run_row(
    pipeline: Pipeline,
    context: RunContext,
    *,
    status: str = "completed",
    reason: str | None = None,
) -> rows.RunRow:
    """The run with all that its numbers rest on."""
    experiment, inputs = pipeline.experiment, pipeline.inputs
    dated = at_date(experiment, context.logical_date)
    model = inputs.model
    commit, is_dirty = git_state()
    ended = datetime.now(UTC)
    if status == "completed":
        status, reason = _completed_or_degraded(pipeline)
    return rows.RunRow(
        run_id=context.run_id,
        experiment=experiment.name,
        logical_date=context.logical_date,
        status=status,
        status_reason=reason,
        grid_id=context.grid_id,
        suite=context.suite,
        started_at=context.started_at,
        ended_at=ended,
        seconds=time.perf_counter() - context.started,
        # A process's CPU time cannot be told apart between the runs of a grid.
        cpu_seconds=None if context.grid_id else time.process_time() - context.cpu_started,
        peak_memory_bytes=peak_memory(),
        config=experiment.model_dump(mode="json"),
        config_digest=experiment.digest,
        corpus_path=dated.corpus.path,
        corpus_digest=inputs.corpus.digest,
        n_documents=_n_items(pipeline, "load_corpus", "documents"),
        benchmark_path=dated.benchmark.path,
        benchmark_digest=inputs.benchmark.digest,
        split=experiment.benchmark.split,
        n_queries=_n_items(pipeline, "load_benchmark", "queries"),
        chunks_digest=_digest(pipeline, "chunk_corpus", "chunks"),
        n_chunks=_n_items(pipeline, "chunk_corpus", "chunks"),
        vectors_digest=_digest(pipeline, "embed_chunks", "vectors"),
        index_digest=_digest(pipeline, "build_index", "index")
        or _digest(pipeline, "index_terms", "weights"),
        rankings_digest=None if pipeline.rankings is None else pipeline.rankings.digest,
        labels_digest=_digest(pipeline, "label", "labels"),
        label_method=experiment.labelling.method,
        depth=experiment.retrieval.depth,
        embedding_model=None if model is None else model.name,
        embedding_revision=None if model is None else model.revision,
        embedding_weights_digest=None if model is None or model.folder is None else model.digest,
        models=[*_models_of_files(inputs, experiment), *_summary_models(experiment.summary)],
        rankhouse_version=version("rankhouse"),
        git_commit=commit,
        git_dirty=is_dirty,
        python_version=platform.python_version(),
        libraries=versions(),
        machine=machine(),
        flow_run_id=context.flow_run_id,
        primary_measure=context.primary_measure,
    )


def _models_of_files(inputs: Inputs, experiment: Experiment) -> list[dict[str, Any]]:
    """The models that are files, by what they do; an embedding model may be an endpoint's."""
    endpoint = experiment.embedding.endpoint
    if inputs.model is not None and endpoint is not None:
        named = {"role": "embedding", "name": endpoint.model, "revision": None}
        return [{**named, "weights_digest": None, "endpoint": endpoint.base_url}]
    used = {"embedding": inputs.model, "reranker": inputs.reranker}
    return [
        {
            "role": role,
            "name": model.name,
            "revision": model.revision,
            "weights_digest": model.digest,
        }
        for role, model in used.items()
        if model is not None
    ]


def _summary_models(summary: Summary | None) -> list[dict[str, Any]]:
    if summary is None:
        return []
    return [
        {"role": role, "name": endpoint.model, "revision": None, "weights_digest": None}
        | {"endpoint": endpoint.base_url}
        for role, endpoint in summary.endpoints.items()
    ]


def stage_rows(pipeline: Pipeline, run_id: str) -> list[rows.StageRow]:
    """One row a stage, in the order they ran."""
    return [
        _stage_row(run, run_id, position)
        for position, run in enumerate(pipeline.runs.values(), start=1)
    ]


def event_rows(pipeline: Pipeline, context: RunContext) -> list[rows.EventRow]:
    """What happened to the ground truth, the damage that was repaired, the tag of a back-fill."""
    run_id = context.run_id
    notes = pipeline.store.frame(pipeline.artifact("label", "notes"))
    events = [
        rows.EventRow(
            run_id=run_id,
            kind="truth",
            stage="label",
            query_id=note["query_id"],
            message=f"{note['note']}: {note['reason']}",
            details={name: note[name] for name in ("doc_id", "start", "end", "quote")},
        )
        for note in notes.iter_rows(named=True)
    ]
    repaired = [
        rows.EventRow(run_id=run_id, kind="damaged", message=message) for message in pipeline.damage
    ]
    unchecked = [
        rows.EventRow(run_id=run_id, kind="warning", message=message)
        for message in pipeline.unchecked
    ]
    tags = [BACKFILL_TAG] if context.is_backfill else []
    tagged = [rows.EventRow(run_id=run_id, kind="tag", message=tag) for tag in tags]
    return [*events, *events_of(pipeline, run_id), *repaired, *unchecked, *tagged]


def _stage_row(run: StageRun, run_id: str, position: int) -> rows.StageRow:
    name = OUTPUT_OF[run.stage]
    return rows.StageRow(
        run_id=run_id,
        position=position,
        stage=run.stage,
        cached=run.is_cached,
        stage_key=run.key,
        code_digest=run.code_digest,
        inputs=run.inputs,
        output_digest=run.output.artifacts[name].digest,
        started_at=run.started_at,
        seconds=run.seconds,
        peak_memory_bytes=run.output.peak_memory,
        figures={**run.output.figures, "seconds_when_made": run.output.seconds},
    )


def _completed_or_degraded(pipeline: Pipeline) -> tuple[str, str | None]:
    """A run is degraded when a value failed: its means rest on the others."""
    _, run_metrics = metrics_of(pipeline)
    failed = run_metrics.filter(pl.col("n_failed") > 0)
    if failed.is_empty():
        return "completed", None
    names = ", ".join(
        f"{name} ({count})" for name, count in failed.select("measure", "n_failed").iter_rows()
    )
    reasons = [f"values failed: {names}"]
    unanswered = reason_of_failures(pipeline)
    if unanswered is not None:
        reasons.append(unanswered)
    if "score_summaries" in pipeline.runs:
        scores = pipeline.store.frame(pipeline.artifact("score_summaries", "scores"))
        failed = scores.filter(pl.col("status") != "scored")
        counts = failed["status"].value_counts(sort=True).iter_rows()
        of_summaries = ", ".join(f"{status} ({count})" for status, count in counts)
        if of_summaries:
            reasons.append(f"summaries: {of_summaries}, such as: {failed['message'][0]}")
    return "degraded", "; ".join(reasons)


def _digest(pipeline: Pipeline, stage: str, name: str) -> str | None:
    run = pipeline.runs.get(stage)
    return None if run is None else run.output.artifacts[name].digest


def _n_items(pipeline: Pipeline, stage: str, name: str) -> int | None:
    run = pipeline.runs.get(stage)
    return None if run is None else run.output.artifacts[name].n_items
