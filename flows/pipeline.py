"""The stages of one evaluation, in order, each reused when nothing that decides it has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flows.elsewhere_stages import failed_queries
from flows.ordering import stored_run, within_night
from flows.retrieval_stages import Searched, retrieve
from schemas.artifacts import Artifact, StageOutput
from schemas.errors import ArtifactDamagedError
from schemas.experiment import Experiment, Summary
from schemas.home import Home
from schemas.orders import Order
from tasks import stages
from tasks.artifacts import ArtifactStore
from tasks.caching import StageRun, Workspace, run_stage

if TYPE_CHECKING:
    from flows.preflight import Inputs
    from flows.sharing import SharedStages

logger = logging.getLogger("rankhouse")
Read = TypeVar("Read")

MOST_REPAIRS = 12
"""A run is given up when it meets more damaged artifacts than it has stages."""


@dataclass
class Pipeline:
    """One evaluation's stages and what they made so far."""

    experiment: Experiment
    inputs: Inputs
    workspace: Workspace
    store: ArtifactStore
    on_stage: Callable[[str], None]
    runs: dict[str, StageRun] = field(default_factory=dict)
    stage: str = "start"
    damage: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)  # checks of the night that failed
    n_tasks: int = 0
    rankings: Artifact | None = None  # of the last stage that retrieves
    shared: SharedStages | None = None  # with the other runs of a grid
    order: Order = field(default_factory=Order)
    logical_date: date | None = None  # the night that the run stands for; None: today in UTC

    def run(self) -> None:
        """Run every stage; a damaged artifact is forgotten and what made it runs again.

        Raises:
            RankhouseError: a stage failed.
        """
        for _ in range(MOST_REPAIRS):
            try:
                self._run_once()
                return
            except ArtifactDamagedError as error:
                self._forget(error)
        self._run_once()

    def read_back(self, read: Callable[[], Read]) -> Read:
        """What ``read`` makes of the artifacts of a run whose stages are done.

        It may be the first to read what a stage has reused: what made a damaged one runs again.

        Raises:
            RankhouseError: a stage failed.
        """
        for _ in range(MOST_REPAIRS):
            try:
                return read()
            except ArtifactDamagedError as error:
                self._forget(error)
                self.run()
        return read()

    def _forget(self, damaged: ArtifactDamagedError) -> None:
        logger.warning("%s; what made it runs again", damaged)
        self.damage.append(str(damaged))
        self.store.forget_damaged(damaged.name)

    def artifact(self, stage: str, name: str) -> Artifact:
        """What a stage of this run made."""
        return self.runs[stage].output.artifacts[name]

    @property
    def retrieved(self) -> Artifact:
        """The rankings that are scored: those of the last stage that retrieves."""
        if self.rankings is None:
            raise LookupError("no stage of this run has retrieved yet")
        return self.rankings

    def has(self, *artifacts: Artifact) -> bool:
        """Whether these can be read now; not so in a plan, where nothing has run."""
        return True

    def _run_once(self) -> None:
        experiment, inputs = self.experiment, self.inputs
        documents, queries = self._load()
        chunks = self.run_stage(
            stages.chunk_corpus,
            documents=documents,
            chunking=experiment.chunking,
            tokenizer_digest=inputs.tokenizer_digest,
            tokenizer_file=inputs.tokenizer_file,
            plugin_digest=inputs.plugin_digest,
        )["chunks"]
        self.run_stage(
            stages.label,
            documents=documents,
            chunks=chunks,
            queries=queries,
            labelling=experiment.labelling,
        )
        if experiment.benchmark.strict:
            self._refuse_lost_truth()
        rankings = self.rankings = retrieve(self, Searched(documents, chunks, queries))
        self.run_stage(
            stages.rank,
            rankings=rankings,
            labels=self.artifact("label", "labels"),
            truth=self.artifact("label", "truth"),
            chunks=chunks,
            queries=queries,
            failed=failed_queries(self),
            measures=[(str(m), m.contract.version) for m in experiment.parsed_measures],
            labelling=experiment.labelling,
            depth=experiment.retrieval.depth,
        )
        if experiment.summary is not None:
            self._summarize(experiment.summary, queries=queries, rankings=rankings, chunks=chunks)

    def _summarize(self, summary: Summary, **inputs: Artifact) -> None:
        from tasks import engaging

        self._warn_of_unknown_prices(summary)
        summary = within_night(summary, self.order)
        written = self.run_stage(
            stages.write_responses,
            summary=summary,
            settings=engaging.settings_of_generator(summary),
            spent=self.spent,
            **inputs,
        )
        bank = self.run_stage(
            stages.build_question_bank,
            contexts=written["contexts"],
            summary=summary,
            settings=engaging.settings_of_judge(summary),
            spent=self.spent,
        )["bank"]
        self.run_stage(
            stages.score_summaries,
            queries=inputs["queries"],
            contexts=written["contexts"],
            responses=written["responses"],
            bank=bank,
            summary=summary,
            settings=engaging.settings_of_scores(summary),
            spent=self.spent,
        )

    @property
    def spent(self) -> dict[str, float]:
        """Calls, tokens and money that this run has paid so far."""
        figures = [run.output.figures for run in self.runs.values() if not run.is_cached]
        return {
            name: sum(float(str(of_stage.get(f"spent_{name}", 0))) for of_stage in figures)
            for name in ("calls", "tokens", "money")
        }

    def _warn_of_unknown_prices(self, summary: Summary) -> None:
        priced = {price.model for price in summary.prices}
        for model in sorted({endpoint.model for endpoint in summary.endpoints.values()} - priced):
            logger.warning("summary.prices has no price of %s: its cost is NULL", model)

    def _load(self) -> tuple[Artifact, Artifact]:
        inputs = self.inputs
        if self.order.stored is not None:
            self.runs["load_corpus"] = stored_run(self.order.stored, self.store)
            documents = self.artifact("load_corpus", "documents")
        else:
            documents = self.run_stage(
                stages.load_corpus, source=inputs.corpus, source_digest=inputs.corpus.digest
            )["documents"]
        queries = self.run_stage(
            stages.load_benchmark,
            source=inputs.benchmark,
            source_digest=inputs.benchmark.digest,
            split=self.experiment.benchmark.split,
        )["queries"]
        if self.runs["load_benchmark"].output.figures["n_bare_spans"]:
            queries = self._call(
                stages.fill_quotes,
                documents=documents,
                queries=queries,
                benchmark_path=self.experiment.benchmark.path,
            ).artifacts["queries"]
        return documents, queries

    def _refuse_lost_truth(self) -> None:
        from tasks.labelling import check_strict

        check_strict(self.store.frame(self.artifact("label", "notes")))

    def run_stage(self, task: Any, **inputs: Any) -> dict[str, Artifact]:
        """Run one stage, or reuse it; ``inputs`` are its task's parameters but the workspace."""
        name = task.cache_policy.stage
        self.stage = name
        self.on_stage(name)
        call = run_stage if self.shared is None else self.shared.run
        run = call(task, self.store, workspace=self.workspace, **inputs)
        self.n_tasks += not run.is_shared
        self.runs[name] = run
        return run.output.artifacts

    def run_anew(self, task: Any, **inputs: Any) -> None:
        """Run a stage whatever was stored of it: for what has to be asked again each night."""
        name = task.cache_policy.stage
        self.on_stage(name)
        self.n_tasks += 1
        self.runs[name] = run_stage(
            task, self.store, is_anew=True, workspace=self.workspace, **inputs
        )

    def _call(self, task: Any, **inputs: Any) -> StageOutput:
        """Call a task that is never cached."""
        self.n_tasks += 1
        return StageOutput.model_validate(task(workspace=self.workspace, **inputs))


def workspace_of(experiment: Experiment, home: Home, *, shows_progress: bool) -> Workspace:
    """Where the stages of an experiment read and write."""
    return Workspace(
        store_url=experiment.execution.store or str(home.artifacts),
        scratch=str(home.path / "downloads"),
        items=str(home.items),
        threads=experiment.execution.threads,
        device=experiment.execution.device,
        shows_progress=shows_progress,
    )


def store_of_workspace(workspace: Workspace) -> ArtifactStore:
    """The artifact store, made ready."""
    return ArtifactStore(workspace.store_url, scratch=Path(workspace.scratch)).prepare()
