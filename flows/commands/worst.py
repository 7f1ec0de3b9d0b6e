"""``rankhouse worst``: the queries that lost most between two runs."""

from __future__ import annotations

import click

from flows.asking import answer, choose_measure, limit_option, show_sql_option
from flows.printing import format_option, print_rows, say
from schemas.home import find_home

NOT_COMPARABLE = 12  # exit code


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("baseline", metavar="BASELINE")
@click.option("--measure", help="Which measure; by default the run's first.")
@limit_option(default=10, help="Queries shown.")
@show_sql_option
@format_option
def command(
    run: str, baseline: str, measure: str | None, limit: int, show_sql: bool, format: str
) -> int:
    """List the queries of RUN that lost most against BASELINE, with their texts.

    RUN and BASELINE are ids, their beginnings or ends, latest, or latest~1: the run before it of
    the same experiment. Exit code 12: the two cannot be compared on this measure; what differs is
    listed.

    Example: rankhouse worst latest latest~1 --measure ndcg@10
    """
    from flows.differing import find_differences
    from warehouse.finding import resolve_run, short_ids
    from warehouse.queries import COMPARABLE, WORST
    from warehouse.reading import open_published

    with open_published(find_home()) as connection:
        ours, theirs = resolve_run(connection, run), resolve_run(connection, baseline)
        name = choose_measure(connection, measure, run=ours)
        sql = WORST.render(run=ours, baseline=theirs, measure=name, limit=limit)
        if show_sql:
            click.echo(sql)
            return 0
        if ours == theirs:
            say(f"{ours}: a run cannot be compared with itself")
            return NOT_COMPARABLE
        sides = answer(
            connection, COMPARABLE, COMPARABLE.render(run=ours, baseline=theirs, measure=name)
        )[0]
        if not sides["is_comparable"]:
            short = short_ids(connection)
            differences = find_differences(connection, ours, theirs, name)
            if format != "table":
                print_rows([], WORST.columns, format=format)
            _say_differences(name, short[ours], short[theirs], differences)
            return NOT_COMPARABLE
        rows = answer(connection, WORST, sql)
    print_rows(rows, WORST.columns, format=format, texts={"text": 30, "tags": 12})
    say(
        f"{name}: {sides['n_worse']} worse, {sides['n_better']} better of {sides['n_both']} "
        f"queries; mean {sides['mean_delta'] or 0:+.4f}"
    )
    return 0


def _say_differences(measure: str, run: str, baseline: str, differences: list[str]) -> None:
    say(f"{measure} of {run} and {baseline} cannot be compared; what differs ({run} / {baseline}):")
    for difference in differences or ["the version of the judge or of its prompts"]:
        say(f"  {difference}")
