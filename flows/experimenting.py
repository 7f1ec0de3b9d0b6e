"""What ``rankhouse experiment`` does around the flow of a grid."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from flows.grid_reports import GridReport
from flows.printing import is_interactive, print_rows, say
from schemas.counting import counted
from schemas.grids import Grid
from schemas.home import Home
from tasks.memory import freeze_libraries
from tasks.progress import progress_writer


def experiment_and_print(
    grid: Grid, home: Home, *, logical_date: date | None, n_at_once: int | None, format: str
) -> int:
    """Run a grid, print its answer to stdout, and return the exit code.

    Raises:
        RankhouseError: see ``flows.run_experiment``.
    """
    from flows.answering import answer_grid
    from flows.evaluating import log_to_stderr
    from flows.grid_preflight import survey_grid
    from flows.preflight import refuse_unlikely

    # Refused here, before Prefect is imported or its server started.
    log_to_stderr()
    for note in grid.notes:
        say(f"note: {note}")
    refuse_unlikely(logical_date)
    survey_grid(grid.experiments, home, night=logical_date, say=say)
    say(f"home {home.path}")
    say(f"{grid.name}: {counted(len(grid.experiments), 'run')}")

    def flow_of_grid() -> Any:
        from flows.run_experiment import run_experiment

        return run_experiment(
            list(grid.experiments),
            name=grid.name,
            primary_measure=grid.primary_measure,
            home=str(home.path),
            logical_date=logical_date,
            n_at_once=n_at_once,
            shows_progress=is_interactive(),
            return_state=True,
        )

    report = GridReport.model_validate(run_flow(flow_of_grid, home, tags=[grid.name, "grid"]))
    say(f"grid {report.grid_id}, {report.seconds:.1f} s: {_stages_of(report)}")
    spooled = [run for run in report.runs if run.spooled_because is not None and run.run_id]
    if len(spooled) < len(report.runs):
        answer_grid(home, report.grid_id, primary_measure=grid.primary_measure, format=format)
    for run in spooled:
        say(f"spooled: {run.experiment}: {run.spooled_because}")
    return _end(report)


PLAN_COLUMNS = (
    "experiment",
    "n_new",
    "n_shared",
    "n_cached",
    "texts_to_embed",
    "llm_calls",
    "tokens",
    "cost",
    "currency",
    "new",
    "shared",
    "cached",
)


def plan_and_print(grid: Grid, home: Home, *, format: str) -> int:
    """Print what each run of a grid would compute and cost, and compute none of it.

    Raises:
        RankhouseError: a run could not work; see ``flows.grid_preflight``.
    """
    from flows.evaluating import log_to_stderr
    from flows.grid_preflight import survey_grid

    log_to_stderr()
    for note in grid.notes:
        say(f"note: {note}")
    survey_grid(grid.experiments, home, say=say)
    say(f"home {home.path}")

    def flow_of_plan() -> Any:
        from flows.plan_experiment import plan_experiment

        return plan_experiment(
            list(grid.experiments), name=grid.name, home=str(home.path), return_state=True
        )

    rows: list[dict[str, Any]] = run_flow(flow_of_plan, home, tags=[grid.name, "grid"])["rows"]
    if format != "json":
        for row in rows:
            row |= {state: " ".join(row[state]) for state in ("new", "shared", "cached")}
    texts = {"new": 20, "shared": 20, "cached": 20}
    print_rows(rows, PLAN_COLUMNS, format=format, texts=texts)
    n_new = sum(row["n_new"] for row in rows)
    say(
        f"{counted(len(rows), 'run')}, {counted(n_new, 'stage')} to compute at most; "
        "--dry-run has computed nothing"
    )
    if any(row["texts_to_embed"] is None or row["llm_calls"] is None for row in rows):
        say("– stands where a cost cannot be known before a new stage has run")
    return 0


def _stages_of(report: GridReport) -> str:
    counts = {
        "computed": sum(run.n_computed for run in report.runs),
        "shared between runs": sum(run.n_shared for run in report.runs),
        "stored before": sum(run.n_cached for run in report.runs),
    }
    return "stages " + ", ".join(f"{count} {what}" for what, count in counts.items())


def _end(report: GridReport) -> int:
    for run in report.runs:
        if run.status == "degraded":
            say(f"degraded: {run.experiment}: {run.status_reason}")
    failed = [run for run in report.runs if run.status == "failed"]
    if failed:
        say(
            f"error: {len(failed)} of {counted(len(report.runs), 'run')} failed, the others have "
            "landed; run it again: finished stages are reused"
        )
    return 1 if failed else 0


def run_flow(call: Callable[[], Any], home: Home, *, tags: list[str]) -> Any:
    """Call a flow with a Prefect server at hand, and wait until it has recorded all tasks.

    Args:
        call: imports and calls the flow, and returns its state; the result has ``n_tasks``.
        home: where a temporary server lives.
        tags: of the flow run.

    Raises:
        Exception: what the flow raised.
    """
    from flows.cli import prefect_environment
    from flows.servers import wait_until_recorded

    show = progress_writer(is_interactive()) or (lambda text: None)
    show("starting Prefect (the first time it prepares its database) …")
    with prefect_environment(home) as server:
        import prefect

        server.wait_until_ready()
        freeze_libraries()
        with prefect.tags(*tags):
            state = call()
        result = state.result(raise_on_failure=False)
        n_tasks = result["n_tasks"] if isinstance(result, dict) else 0
        show("recording …")
        if not wait_until_recorded(state.state_details.flow_run_id, n_tasks):
            say("the Prefect server did not record every task in time; the results are safe")
    show("")
    if isinstance(result, BaseException):
        raise result
    return result
