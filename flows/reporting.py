"""The report of one run: what ``rankhouse evaluate`` prints and Prefect shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, JsonValue

from flows.elsewhere_stages import notes_of
from flows.results import RunContext, metrics_of, run_row
from flows.retrieval_stages import last_retrieving
from schemas.counting import counted

if TYPE_CHECKING:
    from flows.pipeline import Pipeline

NOTES_SHOWN = 10


class MeasureRow(BaseModel):
    """The mean of one measure, with what it rests on."""

    model_config = ConfigDict(frozen=True)

    measure: str
    mean: float | None
    n_scored: int
    n_queries: int
    n_lost: int
    n_failed: int
    low: float | None
    high: float | None


class StageLine(BaseModel):
    """One stage: reused or computed, and how long it took in this run."""

    model_config = ConfigDict(frozen=True)

    stage: str
    cached: bool
    seconds: float
    detail: str | None = None  # what there was to do, where it was not everything


class TruthNote(BaseModel):
    """One query whose ground truth needs attention."""

    model_config = ConfigDict(frozen=True)

    query_id: str
    note: str
    reason: str


class Report(BaseModel):
    """One run, as JSON."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    experiment: str
    logical_date: str
    status: str
    status_reason: str | None
    landed: str  # loaded or spooled
    spooled_because: str | None  # why the run waits in the spool
    home: str
    seconds: float
    settings: dict[str, Any]
    sizes: dict[str, JsonValue]
    measures: list[MeasureRow]
    stages: list[StageLine]
    truth_notes: list[TruthNote]
    short_queries: list[str]
    retrieval_notes: list[str] = []  # about the answers of a retriever from elsewhere
    left_out: list[str]  # files of the corpus folder that are of no kind that is read
    n_tasks: int
    spent: dict[str, float] = {}  # calls, tokens and money that it paid LLMs


def report_of(
    pipeline: Pipeline, context: RunContext, *, spooled_because: str | None, home: str
) -> Report:
    """Gather the report of a run whose stages are all done."""
    _, run_metrics = metrics_of(pipeline)
    row = run_row(pipeline, context)
    figures = {name: run.output.figures for name, run in pipeline.runs.items()}
    notes = pipeline.store.frame(pipeline.artifact("label", "notes"))
    retrieved = last_retrieving(pipeline.runs).output.figures
    embedded = figures.get("embed_chunks", {})
    model = pipeline.inputs.model
    short = dict.fromkeys(
        query_id for found in figures.values() for query_id in _listed(found.get("short_queries"))
    )
    return Report(
        run_id=context.run_id,
        experiment=row.experiment,
        logical_date=row.logical_date.isoformat(),
        status=row.status,
        status_reason=row.status_reason,
        landed="loaded" if spooled_because is None else "spooled",
        spooled_because=spooled_because,
        home=home,
        seconds=round(row.seconds, 3),
        settings=pipeline.experiment.model_dump(mode="json"),
        sizes={
            "n_documents": row.n_documents,
            "n_queries": row.n_queries,
            "n_chunks": row.n_chunks,
            "median_characters": figures["chunk_corpus"]["median_characters"],
            "n_truncated": embedded.get("n_truncated"),
            "n_encoded": embedded.get("n_encoded"),
            "dim": embedded.get("dim"),
            "latency_p50_ms": retrieved["latency_p50_ms"],
            "latency_p95_ms": retrieved["latency_p95_ms"],
            "index_bytes": figures.get("build_index", {}).get("n_bytes"),
            "ann_recall": {
                name: value
                for name, value in figures.get("retrieve", {}).items()
                if name.startswith("ann_recall@")
            },
            "n_ann_queries": figures.get("retrieve", {}).get("n_ann_queries"),
            "max_tokens": None if model is None else model.max_tokens,
            "n_filtered": figures["load_benchmark"]["n_filtered"],
            "n_unmatched": figures.get("retrieve_terms", {}).get("n_unmatched"),
            "n_pairs_truncated": figures.get("rerank", {}).get("n_truncated"),
            "ties": figures["rank"]["ties"],
        },
        measures=[
            MeasureRow(**values) for values in run_metrics.drop("contract_version").to_dicts()
        ],
        stages=[
            StageLine(
                stage=run.stage,
                cached=run.is_cached,
                seconds=round(run.seconds, 3),
                detail=_detail(run.output.figures),
            )
            for run in pipeline.runs.values()
        ],
        truth_notes=[
            TruthNote(query_id=note["query_id"], note=note["note"], reason=note["reason"])
            for note in notes.to_dicts()
        ],
        short_queries=list(short),
        retrieval_notes=notes_of(pipeline),
        left_out=list(pipeline.inputs.corpus.left_out),
        n_tasks=pipeline.n_tasks,
        spent=pipeline.spent,
    )


def _listed(value: JsonValue) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _detail(figures: Mapping[str, JsonValue]) -> str | None:
    if "n_pairs" in figures:
        known = f", {figures['n_reused']} known" if figures["n_reused"] else ""
        return f"{counted(figures['n_scored'], 'pair')} scored{known}"
    if "n_encoded" not in figures:
        return None
    known = f", {figures['n_reused']} known" if figures["n_reused"] else ""
    tokens = f", {counted(figures['tokens'], 'token')}" if figures.get("tokens") else ""
    cost = f", {figures['cost']:.4f} {figures['currency']}" if figures.get("cost") else ""
    return f"{counted(figures['n_encoded'], 'text')} encoded{known}{tokens}{cost}"
