"""What ``rankhouse evaluate`` and ``rankhouse demo`` do around the flow."""

from __future__ import annotations

import json
import logging
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from flows.printing import is_interactive, print_rows, say
from schemas.experiment import Experiment
from schemas.home import Home
from tasks.memory import freeze_libraries
from tasks.progress import progress_writer

if TYPE_CHECKING:
    from flows.reporting import Report

MEASURE_COLUMNS = (
    "run_id",
    "measure",
    "mean",
    "n_scored",
    "n_queries",
    "n_lost",
    "n_failed",
    "low",
    "high",
)


def evaluate_and_print(
    experiment: Experiment,
    home: Home,
    *,
    logical_date: date | None,
    format: str,
    home_prefix: str = "",
) -> int:
    """Evaluate, print the report to stdout, and return the exit code.

    Args:
        experiment: its paths are absolute.
        home: where results go.
        logical_date: the night that the run stands for; None: today.
        format: table, json or csv.
        home_prefix: a home that the suggested commands have to name.

    Raises:
        RankhouseError: see ``evaluate_retrieval``.
    """
    from flows.preflight import (
        check_benchmark,
        check_endpoints,
        check_storage,
        refuse_unlikely,
        survey_inputs,
    )

    # Refused here, before Prefect is imported or its server started.
    log_to_stderr()
    refuse_unlikely(logical_date)
    check_benchmark(survey_inputs(experiment, say=say, night=logical_date), experiment)
    check_storage(experiment, home)
    check_endpoints(experiment, home)
    say(f"home {home.path}")
    report = _evaluate(experiment, home, logical_date)
    if format == "table":
        from flows.rendering import render

        click.echo(render(report, prefix=home_prefix))
    elif format == "json":
        click.echo(json.dumps(report.model_dump(mode="json"), ensure_ascii=True, indent=2))
    else:
        rows = [{"run_id": report.run_id, **row.model_dump()} for row in report.measures]
        print_rows(rows, MEASURE_COLUMNS, format="csv")
    if report.status == "degraded":
        say(f"degraded: {report.status_reason}")
    if report.landed == "spooled":
        say(f"spooled: {report.spooled_because}")
    return 0


def _evaluate(experiment: Experiment, home: Home, logical_date: date | None) -> Report:
    from flows.cli import prefect_environment
    from flows.servers import wait_until_recorded

    show = progress_writer(is_interactive()) or (lambda text: None)
    show("starting Prefect (the first time it prepares its database) …")
    with prefect_environment(home) as server:
        import prefect

        from flows.evaluate_retrieval import evaluate_retrieval
        from flows.provenance import tags_of
        from flows.reporting import Report

        server.wait_until_ready()
        freeze_libraries()
        with prefect.tags(*tags_of(experiment)):
            state = evaluate_retrieval(
                experiment,
                home=str(home.path),
                logical_date=logical_date,
                shows_progress=is_interactive(),
                return_state=True,
            )
            flow_run_id = state.state_details.flow_run_id
            result = state.result(raise_on_failure=False)
            n_tasks = result["n_tasks"] if isinstance(result, dict) else 0
            show("recording …")
            if not wait_until_recorded(flow_run_id, n_tasks):
                say("the Prefect server did not record every task in time; the results are safe")
    show("")
    if isinstance(result, BaseException):
        raise result
    return Report.model_validate(result)


ESTIMATE_COLUMNS = (
    "purpose",
    "model",
    "calls",
    "prompt_tokens",
    "completion_tokens",
    "cost",
    "currency",
)


def estimate_and_print(experiment: Experiment, home: Home, *, format: str) -> int:
    """Print the LLM calls that an evaluation would send and what they would cost.

    Raises:
        RankhouseError: see ``estimate_cost``.
    """
    from flows.cli import prefect_environment
    from flows.preflight import check_storage, survey_inputs
    from flows.servers import wait_until_recorded

    survey_inputs(experiment)
    check_storage(experiment, home)
    say(f"home {home.path}")
    with prefect_environment(home) as server:
        from flows.estimate_cost import estimate_cost

        server.wait_until_ready()
        state = estimate_cost(experiment, str(home.path), return_state=True)
        result = state.result(raise_on_failure=False)
        n_tasks = result["n_tasks"] if isinstance(result, dict) else 0
        wait_until_recorded(state.state_details.flow_run_id, n_tasks)
    if isinstance(result, BaseException):
        raise result
    rows = result["rows"]
    if not rows:
        say("no LLM is named: an evaluation costs nothing but time")
    elif format == "table":
        rows = [*rows, _total(rows)]
    print_rows(rows, ESTIMATE_COLUMNS, format=format)
    return 0


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    counts = {
        name: sum(row[name] for row in rows)
        for name in ("calls", "prompt_tokens", "completion_tokens")
    }
    has_price = all(row["cost"] is not None or not row["calls"] for row in rows)
    cost = sum(row["cost"] or 0.0 for row in rows) if has_price else None
    currency = next((row["currency"] for row in rows if row["currency"]), None)
    return {"purpose": "all", "model": None, **counts, "cost": cost, "currency": currency}


class _SayHandler(logging.Handler):
    """Warnings of ours reach stderr as one clean line each."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def log_to_stderr() -> None:
    """Show warnings of ours as lines on stderr."""
    logger = logging.getLogger("rankhouse")
    if not any(isinstance(handler, _SayHandler) for handler in logger.handlers):
        handler = _SayHandler(level=logging.WARNING)
        logger.addHandler(handler)
    logger.propagate = False
