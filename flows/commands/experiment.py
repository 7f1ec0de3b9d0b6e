"""``rankhouse experiment``: a grid of experiments, what they share computed once."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from flows.printing import format_option


@click.command()
@click.argument("grid", type=click.Path(path_type=Path))
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Give a setting of the grid this one value, or any other setting this value in every "
    "run; VALUE is read as TOML, else as text. Repeatable.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only runs with this name or glob, such as '*size=256*'. Repeatable.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Refuse the grid when it has more runs than this."
)
@click.option(
    "--date",
    "logical_date",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The night that the runs stand for; today in UTC by default.",
)
@click.option(
    "--at-once",
    "n_at_once",
    type=click.IntRange(min=1, max=64),
    help="How many runs go on side by side; by default one a core, at most 4.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print what each run would compute and cost, and compute nothing.",
)
@format_option
def command(
    grid: Path,
    settings: tuple[str, ...],
    only: tuple[str, ...],
    limit: int | None,
    logical_date: datetime | None,
    n_at_once: int | None,
    dry_run: bool,
    format: str,
) -> int:
    """Evaluate a grid of experiments, each as a run of its own, and print what came of them.

    GRID is a TOML file: an experiment, with [grid] lists of values for its settings, [[variant]]
    tables of settings that change together, and [[exclude]] tables of what to leave out. The
    demo's is deployments/demo/grid.toml.

    A stage that several runs share is computed once; what is stored already is reused. A run that
    fails does not stop the others.

    Example: rankhouse experiment deployments/demo/grid.toml --only '*size=600*'
    """
    from flows.experimenting import experiment_and_print, plan_and_print
    from schemas.grids import choose, read_grid
    from schemas.home import find_home

    chosen = choose(read_grid(grid, settings), only=only, limit=limit)
    if dry_run:
        return plan_and_print(chosen, find_home(), format=format)
    return experiment_and_print(
        chosen,
        find_home(),
        logical_date=None if logical_date is None else logical_date.date(),
        n_at_once=n_at_once,
        format=format,
    )
