"""``rankhouse recompute``: a new or corrected measure for past runs."""

from __future__ import annotations

from datetime import date

import click

from flows.asking import Night
from flows.printing import say
from schemas.counting import counted
from schemas.home import find_home


@click.command()
@click.option(
    "--measure",
    "names",
    multiple=True,
    help="Which measure; repeatable. By default those whose contract has changed.",
)
@click.option("--since", type=Night(), help="Only runs of this night and later.")
def command(names: tuple[str, ...], since: date | None) -> int:
    """Compute measures for past runs from their stored rankings and labels.

    The values are added under their contract's version and nothing else is touched: views show
    the newest version, the tables keep all.

    Example: rankhouse recompute --measure ndcg@20 --since 2026-11-01
    """
    from flows.landing import load_and_say
    from flows.recomputing import recompute
    from schemas.measures import Measure
    from warehouse.migrate import check_warehouse

    home = find_home()
    measures = sorted({Measure.parse(name) for name in names})
    check_warehouse(home)
    done = recompute(home, measures, since=since)
    for reason in done.skipped[:10]:
        say(f"skipped {reason}")
    if len(done.skipped) > 10:
        say(f"skipped {len(done.skipped) - 10} more")
    if done.n_runs:
        load_and_say(home, *done.parts)
    say(f"{counted(done.n_values, 'value')} added to {counted(done.n_runs, 'run')}")
    return 0
