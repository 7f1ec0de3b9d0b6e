"""``rankhouse recompute``: a new or corrected measure for past runs."""

from __future__ import annotations

from datetime import date

import click

from flows.asking import Night
from flows.printing import say
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
    from flows.recomputing import recompute
    from schemas.measures import Measure
    from warehouse.load import load_parts

    home = find_home()
    measures = sorted({Measure.parse(name) for name in names})
    done = recompute(home, measures, since=since)
    for reason in done.skipped[:10]:
        say(f"skipped {reason}")
    if len(done.skipped) > 10:
        say(f"skipped {len(done.skipped) - 10} more")
    if done.n_runs:
        report = load_parts(home)
        if report.is_locked or report.problem:
            say("spooled: the warehouse is in use; take them in with: rankhouse warehouse load")
    say(f"{done.n_values:,} values added to {done.n_runs} runs")
    return 0
