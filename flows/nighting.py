"""What ``rankhouse nightly`` does around the flow."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.evaluating import log_to_stderr
from flows.junit import junit_of_night
from flows.night_lines import COLUMNS, line_of, rows_of
from flows.night_reports import NightReport
from flows.printing import clean, is_interactive, print_json, print_rows, say
from flows.step_summaries import append_summary
from flows.telling import markdown_of
from schemas.home import Home
from tasks.progress import progress_writer

if TYPE_CHECKING:
    from flows.planning_nights import Plan


def run_and_print(
    suite: Path,
    home: Home,
    *,
    logical_date: date | None,
    format: str,
    tolerated: Collection[int],
) -> int:
    """Run a night, print what it came to, and return the exit code.

    Args:
        suite: the file.
        home: where results go.
        logical_date: the night; None: the day that it is.
        format: table, json, csv or junit.
        tolerated: exit codes that become 0.

    Raises:
        RefusedError: suite, date or home cannot be used; nothing was written.
    """
    from flows.nights import now
    from flows.planning_nights import plan_night

    log_to_stderr()
    # Refused here, before Prefect is imported or its server started.
    plan = plan_night(suite, home, asked=logical_date, at=now())
    say(f"home {home.path}")
    report = _run(plan, suite, home)
    _print(report, format)
    append_summary(markdown_of(report))
    for outcome in report.outcomes:
        if outcome.status == "degraded":
            say(f"degraded: {outcome.experiment}")
        if outcome.spooled_because:
            say(f"spooled: {outcome.run_id}: {outcome.spooled_because}")
    return report.exit_code(tolerated)


def _run(plan: Plan, suite: Path, home: Home) -> NightReport:
    from flows.cli import prefect_environment
    from flows.servers import wait_until_recorded

    show = progress_writer(is_interactive()) or (lambda text: None)
    show("starting Prefect (the first time it prepares its database) …")
    with prefect_environment(home) as server:
        from flows.run_nightly import run_nightly
        from flows.scheduling import Timetable

        schedule = plan.suite.schedule
        if schedule.cron is not None:  # Prefect reads it
            Timetable(schedule.cron, schedule.timezone).check(str(suite))
        server.wait_until_ready()
        state = run_nightly(
            suite.absolute(),
            home=str(home.path),
            logical_date=plan.night,
            shows_progress=is_interactive(),
            return_state=True,
        )
        result = state.result(raise_on_failure=False)
        show("recording …")
        n_by_run: dict[str, int] = result.get("flow_runs", {}) if isinstance(result, dict) else {}
        if not all([wait_until_recorded(run, n_tasks) for run, n_tasks in n_by_run.items()]):
            say("the Prefect server did not record every task in time; the results are safe")
    show("")
    if isinstance(result, BaseException):
        raise result
    return NightReport.model_validate(result)


def _print(report: NightReport, format: str) -> None:
    if format == "json":
        print_json({**report.model_dump(mode="json"), "verdict": report.verdict})
    elif format == "csv":
        print_rows(rows_of(report), COLUMNS, format="csv")
    elif format == "junit":
        click.echo(junit_of_night(report))
    else:
        for outcome in report.outcomes:
            click.echo(clean(line_of(outcome)))
