"""``rankhouse evaluate``: one run of one experiment."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import click

from flows.printing import format_option


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting of the file; VALUE is read as TOML, else as text. Repeatable.",
)
@click.option(
    "--date",
    "logical_date",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The night that the run stands for; today in UTC by default.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the LLM calls that would be sent and their expected cost; send none. The stages "
    "before them run, or are reused.",
)
@format_option
def command(
    experiment: Path,
    settings: tuple[str, ...],
    logical_date: datetime | None,
    dry_run: bool,
    format: str,
) -> int:
    """Evaluate one experiment and write the results to the warehouse.

    EXPERIMENT is a TOML file: rankhouse init writes experiment.toml for your own documents, the
    demo's is deployments/demo/experiment.toml.

    Stages whose inputs have not changed are reused. The result goes to standard output,
    everything else to standard error.

    Example: rankhouse evaluate experiment.toml --set chunking.size=256
    """
    from flows.evaluating import estimate_and_print, evaluate_and_print
    from schemas.experiment import read_experiment
    from schemas.home import find_home

    if dry_run:
        return estimate_and_print(read_experiment(experiment, settings), find_home(), format=format)
    when: date | None = None if logical_date is None else logical_date.date()
    return evaluate_and_print(
        read_experiment(experiment, settings), find_home(), logical_date=when, format=format
    )
