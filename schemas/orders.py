"""What a suite or a grid asks of a run, beyond what its experiment file says."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field

from schemas.artifacts import Artifact
from schemas.checks import Checks
from schemas.endpoints import Budget
from schemas.experiment import Experiment
from schemas.sections import Section

DATE_PLACE = "{date}"
"""In the path of a corpus or benchmark: stands for the night's date, as 2026-11-29."""


class StoredDocuments(Section):
    """The documents of a past run, as they lie in the artifact store."""

    corpus_digest: str  # of the files that they were read from
    documents: Artifact
    stage_key: str  # of the stage that read them, likewise below
    code_digest: str


class Order(Section):
    """One run as somebody asks for it; by default it is a run of its own."""

    run_id: str | None = None  # None: it gets one when it starts
    suite: str | None = None
    is_backfill: bool = False  # its night was over when it started
    checks: Checks | None = None  # of a night; None: none
    stored: StoredDocuments | None = None  # in place of the corpus' files
    night_budget: Budget | None = None  # of all runs of the night together
    spent_calls: Annotated[int, Field(ge=0)] = 0  # by the runs of the night before this one
    spent_tokens: Annotated[int, Field(ge=0)] = 0
    spent_money: Annotated[float, Field(ge=0)] = 0.0


def at_date(experiment: Experiment, night: date) -> Experiment:
    """The experiment whose corpus and benchmark are those of a night."""

    def dated(path: str) -> str:
        return path.replace(DATE_PLACE, night.isoformat())

    corpus, benchmark = experiment.corpus, experiment.benchmark
    return experiment.model_copy(
        update={
            "corpus": corpus.model_copy(update={"path": dated(corpus.path)}),
            "benchmark": benchmark.model_copy(update={"path": dated(benchmark.path)}),
        }
    )
