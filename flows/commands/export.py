"""``rankhouse export``: one run as files for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from flows.printing import say
from schemas.home import find_home


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["trec", "parquet", "ragas", "csv"]),
    default="trec",
    show_default=True,
    help="TREC run and qrels; every table as Parquet; ragas samples; a sheet of all values.",
)
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    help="Which folder.  [default: this one]",
)
def command(run: str, kind: str, into: Path) -> None:
    """Write RUN as files that other tools read; a file that exists is never replaced.

    From the TREC files trec_eval prints the means that are stored: lost ground truth is in the
    qrels as judged items lost/…, and queries that are not scored are left out. White space and %
    in ids are percent-encoded, and rankhouse import decodes them.

    Example: rankhouse export latest --format trec --into exported
    """
    from flows.run_exports import export_run
    from schemas.errors import UsageError
    from warehouse.finding import resolve_run
    from warehouse.reading import open_published
    from warehouse.texts import chunk_folders

    home = find_home()
    with open_published(home) as connection:
        run_id = resolve_run(connection, run)
        row = connection.execute("SELECT status FROM runs WHERE run_id = ?", [run_id]).fetchone()
        if row == ("failed",):
            raise UsageError(f"run {run_id} failed: it has no results")
        for line in export_run(connection, run_id, kind, into, chunk_folders(home, connection)):
            say(line)
