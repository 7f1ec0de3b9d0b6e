"""What can be refused before any run of a grid starts, for all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from flows.preflight import (
    Inputs,
    check_benchmark,
    check_endpoints,
    check_storage,
    survey_inputs,
)
from schemas.errors import ConfigurationError, RefusedError
from schemas.experiment import Experiment
from schemas.home import Home

NAMED = 3  # runs that a fault names


def survey_grid(
    experiments: Sequence[Experiment],
    home: Home,
    *,
    night: date | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Inputs]:
    """Check every run and find what it reads; what several read is read once.

    Args:
        experiments: the grid's runs.
        home: where results go.
        night: whose corpus and benchmark, where a path says ``{date}``; None: today in UTC.
        say: told when a model has to be downloaded first.

    Returns:
        What each run reads, by its name.

    Raises:
        RefusedError: a run cannot work; every fault is told with the runs that have it.
    """
    inputs: dict[str, Inputs] = {}
    known: dict[str, Any] = {}
    checked: set[str] = set()
    faults: dict[str, list[str]] = {}
    for experiment in experiments:
        try:
            inputs[experiment.name] = _survey(experiment, home, known, checked, night, say)
        except RefusedError as error:
            if len(experiments) == 1:
                raise
            faults.setdefault(str(error), []).append(experiment.name)
    if faults:
        lines = [f"  {text} ({_runs(names, len(experiments))})" for text, names in faults.items()]
        raise ConfigurationError("the grid cannot run:\n" + "\n".join(lines))
    return inputs


def _survey(
    experiment: Experiment,
    home: Home,
    known: dict[str, Any],
    checked: set[str],
    night: date | None,
    say: Callable[[str], None] | None,
) -> Inputs:
    found = survey_inputs(experiment, say, known, night=night)
    benchmark = f"benchmark {experiment.benchmark.model_dump_json()}"
    if benchmark not in checked:
        check_benchmark(found, experiment)
    storage = f"storage {experiment.execution.store}"
    if storage not in checked:
        check_storage(experiment, home)
    check_endpoints(experiment, home)
    checked |= {benchmark, storage}
    return found


def _runs(names: list[str], n_all: int) -> str:
    if n_all == 1:
        return f"in {names[0]}"
    if len(names) == n_all:
        return f"in all {n_all} runs"
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"in {', '.join(names[:NAMED])}{more}"
