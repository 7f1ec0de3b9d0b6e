"""The flow of one night: every experiment of a suite evaluated, compared with its baseline."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import prefect
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import deployment, flow_run
from prefect.states import Completed, Failed

from flows import nights
from flows.evaluate_retrieval import evaluate_retrieval
from flows.judging_nights import outcome_of
from flows.night_reports import NightReport, Outcome
from flows.planning_nights import Plan, Planned, plan_night
from flows.pruning import prune_after_night
from flows.telling import tell
from schemas.errors import RefusedError
from schemas.home import Home, find_home
from schemas.orders import Order
from schemas.requests import ComparisonRequest
from warehouse.load import load_parts
from warehouse.requests import drop_request, put_request
from warehouse.spool import new_run_id


@flow(name="run_nightly", flow_run_name="{suite.stem}", validate_parameters=True)
def run_nightly(
    suite: Path,
    home: str | None = None,
    logical_date: date | None = None,
    shows_progress: bool = False,
) -> State[Any]:
    """Evaluate the experiments of a suite, one after the other, and compare each.

    Args:
        suite: its TOML file.
        home: the home folder; by default ``$RANKHOUSE_HOME`` or the nearest ``.rankhouse/``.
        logical_date: the night; by default the day that it is in the schedule's time zone. One
            that is over is evaluated on the corpus of that night, where it is known.
        shows_progress: whether a person watches stderr.

    Returns:
        A state named by the verdict, with the night's report as JSON
        (``flows.night_reports.NightReport``). It is Failed when an experiment could not be
        measured, never for what was measured.

    Raises:
        RefusedError: suite, date or home cannot be used; nothing was written.
    """
    where = Home(Path(home)) if home else find_home()
    plan = plan_night(suite, where, asked=logical_date, at=_scheduled_at())
    night = _Night(plan, where, shows_progress)
    for planned in plan.experiments:
        night.evaluate(planned)
    report = night.report()
    tell(report, plan.suite.notify, where)
    prune_after_night(plan.suite, where)
    final = Failed if report.verdict is None else Completed
    return final(name=report.title, message=_message(report), data=report.model_dump(mode="json"))


def _scheduled_at() -> datetime:
    """When the night was to start: a late worker runs the night that it was meant for."""
    if deployment.id is None:
        return nights.now()
    at: datetime = flow_run.scheduled_start_time
    return at


def _message(report: NightReport) -> str:
    return "; ".join(
        f"{outcome.experiment}: {outcome.verdict or outcome.status}" for outcome in report.outcomes
    )


class _Night:
    """The night while it runs: what was evaluated, and what it has spent."""

    def __init__(self, plan: Plan, home: Home, shows_progress: bool):
        self.plan, self.home = plan, home
        self.shows_progress = shows_progress
        self.ran: list[tuple[str, str, dict[str, Any] | BaseException]] = []
        self.spent = {"calls": 0.0, "tokens": 0.0, "money": 0.0}
        self.flow_runs: dict[str, int] = {}

    def evaluate(self, planned: Planned) -> None:
        """Run one experiment; what goes wrong with it is kept for the report."""
        experiment, run_id = planned.entry.experiment, new_run_id()
        put_request(self.home, self._request(planned, run_id))
        with prefect.tags(experiment.name, self.plan.suite.name):
            state = evaluate_retrieval(
                experiment,
                home=str(self.home.path),
                logical_date=self.plan.night,
                shows_progress=self.shows_progress,
                order=self._order(planned, run_id),
                return_state=True,
            )
        result = state.result(raise_on_failure=False)
        n_tasks = 0
        if isinstance(result, dict):
            n_tasks = result["n_tasks"]
            for name in self.spent:
                self.spent[name] += result["spent"].get(name, 0.0)
        else:
            drop_request(self.home, run_id)
        self.flow_runs[str(state.state_details.flow_run_id)] = n_tasks
        self.ran.append((experiment.name, run_id, result))

    def report(self) -> NightReport:
        """Read what the comparisons found."""
        loaded = load_parts(self.home)  # once more, for what was locked meanwhile
        outcomes: list[Outcome] = []
        for experiment, run_id, result in self.ran:
            if isinstance(result, dict):
                outcomes.append(outcome_of(self.home, result, loaded))
            else:
                is_refused = isinstance(result, RefusedError)
                outcomes.append(
                    Outcome(
                        experiment=experiment,
                        run_id=None if is_refused else run_id,
                        status="refused" if is_refused else "failed",
                        reason=f"{type(result).__name__}: {result}",
                    )
                )
        return NightReport(
            suite=self.plan.suite.name,
            path=self.plan.suite.path,
            home=str(self.home.path),
            logical_date=self.plan.night,
            is_backfill=self.plan.is_backfill,
            outcomes=tuple(outcomes),
            flow_runs=self.flow_runs,
        )

    def _order(self, planned: Planned, run_id: str) -> Order:
        return Order(
            run_id=run_id,
            suite=self.plan.suite.name,
            is_backfill=self.plan.is_backfill,
            checks=self.plan.suite.checks,
            stored=planned.stored,
            night_budget=self.plan.suite.budget,
            spent_calls=int(self.spent["calls"]),
            spent_tokens=int(self.spent["tokens"]),
            spent_money=self.spent["money"],
        )

    def _request(self, planned: Planned, run_id: str) -> ComparisonRequest:
        return ComparisonRequest(
            run_id=run_id,
            experiment=planned.entry.experiment.name,
            suite=self.plan.suite.name,
            gates=planned.entry.gates,
            baseline=planned.baseline,
        )
