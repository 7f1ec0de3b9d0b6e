"""Of nights that wait only the newest is run; what a person has started is never dropped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from flows.deploying import deploy
from flows.flow_run_processes import processes_of
from flows.flow_runs import MADE_UP, crash_stale, keep_newest
from schemas.errors import ConfigurationError
from schemas.home import Home
from schemas.suites import Schedule, Suite

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def flow_run(hours_ago: int, *, auto: bool = True, tags: tuple[str, ...] = ()) -> SimpleNamespace:
    due = NOW - timedelta(hours=hours_ago)
    return SimpleNamespace(
        id=uuid4(), expected_start_time=due, auto_scheduled=auto, tags=list(tags), state=None
    )


class FakeServer:
    """The part of Prefect's client that is asked, with flow runs of the test's own."""

    def __init__(self, runs: list[SimpleNamespace], active_slots: int = 0):
        self.runs = runs
        self.states: dict[UUID, Any] = {}
        self.limit = SimpleNamespace(name="deployment:x", active_slots=active_slots)

    def get_scheduled_flow_runs_for_deployments(self, *_: Any, **__: Any) -> list[Any]:
        return self.runs

    def read_flow_runs(self, *, flow_run_filter: Any, **_: Any) -> list[Any]:
        return [] if flow_run_filter.deployment_id is None else self.runs

    def set_flow_run_state(self, flow_run_id: UUID, state: Any) -> None:
        self.states[flow_run_id] = state

    def read_deployment(self, _: UUID) -> SimpleNamespace:
        return SimpleNamespace(global_concurrency_limit=self.limit)

    def update_global_concurrency_limit(self, name: str, change: Any) -> None:
        assert name == self.limit.name
        self.limit.active_slots = change.active_slots


def test_of_three_nights_that_wait_the_two_older_ones_are_dropped() -> None:
    oldest, newest, older = flow_run(58), flow_run(10), flow_run(34)
    server = FakeServer([oldest, newest, older])
    assert keep_newest(server, uuid4()) == [newest]  # type: ignore[arg-type]
    assert {id: state.name for id, state in server.states.items()} == {
        oldest.id: "Cancelled",
        older.id: "Cancelled",
    }


def test_what_a_person_started_is_kept_and_goes_in_order() -> None:
    clicked, made_up, night = flow_run(20, auto=False), flow_run(30, tags=(MADE_UP,)), flow_run(1)
    server = FakeServer([night, clicked, made_up])
    assert keep_newest(server, uuid4()) == [clicked, night]  # type: ignore[arg-type]
    assert list(server.states) == [made_up.id]


def test_a_run_whose_process_lives_keeps_its_slot_and_a_dead_one_loses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alive, dead = flow_run(1), flow_run(2)
    monkeypatch.setattr("flows.flow_runs.processes_of", lambda: {str(alive.id): [object()]})
    # Two slots are said to be taken: a server that was killed forgot that one was freed.
    server = FakeServer([alive, dead], active_slots=2)
    assert crash_stale(server, uuid4()) == [dead]  # type: ignore[arg-type]
    assert {id: state.name for id, state in server.states.items()} == {dead.id: "Crashed"}
    assert server.limit.active_slots == 1


def test_no_process_of_a_flow_run_that_never_was_is_found() -> None:
    assert processes_of(uuid4()) == {}


def test_a_suite_is_not_served_where_workers_run_it() -> None:
    server = SimpleNamespace(
        create_flow=lambda _: uuid4(),
        read_deployment_by_name=lambda _: SimpleNamespace(work_pool_name="rankhouse"),
    )
    suite = Suite.model_construct(name="nightly", path="/x/suite.toml", schedule=Schedule())
    with pytest.raises(ConfigurationError, match="run_nightly/nightly already, for workers"):
        deploy(server, suite, Home(Path("home")))  # type: ignore[arg-type]
