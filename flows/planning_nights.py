"""Everything about a night that can be refused before anything is spent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flows.nights import choose_night, documents_of_night
from flows.preflight import check_storage
from schemas.errors import ConfigurationError, UsageError
from schemas.experiment import digest_of
from schemas.home import Home
from schemas.orders import StoredDocuments
from schemas.suites import BaselineRule, Entry, Suite, read_suite
from schemas.toml_files import read_toml
from tasks.anchors import read_anchor
from tasks.notifying import check_receivers, receivers_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Planned:
    """One experiment of the night."""

    entry: Entry
    baseline: BaselineRule  # the pinned run by its whole id
    stored: StoredDocuments | None  # of a night that is over


@dataclass(frozen=True, slots=True)
class Plan:
    """One night of a suite."""

    suite: Suite
    night: date
    is_backfill: bool
    experiments: tuple[Planned, ...]


def plan_night(path: Path, home: Home, *, asked: date | None, at: datetime) -> Plan:
    """Read a suite and find what its night needs.

    Args:
        path: of the suite's file.
        home: its home.
        asked: the night; None: the day that it is.
        at: when the night starts.

    Raises:
        RefusedError: the file, the date, a pinned run, the home, or a receiver of notifications
            cannot be used.
    """
    suite = read_suite(path)
    night, is_backfill = choose_night(suite, asked, at)
    for entry in suite.entries:
        check_storage(entry.experiment, home)
    check_name(suite, home)
    if suite.checks.anchor.path is not None:
        read_anchor(suite.checks.anchor.path)
    if suite.notify.urls_env is not None:
        check_receivers(suite.notify.urls_env, receivers_of(suite.notify.urls_env, os.environ))
    with _warehouse(home) as connection:
        experiments = tuple(
            Planned(
                entry,
                _pinned(entry, suite, connection),
                documents_of_night(entry.experiment, night, home, connection)
                if is_backfill
                else None,
            )
            for entry in suite.entries
        )
    return Plan(suite, night, is_backfill, experiments)


def check_name(suite: Suite, home: Home) -> None:
    """Bind the suite's name to its file in this home, or refuse a second one of the same name.

    A file that has moved (it is gone, has another name by now, or is the same to the byte, as in
    another checkout) leaves its name free.

    Raises:
        ConfigurationError: another file, which is still there, bears the name.
    """
    note = home.suites / f"{digest_of(suite.name)[:16]}.json"
    other = _bound_file(note)
    if other is not None and other != Path(suite.path) and _bears(other, suite):
        raise ConfigurationError(
            f"{suite.path}: a suite called {suite.name!r} is read from {other} in this home, and "
            "their nights would be taken for each other's. Give this one another name "
            '(name = "…"), or move the other file away.'
        )
    if other != Path(suite.path):
        note.parent.mkdir(parents=True, exist_ok=True)
        draft = note.with_suffix(".tmp")
        draft.write_text(json.dumps({"name": suite.name, "path": suite.path}), "utf-8")
        draft.replace(note)


def _bound_file(note: Path) -> Path | None:
    try:
        return Path(json.loads(note.read_text("utf-8"))["path"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _bears(other: Path, suite: Suite) -> bool:
    """Whether another file is a suite of the same name that is not the same suite."""
    try:
        is_copy = other.read_bytes() == Path(suite.path).read_bytes()
        name = read_toml(other).get("name", other.stem)
    except (OSError, ConfigurationError):
        return False
    return not is_copy and name == suite.name


@contextmanager
def _warehouse(home: Home) -> Iterator[DuckDBPyConnection | None]:
    """What is known of past nights: the published copy, else the warehouse; None: there is none."""
    from warehouse.connect import open_to_read
    from warehouse.reading import open_published

    if home.published.exists():
        with open_published(home) as connection:
            yield connection
    elif home.warehouse.exists():
        with open_to_read(home.warehouse) as connection:
            yield connection
    else:
        yield None


def _pinned(entry: Entry, suite: Suite, connection: DuckDBPyConnection | None) -> BaselineRule:
    """The rule with its run as a whole id.

    Raises:
        ConfigurationError: there is no such run, it failed, or it is of another experiment.
    """
    rule, name = entry.baseline, entry.experiment.name
    if rule.run is None:
        return rule
    where = f"{suite.path}: experiment {name!r}: the baseline's run {rule.run!r}"
    if connection is None:
        raise ConfigurationError(f"{where} does not exist: there are no runs in this home yet")
    from warehouse.finding import resolve_run

    try:
        run_id = resolve_run(connection, rule.run)
    except UsageError as error:
        raise ConfigurationError(f"{where} does not exist: {error}") from None
    row = connection.execute(
        "SELECT experiment, status FROM runs WHERE run_id = ?", [run_id]
    ).fetchone()
    experiment, status = row or (None, None)
    if status == "failed":
        raise ConfigurationError(f"{where} failed: it has no results; name one that completed")
    if experiment != name:
        raise ConfigurationError(
            f"{where} is of experiment {experiment!r}. A suite of several experiments pins a run "
            "for each, under its own baseline = { … }"
        )
    return rule.model_copy(update={"run": run_id})
