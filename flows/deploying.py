"""The deployment of a suite that is served: its flow, parameters, schedule and slot."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import ConfigurationError
from schemas.home import Home
from schemas.suites import Suite

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient

ENTRYPOINT = "flows.run_nightly.run_nightly"
"""Dotted: the file form loads a second copy of the module."""


def deploy(client: SyncPrefectClient, suite: Suite, home: Home) -> tuple[UUID, datetime]:
    """Tell the server about a suite, or of what has changed in it.

    One night at a time: a second one waits for the slot (ENQUEUE), so that none is lost; of
    several that wait ``rankhouse serve`` keeps the newest. A schedule that was paused in the UI
    stays paused.

    Returns:
        The deployment's id, and when the suite was deployed first.

    Raises:
        ConfigurationError: workers have a deployment of this name on the server.
    """
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.utilities.callables import parameter_schema

    from flows.run_nightly import run_nightly

    flow_id = client.create_flow(run_nightly)
    _refuse_that_of_workers(client, f"{run_nightly.name}/{suite.name}")
    cron = suite.schedule.cron
    schedules = []
    if cron is not None:
        schedule = CronSchedule(cron=cron, timezone=suite.schedule.timezone)
        schedules.append(DeploymentScheduleCreate(schedule=schedule, active=True))
    step = {"prefect.deployments.steps.set_working_directory": {"directory": str(Path.cwd())}}
    deployment_id = client.create_deployment(
        flow_id=flow_id,
        name=suite.name,
        description=f"`rankhouse serve {suite.path}`, results in {home.path}",
        entrypoint=ENTRYPOINT,
        pull_steps=[step],
        parameters={"suite": suite.path, "home": str(home.path)},
        parameter_openapi_schema=parameter_schema(run_nightly).model_dump_for_openapi(),
        enforce_parameter_schema=True,
        schedules=schedules,
        concurrency_limit=1,
        concurrency_options=ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
    )
    created = client.read_deployment(deployment_id).created
    if created is None:
        raise LookupError(f"the server does not say when {suite.name} was deployed")
    return deployment_id, created


def _refuse_that_of_workers(client: SyncPrefectClient, name: str) -> None:
    """A deployment that a worker takes runs from would run each night twice."""
    from prefect.exceptions import ObjectNotFound

    try:
        pool = client.read_deployment_by_name(name).work_pool_name
    except ObjectNotFound:
        return
    if pool:
        raise ConfigurationError(
            f"the Prefect server has a deployment {name} already, for workers of pool {pool!r}. "
            f"Give the suite another name, or end that one: prefect deployment delete {name}"
        )
