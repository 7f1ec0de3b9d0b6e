"""What a night checks beside its experiment: that embedding model and judge are what they were.

A check that cannot be made costs nobody the night's results: it is logged, and is an event of the
run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from schemas.checks import Checks
from schemas.counting import counted
from schemas.errors import RankhouseError
from schemas.experiment import Summary
from tasks import stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from flows.pipeline import Pipeline

logger = logging.getLogger("rankhouse")


def run_checks(pipeline: Pipeline) -> None:
    """Run the checks that the pipeline's order asks for, after all its stages are done."""
    checks, summary = pipeline.order.checks, pipeline.experiment.summary
    if checks is None:
        return
    if _has_canaries(pipeline, checks):
        _attempt(pipeline, "canary texts", lambda: _embed_canaries(pipeline))
    if summary is None or summary.judge == "lexical":
        return
    from tasks.questioning import needs_questions

    if not needs_questions(summary):
        return
    if checks.anchor.enabled:
        _attempt(pipeline, "the judge's anchor", lambda: _judge_anchor(pipeline, checks, summary))
    if checks.noise_runs:
        _attempt(pipeline, "the judge's noise", lambda: _judge_again(pipeline, checks, summary))


def _attempt(pipeline: Pipeline, what: str, check: Callable[[], None]) -> None:
    try:
        check()
    except (RankhouseError, OSError) as error:
        message = f"{what} could not be checked: {type(error).__name__}: {error}"
        logger.warning("%s", message)
        pipeline.unchecked.append(message)


def _has_canaries(pipeline: Pipeline, checks: Checks) -> bool:
    """A local model is loaded only where that was asked for: its weights are digested anyway."""
    is_embedded = "embed_chunks" in pipeline.runs
    is_remote = pipeline.experiment.embedding.endpoint is not None
    return is_embedded and (checks.canaries == "all" or (checks.canaries != "none" and is_remote))


def _embed_canaries(pipeline: Pipeline) -> None:
    embedding, model = pipeline.experiment.embedding, pipeline.inputs.model
    assert model is not None  # noqa: S101 - chunks were embedded
    settings = {"model": model.digest, "normalize": embedding.normalize}
    pipeline.run_anew(stages.embed_canaries, embedding=embedding, model=model, settings=settings)


def _judge_anchor(pipeline: Pipeline, checks: Checks, summary: Summary) -> None:
    from flows.nights import now
    from flows.ordering import within_night
    from tasks.engaging import settings_of_judge

    pipeline.run_anew(
        stages.judge_anchor,
        path=checks.anchor.path,
        night=(pipeline.logical_date or now().date()).isoformat(),
        n_repeats=checks.noise_runs,
        alpha=checks.anchor.alpha,
        summary=within_night(summary, pipeline.order),
        settings=settings_of_judge(summary),
        spent=pipeline.spent,
    )
    failed = pipeline.runs["judge_anchor"].output.figures["n_failed_items"]
    if failed:
        message = f"the judge's anchor: {counted(failed, 'item')} could not be judged"
        logger.warning("%s", message)
        pipeline.unchecked.append(message)


def _judge_again(pipeline: Pipeline, checks: Checks, summary: Summary) -> None:
    from flows.ordering import within_night
    from tasks.engaging import settings_of_scores

    pipeline.run_anew(
        stages.judge_again,
        contexts=pipeline.artifact("write_responses", "contexts"),
        responses=pipeline.artifact("write_responses", "responses"),
        bank=pipeline.artifact("build_question_bank", "bank"),
        n_repeats=checks.noise_runs,
        summary=within_night(summary, pipeline.order),
        settings=settings_of_scores(summary),
        spent=pipeline.spent,
    )
