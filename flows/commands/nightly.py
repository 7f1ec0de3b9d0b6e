"""``rankhouse nightly``: one night of a suite."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from flows.printing import format_option_with


@click.command()
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "--date",
    "logical_date",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The night; by default the day that it is in the time zone of the suite's schedule. One "
    "that is over needs its corpus: a path with {date}, or what a run of that night has stored.",
)
@click.option(
    "--tolerate",
    "tolerated",
    multiple=True,
    type=click.Choice(["10", "11", "12"]),
    help="Exit with 0 in place of this code; repeatable.",
)
@format_option_with("junit")
def command(
    suite: Path, logical_date: datetime | None, tolerated: tuple[str, ...], format: str
) -> int:
    """Evaluate the experiments of SUITE and compare each with its baseline.

    SUITE is a TOML file; the demo's is deployments/nightly/suite.toml. What an interrupted night
    has finished is reused. An experiment that fails does not stop the others.

    Prints a line an experiment: better, worse, same, not enough evidence or not comparable; by how
    much; on which queries. Exit code: the first that applies of 1 (something could not be
    measured), 10 (worse), 12 (not comparable) and 11 (not enough evidence), else 0. The first
    night has nothing to be compared with and exits with 0.

    When a loss opens, changes or closes, those are told whom the suite's [notify] names. --format
    junit writes a test case a gate: worse is a failure, not measured an error, not enough evidence
    and not comparable are skipped. Where GITHUB_STEP_SUMMARY names a file, the tables are appended.

    Example: rankhouse nightly deployments/nightly/suite.toml --tolerate 11
    """
    from flows.nighting import run_and_print
    from schemas.home import find_home

    return run_and_print(
        suite,
        find_home(),
        logical_date=None if logical_date is None else logical_date.date(),
        format=format,
        tolerated=frozenset(int(code) for code in tolerated),
    )
