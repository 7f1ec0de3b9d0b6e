"""``rankhouse warehouse``: migrate, load, verify and prune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.asking import LONGEST_WAIT, Seconds
from flows.printing import format_option, print_rows, say
from schemas.counting import counted
from schemas.errors import FindingError, StorageError
from schemas.home import find_home

if TYPE_CHECKING:
    from flows.pruning import Kept
    from schemas.suites import Retention


@click.group()
def command() -> None:
    """Migrate, load, verify or prune the warehouse."""


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
        say(f"{counted(len(retry_refused(home)), 'refused part', ('is', 'are'))} tried again")
    report = load_parts(home, patience=wait, is_copy_damaged=is_damaged)
    say(f"loaded {len(report.loaded)}, {len(report.waiting)} left in the spool")
    if is_damaged and report.is_published:
        say(f"published: {home.published} was damaged and is made anew")
    for comparison in report.compared:
        say(f"compared: {comparison.run_id}: {comparison.verdict}: {comparison.reason}")
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
        raise FindingError(
            f"{home.warehouse}: {counted(len(broken), 'row', ('breaks', 'break'))} a rule"
        )
    say(f"{home.warehouse}: sound")
    return 0


@command.command()
@click.argument("suite", required=False, metavar="[SUITE]", type=click.Path(path_type=Path))
@click.option(
    "--older-than",
    type=click.IntRange(min=1, max=36_500),
    metavar="DAYS",
    help="In place of a suite's [retention]: this age for everything.",
)
@click.option("--dry-run", is_flag=True, help="List what would go, delete nothing.")
@format_option
def prune(suite: Path | None, older_than: int | None, dry_run: bool, format: str) -> None:
    """Delete what is older or larger than SUITE's [retention] allows, and list it.

    Goes: attempts that a later run of the same night and configuration took the place of, events
    about no run that is kept, refused parts, and artifacts that were not used. Stays, whatever its
    age: what explains a kept run or is needed to compute it again, and everything of the last good
    nights, of baselines, and of runs with a tag or note. A night does this at its end.

    Example: rankhouse warehouse prune --older-than 90 --dry-run
    """
    from flows.pruning import prune as prune_home
    from schemas.errors import UsageError

    if (suite is None) == (older_than is None):
        both = "" if suite is None else "one of the two, not both: "
        raise UsageError(f"say what is kept, {both}name a suite's file, or give --older-than DAYS")
    retention, kept = _limits(suite, older_than)
    home = find_home()
    done = prune_home(home, retention, kept, dry_run=dry_run)
    columns = ("kind", "what", "n", "bytes", "last_used", "because")
    rows = [
        {
            "kind": gone.kind,
            "what": gone.what,
            "n": gone.n,
            "bytes": gone.n_bytes,
            "last_used": gone.last_used and gone.last_used.strftime("%Y-%m-%d"),
            "because": gone.because,
        }
        for gone in done.gone
    ]
    print_rows(rows, columns, format=format)
    for note in done.notes:
        say(note)
    if not retention.has_limits:
        say(f"{suite} has no [retention]: nothing is pruned. Set one, or give --older-than DAYS")
    n_bytes = sum(gone.n_bytes or 0 for gone in done.gone)
    verb = "would delete" if dry_run else "deleted"
    say(f"{verb} {sum(gone.n for gone in done.gone):,} things, {n_bytes:,} bytes of files")


def _limits(suite: Path | None, older_than: int | None) -> tuple[Retention, Kept]:
    from flows.pruning import Kept, kept_of
    from schemas.suites import Keep, KeepFiles, Retention, read_suite

    if suite is not None:
        read = read_suite(suite)
        return read.retention, kept_of(read)
    files, keep = KeepFiles(days=older_than), Keep(days=older_than)
    return Retention(artifacts=files, spool=files, events=keep, attempts=keep), Kept()
