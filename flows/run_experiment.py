"""The flow of a grid: its runs side by side, each distinct stage computed once."""

from __future__ import annotations

import contextvars
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import prefect
from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from prefect.utilities.annotations import quote

from flows.evaluate_retrieval import announcer
from flows.grid_preflight import survey_grid
from flows.grid_reports import GridReport, GridRunReport
from flows.landing import why_spooled
from flows.pipeline import Pipeline, store_of_workspace, workspace_of
from flows.preflight import Inputs
from flows.provenance import tags_of
from flows.results import RunContext, failed_frames_of, frames_of, run_row
from flows.sharing import GridStoppedError, SharedStages
from schemas.counting import counted
from schemas.errors import ConfigurationError, ValidationRefusedError
from schemas.experiment import Experiment
from schemas.grids import primary_measure_of
from schemas.home import Home, find_home
from tasks import stages
from tasks.caching import StagePolicy
from tasks.loaded_models import keeping_models
from tasks.progress import progress_writer
from warehouse.spool import Spool, StartedRun, new_run_id

logger = logging.getLogger("rankhouse")

MOST_AT_ONCE = 4  # runs; more would only wait for the machine


@dataclass(slots=True)
class GridRun:
    """A grid that is under way: what its runs have in common."""

    grid_id: str
    primary_measure: str
    home: Home
    logical_date: date
    inputs: dict[str, Inputs]
    show: Callable[[str], None] | None
    shared: SharedStages = field(default_factory=SharedStages)
    started: list[StartedRun] = field(default_factory=list)
    reports: dict[str, GridRunReport] = field(default_factory=dict)  # by experiment
    n_tasks: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end_with(self, error: BaseException) -> None:
        """Let nothing start any more, and say of each unfinished run why it ended."""
        with self.lock:
            for started in self.started:
                started.__exit__(type(error), error, error.__traceback__)
            self.shared.stop()

    def start(self, run_id: str, experiment: Experiment) -> StartedRun:
        """Start a run, unless the grid was interrupted.

        Raises:
            GridStoppedError: it was.
        """
        with self.lock:
            self.shared.refuse_when_stopped()
            started = Spool(self.home).start(run_id, experiment=experiment.name)
            self.started.append(started)
            return started


_GRID: contextvars.ContextVar[GridRun] = contextvars.ContextVar("grid")
"""Of the thread's flow run; a subflow's parameters could not carry it."""


@flow(name="run_experiment", flow_run_name="{name}", validate_parameters=True)
def run_experiment(
    experiments: list[Experiment],
    name: str = "experiment",
    primary_measure: str | None = None,
    home: str | None = None,
    logical_date: date | None = None,
    n_at_once: int | None = None,
    shows_progress: bool = False,
) -> State[Any]:
    """Evaluate several experiments as one grid; what they share is computed once.

    Args:
        experiments: configurations with different names; their paths are absolute.
        name: of the grid.
        primary_measure: what the runs are compared on; by default the first measure.
        home: the home folder; by default ``$RANKHOUSE_HOME`` or the nearest ``.rankhouse/``.
        logical_date: the night that the runs stand for; today in UTC by default.
        n_at_once: how many runs go on side by side; by default one a core, at most four.
        shows_progress: whether a person watches stderr.

    Returns:
        A state with the report as JSON (``flows.grid_reports.GridReport``); it is Failed when a
        run failed, though every other one has landed.

    Raises:
        RefusedError: something cannot be used; nothing was written.
    """
    started = time.perf_counter()
    _refuse_equal_names(experiments)
    primary = primary_measure_of(primary_measure, experiments)
    where = Home(Path(home)) if home else find_home()
    grid = GridRun(
        grid_id=new_run_id(),
        primary_measure=primary,
        home=where,
        logical_date=logical_date or datetime.now(UTC).date(),
        inputs=survey_grid(experiments, where, night=logical_date),
        show=progress_writer(shows_progress),
    )
    token = _GRID.set(grid)
    try:
        with keeping_models():
            _run_side_by_side(
                experiments, grid, n_at_once or min(MOST_AT_ONCE, os.cpu_count() or 1)
            )
    finally:
        _GRID.reset(token)
    loaded = stages.load_results(home=quote(where))
    if loaded.problem:
        logger.warning("problem: %s", loaded.problem)
    reports = [grid.reports[experiment.name] for experiment in experiments]
    report = GridReport(
        grid_id=grid.grid_id,
        name=name,
        primary_measure=primary,
        home=str(where.path),
        seconds=round(time.perf_counter() - started, 3),
        runs=[
            run.model_copy(update={"spooled_because": why_spooled(loaded, run.run_id)})
            for run in reports
        ],
        n_tasks=grid.n_tasks + 1,
    )
    _show_in_prefect(report)
    data = report.model_dump(mode="json")
    if report.n_failed:
        return Failed(
            data=data, message=f"{report.n_failed} of {counted(len(reports), 'run')} failed"
        )
    return Completed(data=data)


@flow(name="evaluate_combination", flow_run_name="{experiment.name}", validate_parameters=False)
def evaluate_combination(experiment: Experiment, grid_id: str) -> dict[str, Any]:
    """One run of a grid; see ``run_experiment``, which alone can call it.

    Raises:
        Exception: what made it fail; it has landed as a failed run all the same, unless its
            results break the tables' models.
    """
    grid = _GRID.get()
    workspace = workspace_of(experiment, grid.home, shows_progress=False)
    context = RunContext(
        run_id=new_run_id(),
        logical_date=grid.logical_date,
        flow_run_id=flow_run.id,
        grid_id=grid_id,
        primary_measure=grid.primary_measure,
    )
    with grid.start(context.run_id, experiment) as started:
        pipeline = Pipeline(
            experiment,
            grid.inputs[experiment.name],
            workspace,
            store_of_workspace(workspace),
            announcer(started, _shown(grid, experiment)),
            shared=grid.shared,
            logical_date=grid.logical_date,
        )
        error: Exception | None = None
        try:
            pipeline.run()
            frames = pipeline.read_back(lambda: frames_of(pipeline, context))
            grid.shared.refuse_when_stopped()
            started.enter_stage("write_results")
            pipeline.stage = "write_results"
            pipeline.n_tasks += 1
            stages.write_results(started=quote(started), frames=quote(frames))
        except (GridStoppedError, ValidationRefusedError) as refused:
            error = refused
            raise
        except Exception as failure:
            error = failure
            started.finish(failed_frames_of(pipeline, context, stage=pipeline.stage, error=failure))
            raise
        finally:
            _report(grid, pipeline, context, error)
    return grid.reports[experiment.name].model_dump(mode="json")


def _run_side_by_side(experiments: Sequence[Experiment], grid: GridRun, n_at_once: int) -> None:
    """Run every experiment; threads that an interruption need not wait for."""
    _fingerprint_stages()
    waiting: queue.SimpleQueue[Experiment] = queue.SimpleQueue()
    for experiment in experiments:
        waiting.put(experiment)
    threads = [
        threading.Thread(
            target=contextvars.copy_context().run,
            args=(_run_what_waits, waiting, grid),
            name=f"grid-{number}",
            daemon=True,
        )
        for number in range(min(n_at_once, len(experiments)))
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(timeout=0.2)
    except BaseException as error:
        grid.end_with(error)
        raise


def _fingerprint_stages() -> None:
    """Parse the stages' code before there are threads; see ``tasks.fingerprints``.

    A library that parses code while it is imported in one thread must not meet it in another.
    """
    policies = [getattr(task, "cache_policy", None) for task in vars(stages).values()]
    digests = [policy.code_digest for policy in policies if isinstance(policy, StagePolicy)]
    logger.debug("%d stages fingerprinted", len(digests))


def _run_what_waits(waiting: queue.SimpleQueue[Experiment], grid: GridRun) -> None:
    while True:
        try:
            experiment = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            with prefect.tags(*tags_of(experiment)):
                evaluate_combination(experiment, grid.grid_id)
        except GridStoppedError:
            return
        except Exception as error:  # the others go on, whatever it was
            _note_failure(grid, experiment, error)


def _note_failure(grid: GridRun, experiment: Experiment, error: BaseException) -> None:
    """Report a run that failed; also one that could not even start."""
    reason = f"{type(error).__name__}: {error}"
    known = grid.reports.get(experiment.name)
    if known is None:
        known = GridRunReport(
            run_id="", experiment=experiment.name, status="failed", status_reason=reason, seconds=0
        )
    failed = {"status": "failed", "status_reason": known.status_reason or reason}
    grid.reports[experiment.name] = known.model_copy(update=failed)
    logger.warning("failed: %s: %s", experiment.name, grid.reports[experiment.name].status_reason)


def _report(
    grid: GridRun, pipeline: Pipeline, context: RunContext, error: Exception | None
) -> None:
    runs = list(pipeline.runs.values())
    status, reason = "failed", None if error is None else f"{pipeline.stage}: {error}"
    if error is None and "rank" in pipeline.runs:
        row = run_row(pipeline, context)
        status, reason = row.status, row.status_reason
    with grid.lock:
        grid.n_tasks += pipeline.n_tasks
        grid.reports[pipeline.experiment.name] = GridRunReport(
            run_id=context.run_id,
            experiment=pipeline.experiment.name,
            status=status,
            status_reason=reason,
            seconds=round(time.perf_counter() - context.started, 3),
            n_computed=sum(not run.is_cached for run in runs),
            n_shared=sum(run.is_shared for run in runs),
            n_cached=sum(run.is_cached and not run.is_shared for run in runs),
        )


def _shown(grid: GridRun, experiment: Experiment) -> Callable[[str], None] | None:
    show, n_runs = grid.show, len(grid.inputs)
    if show is None:
        return None
    return lambda stage: show(f"{len(grid.reports)} of {n_runs} done · {experiment.name}: {stage}")


def _refuse_equal_names(experiments: Sequence[Experiment]) -> None:
    names = [experiment.name for experiment in experiments]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise ConfigurationError(
            f"experiments with the same name: {', '.join(twice)}; give each its own"
            if twice
            else "there is no experiment to run; name at least one"
        )


def _show_in_prefect(report: GridReport) -> None:
    """A table of the runs beside the flow run."""
    create_table_artifact(
        table=[run.model_dump() for run in report.runs],
        key="grid-runs",
        description=f"{report.name}, grid {report.grid_id}",
    )
