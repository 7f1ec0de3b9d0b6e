"""The flow behind ``rankhouse evaluate --dry-run``: everything up to the first LLM call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from flows.pipeline import Pipeline, store_of_workspace, workspace_of
from flows.preflight import check_storage, survey_inputs
from schemas.experiment import Experiment
from schemas.home import Home


@flow(name="estimate_cost", flow_run_name="{experiment.name}", validate_parameters=True)
def estimate_cost(experiment: Experiment, home: str) -> dict[str, Any]:
    """Run the stages before the summaries, and count the calls that these would send.

    Nothing is sent to an LLM and nothing is written to the warehouse; the stages are stored, so
    that the evaluation reuses them.

    Returns:
        ``rows``, a table of calls, tokens and money, and ``n_tasks``.
    """
    from tasks.estimating import estimate_calls

    where = Home(Path(home))
    check_storage(experiment, where)
    workspace = workspace_of(experiment, where, shows_progress=False)
    pipeline = Pipeline(
        experiment.model_copy(update={"summary": None}),
        survey_inputs(experiment),
        workspace,
        store_of_workspace(workspace),
        lambda stage: None,
    )
    pipeline.run()
    rows: list[dict[str, Any]] = []
    summary, read = experiment.summary, pipeline.store.frame
    if summary is not None:
        rows = pipeline.read_back(
            lambda: estimate_calls(
                read(pipeline.artifact("load_benchmark", "queries")),
                read(pipeline.retrieved),
                read(pipeline.artifact("chunk_corpus", "chunks")),
                summary,
                Path(workspace.items),
            )
        )
    return {"rows": rows, "n_tasks": pipeline.n_tasks}
