"""``rankhouse cache``: the stored stages and their artifacts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from flows.printing import format_option, print_rows, say
from schemas.counting import counted
from schemas.errors import FindingError

if TYPE_CHECKING:
    from schemas.home import Home
    from tasks.artifacts import ArtifactStore
    from tasks.stage_records import StageRecord

GRACE_SECONDS = 3600
"""A run that is under way has artifacts that no record names yet."""

store_option = click.option(
    "--store", metavar="URL", help="The artifact store, where execution.store names another one."
)


@click.group()
def command() -> None:
    """List, prune or verify stored stages.

    Example: rankhouse cache list
    """


@command.command("list")
@store_option
@format_option
def list_stages(store: str | None, format: str) -> None:
    """List every stored stage: its size, when it was last used, whether it can be reused.

    Example: rankhouse cache list --format csv
    """
    home, artifacts = _open(store)
    rows = [_row(record, artifacts) for record in _records(home)]
    print_rows(rows, ["stage", "key", "items", "bytes", "last used", "usable"], format=format)


@command.command()
@store_option
@click.option(
    "--older-than",
    type=click.IntRange(min=0, max=36_500),
    metavar="DAYS",
    help="Also forget stages that were not used for so many days.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go, delete nothing.")
def prune(store: str | None, older_than: int | None, dry_run: bool) -> None:
    """Delete artifacts that no stored stage refers to, and with --older-than old stages too.

    Results in the warehouse stay. What is deleted is computed again when it is needed, but for
    documents that have changed since: rankhouse warehouse prune keeps what explains past runs.

    Example: rankhouse cache prune --older-than 90 --dry-run
    """
    home, artifacts = _open(store)
    records = list(_records(home))
    oldest = datetime.now(UTC) - timedelta(days=older_than) if older_than is not None else None
    gone = [
        record
        for record in records
        if record.output is None or (oldest is not None and record.used_at <= oldest)
    ]
    kept = _artifact_names(record for record in records if record not in gone)
    forgotten = _artifact_names(gone)
    unused = [
        (name, size)
        for name, size in artifacts.names()
        if name not in kept and (name in forgotten or artifacts.age(name) >= GRACE_SECONDS)
    ]
    if not dry_run:
        for record in gone:
            record.path.unlink(missing_ok=True)
        for name, _ in unused:
            artifacts.forget(name)
    verb = "would delete" if dry_run else "deleted"
    n_bytes = sum(size for _, size in unused)
    click.echo(
        f"{verb} {counted(len(gone), 'stage')} and {counted(len(unused), 'artifact')}, "
        f"{counted(n_bytes, 'byte')}"
    )


@command.command()
@store_option
@format_option
def verify(store: str | None, format: str) -> None:
    """Hash every artifact and compare it with its name; exit code 3 when one is damaged.

    A damaged artifact is also found, and computed again, when a run reads it.

    Example: rankhouse cache verify
    """
    home, artifacts = _open(store)
    started = time.perf_counter()
    damaged = artifacts.find_damaged()
    missing = [
        {"artifact": artifact.name, "damage": "missing or short"}
        for record in _records(home)
        if record.output is not None
        for artifact in record.output.artifacts.values()
        if not artifacts.has(artifact)
    ]
    found = [{"artifact": name, "damage": "altered"} for name in damaged]
    unique = {row["artifact"]: row for row in [*missing, *found]}
    seconds = time.perf_counter() - started
    say(f"hashed {counted(len(artifacts.names()), 'artifact')} in {seconds:.1f} s")
    print_rows(unique.values(), ["artifact", "damage"], format=format)
    if unique:
        raise FindingError(
            f"{counted(len(unique), 'artifact', ('is', 'are'))} damaged; the next run that needs "
            "one computes it again, and `rankhouse cache prune` deletes what nothing refers to"
        )


def _open(store: str | None) -> tuple[Home, ArtifactStore]:
    from schemas.home import find_home
    from tasks.artifacts import ArtifactStore

    home = find_home()
    return home, ArtifactStore(store or str(home.artifacts), scratch=home.path / "downloads")


def _records(home: Home) -> list[StageRecord]:
    from flows.prefect_settings import records_folder
    from tasks.stage_records import read_records

    return list(read_records(records_folder(home)))


def _artifact_names(records: Iterable[StageRecord]) -> set[str]:
    return {
        artifact.name
        for record in records
        if record.output is not None
        for artifact in record.output.artifacts.values()
    }


def _row(record: StageRecord, artifacts: ArtifactStore) -> dict[str, object]:
    output = record.output
    if output is None:
        return {"stage": "?", "key": record.key, "last used": _minute(record), "usable": False}
    stored = output.artifacts.values()
    return {
        "stage": output.stage,
        "key": record.key.rpartition("-")[2][:12],
        "items": max(artifact.n_items for artifact in stored),
        "bytes": sum(artifact.size for artifact in stored),
        "last used": _minute(record),
        "usable": output.is_reusable and all(artifacts.has(artifact) for artifact in stored),
    }


def _minute(record: StageRecord) -> str:
    return record.used_at.strftime("%Y-%m-%d %H:%M")
