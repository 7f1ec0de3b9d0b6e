"""The flow behind ``rankhouse experiment --dry-run``: what a grid would compute, and its cost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect import flow

from flows.grid_preflight import survey_grid
from flows.pipeline import store_of_workspace, workspace_of
from flows.planning import GridPlan, PlannedPipeline
from schemas.experiment import Experiment
from schemas.home import Home


@flow(name="plan_experiment", flow_run_name="{name}", validate_parameters=True)
def plan_experiment(experiments: list[Experiment], name: str, home: str) -> dict[str, Any]:
    """Say for each run which stages are new, shared with a run before it, or stored already.

    Nothing is computed, encoded or sent, and nothing is written to the warehouse.

    Returns:
        ``rows``, one a run, and ``n_tasks``.
    """
    where = Home(Path(home))
    inputs = survey_grid(experiments, where)
    plan = GridPlan()
    rows: list[dict[str, Any]] = []
    n_tasks = 0
    for experiment in experiments:
        workspace = workspace_of(experiment, where, shows_progress=False)
        pipeline = PlannedPipeline(
            experiment,
            inputs[experiment.name],
            workspace,
            store_of_workspace(workspace),
            lambda stage: None,
            plan=plan,
        )
        pipeline.run()
        n_tasks += pipeline.n_tasks
        stages = {
            state: [stage for stage, found in pipeline.states.items() if found == state]
            for state in ("new", "shared", "cached")
        }
        counts = {f"n_{state}": len(found) for state, found in stages.items()}
        rows.append({"experiment": experiment.name} | counts | asdict(pipeline.costs) | stages)
    return {"rows": rows, "n_tasks": n_tasks}
