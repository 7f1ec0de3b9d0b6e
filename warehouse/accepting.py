"""Decisions about baselines: who accepted which run, when, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import UsageError
from schemas.home import Home
from warehouse.comparison_rows import BaselineRow, baselines_frame
from warehouse.finding import resolve_run
from warehouse.queries import NamedQuery
from warehouse.spool import Spool

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ACCEPTED = NamedQuery(
    "accepted",
    ("accepted_at", "author", "experiment", "suite", "logical_date", "run_id", "reason"),
    """\
SELECT baseline.accepted_at, baseline.author, baseline.experiment, baseline.suite,
    run.logical_date, baseline.run_id, baseline.reason
FROM baselines AS baseline
LEFT JOIN runs AS run ON run.run_id = baseline.run_id
WHERE {experiment} IS NULL OR baseline.experiment = {experiment}
ORDER BY baseline.accepted_at DESC, baseline.baseline_id DESC
LIMIT {limit}""",
)


@dataclass(frozen=True, slots=True)
class Decision:
    """A run that somebody accepts."""

    run_id: str
    experiment: str
    suite: str | None  # None: every suite
    night: date
    author: str
    reason: str

    def put(self, home: Home) -> Path:
        """Leave the decision for the loader; see ``Spool.put_tables``."""
        row = BaselineRow(
            experiment=self.experiment,
            suite=self.suite,
            run_id=self.run_id,
            author=self.author,
            reason=self.reason,
        )
        return Spool(home).put_tables({"baselines": baselines_frame([row])})


def accept_run(connection: DuckDBPyConnection, run: str, *, reason: str, author: str) -> Decision:
    """The decision to accept a run, not yet written.

    Args:
        connection: the published copy.
        run: an id, a part of one, or ``latest``.
        reason: why.
        author: who.

    Raises:
        UsageError: no such run, it failed, or nobody says who or why.
    """
    for name, text in (("--reason", reason), ("--by", author)):
        if not text.strip():
            raise UsageError(f"{name} is empty; a decision is kept with who and why")
    run_id = resolve_run(connection, run)
    row = connection.execute(
        "SELECT experiment, suite, logical_date, status FROM runs WHERE run_id = ?", [run_id]
    ).fetchone()
    experiment, suite, night, status = row or ("", None, date.min, "failed")
    if status == "failed":
        raise UsageError(f"run {run_id} failed: it has no results to compare with")
    return Decision(run_id, experiment, suite, night, author.strip(), reason.strip())
