"""``rankhouse warehouse``: migrate, load and verify."""

from __future__ import annotations

import click

from flows.asking import LONGEST_WAIT, Seconds
from flows.printing import format_option, print_rows, say
from schemas.errors import FindingError, StorageError
from schemas.home import find_home


@click.group()
def command() -> None:
    """Migrate, load or verify the warehouse."""


@command.command()
def migrate() -> None:
    """Bring the tables up to date; a copy of the file is made first.

    Example: rankhouse warehouse migrate
    """
    from warehouse.connect import open_warehouse
    from warehouse.migrate import schema_version
    from warehouse.publish import publish

    home = find_home().prepare()
    with open_warehouse(home.warehouse) as warehouse:
        publish(warehouse, home)
    say(f"{home.warehouse}: at version {schema_version()}")


@command.command()
@click.option("--refused", is_flag=True, help="Try the refused parts again, after an upgrade.")
@click.option(
    "--wait",
    type=Seconds(min=0, max=LONGEST_WAIT),
    default=5.0,
    show_default=True,
    help="Seconds to wait while somebody else has the warehouse open.",
)
def load(refused: bool, wait: float) -> int:
    """Take finished runs from the spool into the warehouse, and publish.

    Example: rankhouse warehouse load
    """
    from warehouse.inspecting import fault_of_copy
    from warehouse.load import load_parts, retry_refused

    home = find_home().prepare()
    is_damaged = fault_of_copy(home) is not None
    if refused:
        say(f"{len(retry_refused(home))} refused parts are tried again")
    report = load_parts(home, patience=wait, is_copy_damaged=is_damaged)
    say(f"loaded {len(report.loaded)}, {len(report.waiting)} left in the spool")
    if is_damaged and report.is_published:
        say(f"published: {home.published} was damaged and is made anew")
    for run_id in report.crashed:
        say(f"crashed: {run_id}")
    for reason in report.refused:
        say(f"refused: {reason}")
    if report.is_locked:
        say(f"locked: {home.warehouse} is held by {report.holder or 'another process'}")
    if report.problem:
        say(f"problem: {report.problem}")
    return 1 if report.is_locked or report.problem or report.refused else 0


@command.command()
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many runs have their values computed anew.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Decides which runs.")
@format_option
def verify(sample: int, seed: int, format: str) -> int:
    """Check the warehouse against its own rules, and a sample of its values.

    Recomputes every mean from the values of its queries, and the values of some runs from their
    rankings and labels; looks at references, duplicates, ranges and migrations. Exit code 3: the
    rows that break a rule are listed.

    Example: rankhouse warehouse verify --sample 50
    """
    from flows.verifying import verify_warehouse
    from warehouse.reading import why_missing

    home = find_home()
    if not home.warehouse.exists():
        raise StorageError(why_missing(home))
    broken = list(verify_warehouse(home, n_sampled=sample, seed=seed))
    print_rows(
        ({"rule": found.rule, "row": found.row} for found in broken),
        ("rule", "row"),
        format=format,
    )
    if broken:
        raise FindingError(f"{home.warehouse}: {len(broken)} rows break a rule")
    say(f"{home.warehouse}: sound")
    return 0
