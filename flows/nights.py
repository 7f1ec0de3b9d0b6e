"""Which night a run of a suite stands for, and the documents of nights that are over."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from flows.preflight import EARLIEST
from schemas.artifacts import Artifact
from schemas.errors import ConfigurationError, UsageError
from schemas.experiment import Experiment
from schemas.home import Home
from schemas.orders import DATE_PLACE, StoredDocuments
from schemas.suites import Suite

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def night_of(suite: Suite, at: datetime) -> date:
    """The day that it is in the time zone of the suite's schedule.

    In UTC a cron of 01:30 in Berlin would skip a day, and have one twice, when clocks change.

    Raises:
        ConfigurationError: there is no such time zone.
    """
    name = suite.schedule.timezone
    try:
        return at.astimezone(ZoneInfo(name)).date()
    except (KeyError, OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError
        raise ConfigurationError(
            f"{suite.path}: schedule.timezone = {name!r}: there is no such time zone; expected a "
            "name such as Europe/Paris"
        ) from None


def choose_night(suite: Suite, asked: date | None, at: datetime) -> tuple[date, bool]:
    """The night to run, and whether it is over already.

    Args:
        suite: whose schedule says which time zone days are of.
        asked: by ``--date``; None: the day that it is.
        at: the time of the start, as it was scheduled.

    Raises:
        UsageError: a night in the future, or before there was anything to evaluate.
    """
    today = night_of(suite, at)
    if asked is None or asked == today:
        return today, False
    latest = max(today, at.astimezone().date())  # of the machine, whose user may name the day
    if asked > latest:
        raise UsageError(f"--date {asked} is in the future; the latest is {latest}")
    if asked < EARLIEST:
        raise UsageError(f"--date {asked} is long past; the earliest is {EARLIEST}")
    return asked, asked < today


def documents_of_night(
    experiment: Experiment, night: date, home: Home, connection: DuckDBPyConnection | None
) -> StoredDocuments | None:
    """What a night that is over is evaluated on: None where ``{date}`` in the path names it.

    Args:
        experiment: as its file has it, with ``{date}``.
        night: the night.
        home: where artifacts are.
        connection: the warehouse; None: there is none.

    Raises:
        UsageError: nothing says what that night's corpus was.
    """
    if DATE_PLACE in experiment.corpus.path:
        return None
    found = [] if connection is None else _stored(connection, experiment, night)
    for row in found:
        documents = _artifact(experiment, home, digest=row[1], n_items=row[2])
        if documents is not None:
            return StoredDocuments(
                corpus_digest=row[0], documents=documents, stage_key=row[3], code_digest=row[4]
            )
    why = "their documents are no longer in the artifact store" if found else "no run of it is here"
    raise UsageError(
        f"--date {night}: {experiment.name!r} reads {experiment.corpus.path}, which holds today's "
        f"documents, and of that night {why}. Put {DATE_PLACE} into corpus.path where each night "
        "has a folder of its own."
    )


_RUNS_OF_NIGHT = """
SELECT run.corpus_digest, stage.output_digest, run.n_documents, stage.stage_key, stage.code_digest
FROM runs AS run
JOIN stages AS stage ON stage.run_id = run.run_id AND stage.stage = 'load_corpus'
WHERE run.logical_date = ? AND (run.experiment = ? OR run.corpus_path = ?)
    AND run.status <> 'failed' AND stage.stage_key IS NOT NULL
    AND run.started_at < run.logical_date + INTERVAL 36 HOUR
ORDER BY run.corpus_path = ? DESC, run.run_id DESC
"""  # later than that, the day is over everywhere on earth: its documents may be another day's


def _stored(
    connection: DuckDBPyConnection, experiment: Experiment, night: date
) -> list[tuple[str, str, int, str, str]]:
    path = experiment.corpus.path
    return connection.execute(_RUNS_OF_NIGHT, [night, experiment.name, path, path]).fetchall()


def _artifact(experiment: Experiment, home: Home, *, digest: str, n_items: int) -> Artifact | None:
    from flows.pipeline import store_of_workspace, workspace_of

    store = store_of_workspace(workspace_of(experiment, home, shows_progress=False))
    bare = Artifact(kind="documents", suffix=".parquet", digest=digest, size=0, n_items=n_items)
    size = store.size_of(bare.name)
    return None if size is None else bare.model_copy(update={"size": size})
