"""``rankhouse explain``: what differs between a run and its baseline."""

from __future__ import annotations

import click

from flows.printing import format_option, print_json, print_rows, say
from schemas.home import find_home

COLUMNS = ("run_id", "baseline_run_id", "line")


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("baseline", metavar="[BASELINE]", required=False)
@format_option
def command(run: str, baseline: str | None, format: str) -> int:
    """Say what differs between RUN and BASELINE, of all that their numbers rest on.

    Documents that were added, removed or changed, models, settings, benchmark, code, libraries,
    and the stages that read or made something else. Values of RUN stand first. Without BASELINE:
    the run before it of the same experiment. Documents are compared as the artifact store keeps
    them.

    Example: rankhouse explain latest
    """
    from flows.comparison_reports import print_why
    from flows.explaining import explain
    from warehouse.finding import resolve_run, run_before
    from warehouse.reading import open_published

    home = find_home()
    with open_published(home) as connection:
        ours = resolve_run(connection, run)
        theirs = resolve_run(connection, baseline) if baseline else run_before(connection, ours)
        why = explain(connection, ours, theirs, home)
    if format == "json":
        print_json(why.to_json())
    elif format == "csv":
        about = {"run_id": ours, "baseline_run_id": theirs}
        print_rows([{**about, "line": line} for line in why.lines], COLUMNS, format="csv")
    else:
        say(f"{ours} / {theirs}")
        print_why(why)
    return 0
