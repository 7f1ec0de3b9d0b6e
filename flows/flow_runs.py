"""Flow runs of a suite's deployment on a Prefect server: due, stale, crashed, made up."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from flows.flow_run_processes import processes_of

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State, StateType
    from prefect.client.schemas.responses import FlowRunResponse

    from flows.scheduling import Timetable

RUNS_LISTED = 200
MADE_UP = "made-up"  # the tag of a missed night that is run after all
STALE = "its process ended without a word (killed, or the machine went down)"


def crash_stale(client: SyncPrefectClient, deployment_id: UUID) -> list[FlowRun]:
    """Set flow runs that hold the slot without a process to Crashed, and free what they hold.

    A flow run whose process lives on this machine is left alone: it goes on and frees the slot
    itself.

    Returns:
        The flow runs that were crashed.
    """
    alive = processes_of()
    stale = []
    n_alive = 0
    for run in _runs(client, _begun(), deployment=deployment_id):
        if str(run.id) in alive:
            n_alive += 1
            continue
        _crash(client, run.id, STALE)
        stale.append(run)
    _free_slots(client, deployment_id, n_alive)
    return stale


def crash(client: SyncPrefectClient, flow_run_id: UUID, message: str) -> State | None:
    """Set a flow run whose process has ended to Crashed, unless its state is final already.

    Returns:
        The state that it has now.
    """
    state = client.read_flow_run(flow_run_id).state
    if state is None or not (state.is_final() or state.is_scheduled()):
        _crash(client, flow_run_id, message)
        state = client.read_flow_run(flow_run_id).state
    return state


def take_due(client: SyncPrefectClient, deployment_id: UUID) -> FlowRun | None:
    """The flow run to start now: the newest night that is due, or what a person has started."""
    due = keep_newest(client, deployment_id)
    return client.read_flow_run(due[0].id) if due else None


def keep_newest(client: SyncPrefectClient, deployment_id: UUID) -> list[FlowRunResponse]:
    """Of several nights that wait drop all but the newest.

    Nights wait when one takes longer than the schedule's interval, or the machine was off or
    slept: each would evaluate the documents of today under the date of another day. What a person
    has started in the UI is never dropped.

    Returns:
        The flow runs that are due, the longest due first.
    """
    due = sorted(_overdue(client, deployment_id), key=_due_since)
    dropped = [run for run in due if _is_night(run)][:-1]
    for run in dropped:
        drop(client, run.id, "a newer night is due; only the newest one is run")
    return [run for run in due if run not in dropped]


def has_slot(client: SyncPrefectClient, flow_run_id: UUID) -> bool:
    """Set a flow run to Pending, which takes the deployment's slot; False: it has to wait."""
    from prefect.states import Pending

    client.set_flow_run_state(flow_run_id, Pending())
    state = client.read_flow_run(flow_run_id).state
    return state is not None and state.is_pending()


def drop(client: SyncPrefectClient, flow_run_id: UUID, why: str) -> None:
    """Cancel a flow run that has not begun."""
    from prefect.states import Cancelled

    client.set_flow_run_state(flow_run_id, Cancelled(message=why))


def done_dates(client: SyncPrefectClient, deployment_id: UUID, timetable: Timetable) -> set[date]:
    """Logical dates of the latest nights that ran to an end, or that a person cancelled."""
    from prefect.client.schemas.objects import StateType

    ended = (StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED)
    return {
        timetable.logical_date(run.expected_start_time)
        for run in _runs(client, ended, deployment=deployment_id)
        if run.expected_start_time is not None and run.start_time is not None
    }


def make_up(
    client: SyncPrefectClient, deployment_id: UUID, timetable: Timetable, since: datetime
) -> datetime | None:
    """Drop overdue nights and schedule the newest missed one, at the time that it was due.

    Args:
        client: of the server.
        deployment_id: the suite's.
        timetable: the suite's.
        since: when the suite was first deployed.

    Returns:
        When the night that is made up was due; None: nothing was missed.
    """
    from prefect.states import Scheduled

    now = datetime.now(UTC)
    for run in _overdue(client, deployment_id):
        if _is_night(run):
            drop(client, run.id, "missed; only the newest missed night is made up")
    done = done_dates(client, deployment_id, timetable)
    fire = timetable.newest_missed(since=since, now=now, done=done)
    if fire is not None:
        client.create_flow_run_from_deployment(
            deployment_id,
            state=Scheduled(scheduled_time=fire, message="missed; made up"),
            tags=[MADE_UP],
        )
    return fire


def _crash(client: SyncPrefectClient, flow_run_id: UUID, message: str) -> None:
    """Set a flow run, and those that it began within itself, to Crashed."""
    from prefect.states import Crashed

    for within in _runs(client, _begun(), parent=flow_run_id):
        client.set_flow_run_state(within.id, Crashed(message=message))
    client.set_flow_run_state(flow_run_id, Crashed(message=message))


def _begun() -> tuple[StateType, ...]:
    """The states that hold a slot."""
    from prefect.client.schemas.objects import StateType

    return (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)


def _overdue(client: SyncPrefectClient, deployment_id: UUID) -> list[FlowRunResponse]:
    return client.get_scheduled_flow_runs_for_deployments(
        [deployment_id], scheduled_before=datetime.now(UTC)
    )


def _due_since(run: FlowRunResponse) -> datetime:
    return run.expected_start_time or datetime.max.replace(tzinfo=UTC)


def _is_night(run: FlowRunResponse) -> bool:
    """Whether the schedule made a flow run, not a person."""
    return bool(run.auto_scheduled or MADE_UP in run.tags)


def _runs(
    client: SyncPrefectClient,
    types: tuple[StateType, ...],
    *,
    deployment: UUID | None = None,
    parent: UUID | None = None,
) -> list[FlowRun]:
    """The newest flow runs in one of these states: of a deployment, or within another flow run."""
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterDeploymentId,
        FlowRunFilterParentFlowRunId,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.sorting import FlowRunSort

    wanted = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(types))))
    if deployment is not None:
        wanted.deployment_id = FlowRunFilterDeploymentId(any_=[deployment])
    if parent is not None:
        wanted.parent_flow_run_id = FlowRunFilterParentFlowRunId(any_=[parent])
    return client.read_flow_runs(
        flow_run_filter=wanted, limit=RUNS_LISTED, sort=FlowRunSort.EXPECTED_START_TIME_DESC
    )


def _free_slots(client: SyncPrefectClient, deployment_id: UUID, n_alive: int) -> None:
    """Lower the slots in use to the runs that live: a server that was killed forgets its leases."""
    from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate

    limit = client.read_deployment(deployment_id).global_concurrency_limit
    if limit is not None and limit.active_slots > n_alive:
        client.update_global_concurrency_limit(
            limit.name, GlobalConcurrencyLimitUpdate(active_slots=n_alive)
        )
