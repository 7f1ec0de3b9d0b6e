"""The flow of one evaluation: refuse what cannot work, run the stages, land the results."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from prefect.utilities.annotations import quote

from flows import nights
from flows.landing import why_spooled
from flows.night_checks import run_checks
from flows.pipeline import Pipeline, store_of_workspace, workspace_of
from flows.preflight import check_endpoints, check_storage, survey_inputs
from flows.reporting import Report, report_of
from flows.results import RunContext, failed_frames_of, frames_of
from schemas.errors import RefusedError
from schemas.experiment import Experiment
from schemas.home import Home, find_home
from schemas.orders import Order
from tasks import stages
from tasks.progress import progress_writer
from warehouse.load import load_parts
from warehouse.spool import Spool, StartedRun, new_run_id

logger = logging.getLogger("rankhouse")


@flow(name="evaluate_retrieval", flow_run_name="{experiment.name}", validate_parameters=True)
def evaluate_retrieval(
    experiment: Experiment,
    home: str | None = None,
    logical_date: date | None = None,
    shows_progress: bool = False,
    order: Order = Order(),  # noqa: B008 - frozen
) -> dict[str, Any]:
    """Evaluate one experiment and write the results to the warehouse.

    Args:
        experiment: the configuration; its paths are absolute.
        home: the home folder; by default ``$RANKHOUSE_HOME`` or the nearest ``.rankhouse/``.
        logical_date: the night that the run stands for; today in UTC by default.
        shows_progress: whether a person watches stderr.
        order: what a suite or grid asks of the run beyond that.

    Returns:
        The run's report as JSON (``flows.reporting.Report``).

    Raises:
        RefusedError: something cannot be used; nothing was written.
        RankhouseError: a stage failed; the warehouse has a failed run that says where.
    """
    where = Home(Path(home)) if home else find_home()
    check_storage(experiment, where)
    night = logical_date or datetime.now(UTC).date()
    inputs = survey_inputs(experiment, night=night, stored=order.stored)
    check_endpoints(experiment, where)
    workspace = workspace_of(experiment, where, shows_progress=shows_progress)
    context = RunContext(
        run_id=order.run_id or new_run_id(),
        logical_date=night,
        flow_run_id=flow_run.id,
        suite=order.suite,
        is_backfill=order.is_backfill,
        started_at=nights.now(),
    )
    with Spool(where).start(context.run_id, experiment=experiment.name) as started:
        pipeline = Pipeline(
            experiment,
            inputs,
            workspace,
            store_of_workspace(workspace),
            announcer(started, progress_writer(shows_progress)),
            order=order,
            logical_date=context.logical_date,
        )
        _run_or_record_failure(pipeline, context, started, where)
        run_checks(pipeline)
        frames = pipeline.read_back(lambda: frames_of(pipeline, context))
        started.enter_stage("write_results")
        stages.write_results(started=quote(started), frames=quote(frames))
        loaded = stages.load_results(home=quote(where))
        pipeline.n_tasks += 2
        if loaded.problem and loaded.has_landed(context.run_id):
            logger.warning("problem: %s", loaded.problem)
        report = pipeline.read_back(
            lambda: report_of(
                pipeline,
                context,
                spooled_because=why_spooled(loaded, context.run_id),
                home=str(where.path),
            )
        )
    _show_in_prefect(report)
    return report.model_dump(mode="json")


def _run_or_record_failure(
    pipeline: Pipeline, context: RunContext, started: StartedRun, home: Home
) -> None:
    """Run the stages; what fails after work began leaves a failed run in the warehouse."""
    try:
        pipeline.run()
    except RefusedError:
        raise
    except Exception as error:
        started.finish(failed_frames_of(pipeline, context, stage=pipeline.stage, error=error))
        try:
            load_parts(home)
        except RefusedError as refused:  # the stage's failure is what has to be told
            logger.warning("problem: %s", refused)
        raise


def announcer(started: StartedRun, show: Callable[[str], None] | None) -> Callable[[str], None]:
    """Say which stage the run is in: to the spool, and to a person who watches."""

    def announce(stage: str) -> None:
        started.enter_stage(stage)
        if show is not None:
            show(f"{stage} …")

    return announce


def _show_in_prefect(report: Report) -> None:
    """A table of the result beside the flow run."""
    create_table_artifact(
        table=[row.model_dump() for row in report.measures],
        key="retrieval-measures",
        description=f"{report.experiment}, run {report.run_id}, {report.status}",
    )
