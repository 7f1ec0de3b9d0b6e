"""``rankhouse import``: a TREC run and qrels as a run."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from flows.asking import Night
from flows.printing import say
from schemas.counting import counted
from schemas.home import find_home

DEFAULT_MEASURES = ("ndcg@10", "ap@100", "rr@10", "precision@10", "recall@100")


@click.command()
@click.argument("run_file", metavar="RUN_FILE", type=click.Path(path_type=Path))
@click.argument("qrels", metavar="QRELS", type=click.Path(path_type=Path))
@click.option("--experiment", help="Name of the experiment.  [default: the run file's stem]")
@click.option(
    "-m",
    "--measure",
    "names",
    multiple=True,
    default=DEFAULT_MEASURES,
    help=f"Which measure; repeatable.  [default: {', '.join(DEFAULT_MEASURES)}]",
)
@click.option("--date", "night", type=Night(), help="The night it stands for.  [default: today]")
@click.option("--level", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    help="Keep so many items a query.  [default: all that are in the file]",
)
def command(
    run_file: Path,
    qrels: Path,
    experiment: str | None,
    names: tuple[str, ...],
    night: date | None,
    level: int,
    depth: int | None,
) -> None:
    """Score RUN_FILE against QRELS and store it as a run, to be compared like any other.

    The values are those of rankhouse trec, but that a query with nothing relevant has none. Queries
    are stored with their id for a text. In the example both files are yours, and the run is listed
    as the experiment bm25.

    Example: rankhouse import bm25.run qrels.txt --experiment bm25 -m ndcg@10
    """
    from datetime import UTC, datetime

    from flows.landing import load_and_say
    from flows.preflight import refuse_unlikely
    from flows.run_imports import import_trec
    from schemas.measures import Measure
    from warehouse.migrate import check_warehouse
    from warehouse.spool import Spool, new_run_id

    refuse_unlikely(night)
    home = find_home().prepare()
    check_warehouse(home)
    run_id = new_run_id()
    name = experiment or run_file.name.partition(".")[0]
    with Spool(home).start(run_id, experiment=name) as started:
        imported = import_trec(
            run_file,
            qrels,
            run_id=run_id,
            name=name,
            measures=list(dict.fromkeys(map(Measure.parse, names))),
            logical_date=night or datetime.now(UTC).date(),
            level=level,
            depth=depth,
        )
        started.finish(imported.frames)
    load_and_say(home, run_id)
    are = ("is", "are")
    say(f"run {run_id} of {name}: {counted(imported.n_queries, 'query')}")
    if imported.n_ignored:
        say(f"{counted(imported.n_ignored, 'query', are)} not in the qrels and left out")
    if imported.n_missing:
        say(f"{counted(imported.n_missing, 'query', are)} not in the run: nothing retrieved")
    if imported.n_irrelevant:
        say(
            f"{counted(imported.n_irrelevant, 'query', ('has', 'have'))} nothing relevant at level "
            f"{level}: not scored (rankhouse trec counts 0)"
        )
    if imported.n_cut:
        say(
            f"--depth {depth}: {counted(imported.n_cut, 'item')} of "
            f"{counted(imported.n_queries_cut, 'query')} left out"
        )
    click.echo(run_id)
