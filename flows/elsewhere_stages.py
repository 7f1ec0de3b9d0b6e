"""The stage of a retriever from elsewhere: what decides its rankings, and what it has to say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from schemas.artifacts import Artifact
from schemas.counting import counted
from schemas.errors import StageError
from tasks import stages
from tasks.elsewhere import asked_depth
from warehouse import rows

if TYPE_CHECKING:
    from flows.pipeline import Pipeline
    from flows.retrieval_stages import Searched

logger = logging.getLogger("rankhouse")

STAGE = "retrieve_elsewhere"
UNMATCHED_LISTED = 100
"""Results that are nowhere in the corpus, as events of a run; the artifact has all of them."""


def retrieve_elsewhere(pipeline: Pipeline, searched: Searched) -> dict[str, Artifact]:
    """Ask the plug-in or the server, or read the run file; what it notes goes to stderr too."""
    retrieval = pipeline.experiment.retrieval
    are_documents = pipeline.experiment.labelling.method == "document"
    artifacts = pipeline.run_stage(
        stages.retrieve_elsewhere,
        documents=searched.documents,
        chunks=searched.chunks,
        queries=searched.queries,
        retrieval=retrieval,
        settings=_settings(pipeline, are_documents=are_documents),
        ranks_documents=are_documents,
    )
    n_unmatched = artifacts["unmatched"].n_items
    if retrieval.rerank is not None and n_unmatched:
        raise StageError(
            f"{counted(n_unmatched, 'result')} of retrieval.{retrieval.elsewhere} "
            f"{'is' if n_unmatched == 1 else 'are'} nowhere in the corpus: without texts "
            "there is no reranking. Leave out retrieval.rerank, or evaluate "
            "with the corpus that the retriever searches."
        )
    for note in notes_of(pipeline):
        logger.warning("%s: %s", f"retrieval.{retrieval.elsewhere}", note)
    return artifacts


def notes_of(pipeline: Pipeline) -> list[str]:
    """What has to be known about the rankings of a retriever from elsewhere; empty: nothing."""
    run = pipeline.runs.get(STAGE)
    notes = None if run is None else run.output.figures.get("notes")
    return [str(note) for note in notes] if isinstance(notes, list) else []


def failed_queries(pipeline: Pipeline) -> Artifact | None:
    """FAILED_QUERIES of a retriever from elsewhere; None: there is no such retriever."""
    return pipeline.artifact(STAGE, "failed") if STAGE in pipeline.runs else None


def reason_of_failures(pipeline: Pipeline) -> str | None:
    """How many queries stayed without an answer, and why the first did; None: none."""
    artifact = failed_queries(pipeline)
    if artifact is None or not artifact.n_items:
        return None
    first = pipeline.store.frame(artifact).row(0, named=True)
    return (
        f"queries that were not answered: {artifact.n_items}, such as {first['query_id']!r}: "
        f"{first['reason']}"
    )


def events_of(pipeline: Pipeline, run_id: str) -> Iterator[rows.EventRow]:
    """Failed queries, queries that a run file lacks, and results that are nowhere in the corpus."""
    if STAGE not in pipeline.runs:
        return

    def event(query_id: str, message: str, **details: Any) -> rows.EventRow:
        return rows.EventRow(
            run_id=run_id,
            kind="warning",
            stage=STAGE,
            query_id=query_id,
            message=message,
            details=details,
        )

    for query_id, reason in pipeline.store.frame(pipeline.artifact(STAGE, "failed")).iter_rows():
        yield event(query_id, f"not answered: {reason}")
    missing = pipeline.runs[STAGE].output.figures.get("missing_queries")
    for query_id in missing if isinstance(missing, list) else []:
        yield event(str(query_id), "missing from the run file; counts as nothing retrieved")
    unmatched = pipeline.store.frame(pipeline.artifact(STAGE, "unmatched"))
    for query_id, item_id, given in unmatched.head(UNMATCHED_LISTED).iter_rows():
        yield event(query_id, f"a result is nowhere in the corpus: {given}", item_id=item_id)


def _settings(pipeline: Pipeline, *, are_documents: bool) -> dict[str, Any]:
    """What decides the rankings: never a path, a time limit or a key."""
    retrieval = pipeline.experiment.retrieval
    settings: dict[str, Any] = {
        "source": retrieval.elsewhere,
        "k": asked_depth(retrieval, are_documents=are_documents),
        "depth": retrieval.depth,
        "options": retrieval.options,
        "digest": pipeline.inputs.retriever_digest,
    }
    if retrieval.plugin is not None:
        settings["plugin"] = retrieval.plugin
    if retrieval.http is not None:
        # What a server holds is not known: its answers are those of one night, or of a version.
        night = pipeline.logical_date or datetime.now(UTC).date()
        version = retrieval.http.version
        settings["url"] = retrieval.http.url
        settings["asked"] = f"night {night}" if version is None else f"version {version}"
    return settings
