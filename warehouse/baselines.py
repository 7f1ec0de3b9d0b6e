"""Which nights are good, which of them the next one is compared with, and which losses are open.

A night is good when it completed with coverage and its verdict is not worse. A loss opens with a
verdict *worse* and stays open, against the same baseline, until the measure is *same* or *better*
again, or somebody accepts a run. While one is open no night is good: one that could not be
compared, or gave not enough evidence, must not become the baseline of a loss that is still there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from warehouse.comparisons import Baseline, BaselineKind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

MIN_COVERAGE = 0.95
BACKFILL_TAG = "back-fill"
"""On runs whose night was over when they started: none becomes a baseline by itself."""

GATES = ("previous", "mean", "pinned")
"""Kinds of comparison that a suite makes; any other is somebody's question."""


@dataclass(frozen=True, slots=True)
class Gated:
    """What one gate said of a run."""

    kind: BaselineKind
    measure: str
    verdict: Verdict
    compared_at: datetime


@dataclass(frozen=True, slots=True)
class Night:
    """One attempt of one night."""

    run_id: str
    logical_date: date
    is_covered: bool = True  # of every gated measure, enough scores did not fail
    gated: tuple[Gated, ...] = ()
    accepted_at: datetime | None = None  # when somebody made it what later nights are compared with


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss that is open."""

    kind: BaselineKind
    measure: str
    since: date
    run_id: str  # where it opened


@dataclass(frozen=True, slots=True)
class History:
    """What the nights up to one have come to."""

    good: Mapping[date, str] = field(default_factory=dict)  # night to run, in order of nights
    open: Mapping[tuple[BaselineKind, str], Loss] = field(default_factory=dict)
    accepted: Night | None = None  # the newest of those that somebody accepted

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Open losses, the oldest first."""
        return tuple(sorted(self.open.values(), key=lambda loss: (loss.since, loss.measure)))


def follow(nights: Iterable[Night], history: History | None = None) -> History:
    """Go through nights in order of date and run id.

    Args:
        nights: every attempt, in order; none of them failed or was back-filled, unless accepted.
        history: of the nights before these.
    """
    found = history or History()
    for night in nights:
        found = _after(found, night)
    return found


def _after(history: History, night: Night) -> History:
    if night.accepted_at is not None:
        return History({night.logical_date: night.run_id}, {}, night)
    decided_at = None if history.accepted is None else history.accepted.accepted_at
    # What was compared before somebody accepted another baseline says nothing about that one.
    gated = [item for item in night.gated if decided_at is None or item.compared_at > decided_at]
    lost = dict(history.open)
    for item in gated:
        key = (item.kind, item.measure)
        if item.verdict == "worse":
            lost.setdefault(key, Loss(*key, since=night.logical_date, run_id=night.run_id))
        elif item.verdict in ("same", "better") and night.is_covered:
            lost.pop(key, None)
    if not gated or lost or not night.is_covered:
        return replace(history, open=lost)
    good = {**history.good, night.logical_date: night.run_id}
    return replace(history, good=dict(sorted(good.items())), open=lost)


def choose(
    history: History, *, kind: str, n_nights: int = 1, pinned: str | None = None
) -> tuple[Baseline, ...]:
    """What a night is compared with: its baseline and, beside it, a pinned run.

    Args:
        history: of the nights before it.
        kind: previous, mean or pinned.
        n_nights: of mean: how many good nights.
        pinned: the id of a run. One that was accepted and is newer takes its place.

    Returns:
        One or two; without run ids: there is no good night yet.
    """
    found: list[Baseline] = []
    good = tuple(history.good.values())
    if kind == "mean":
        found.append(Baseline(good[-n_nights:], "mean"))
    elif kind == "previous":
        found.append(Baseline(good[-1:], "previous"))
    if pinned is not None:
        accepted = history.accepted
        is_newer = accepted is not None and accepted.run_id > pinned
        anchor = accepted.run_id if accepted is not None and is_newer else pinned
        found.append(Baseline((anchor,), "pinned"))
    return tuple(found)


def read_history(
    connection: DuckDBPyConnection,
    *,
    experiment: str,
    suite: str | None,
    before: date,
    run_id: str | None = None,
) -> History:
    """What the nights of an experiment in a suite have come to.

    Args:
        connection: the warehouse.
        experiment: its name.
        suite: likewise.
        before: only nights before this one; runs of the same night only when they were accepted.
        run_id: a run of that night, which is left out.
    """
    rows = connection.execute(_NIGHTS, [before, run_id, experiment, suite]).fetchall()
    gated = _gated(connection, [row[0] for row in rows])
    coverage = _coverage(connection, gated)
    return follow(
        Night(
            run_id=row[0],
            logical_date=row[1],
            is_covered=coverage.get(row[0], True),
            gated=gated.get(row[0], ()),
            accepted_at=row[2],
        )
        for row in rows
    )


def read_night(connection: DuckDBPyConnection, run_id: str) -> Night:
    """One run with what its gates said."""
    row = connection.execute("SELECT logical_date FROM runs WHERE run_id = ?", [run_id]).fetchone()
    if row is None:
        raise LookupError(f"run {run_id} is not in the warehouse")
    gated = _gated(connection, [run_id])
    return Night(
        run_id=run_id,
        logical_date=row[0],
        is_covered=_coverage(connection, gated).get(run_id, True),
        gated=gated.get(run_id, ()),
    )


# $1 the night, $2 a run to leave out, $3 the experiment, $4 the suite. The newest decision holds.
_NIGHTS = f"""
WITH decision AS (
    SELECT baseline.run_id, baseline.accepted_at
    FROM baselines AS baseline
    JOIN runs AS run ON run.run_id = baseline.run_id
    WHERE baseline.experiment = $3 AND (baseline.suite IS NULL OR baseline.suite = $4)
        AND run.logical_date <= $1
    ORDER BY baseline.accepted_at DESC, baseline.baseline_id DESC
    LIMIT 1
)
SELECT run.run_id, run.logical_date, decision.accepted_at
FROM runs AS run
LEFT JOIN decision ON decision.run_id = run.run_id
LEFT JOIN run_tags AS tag ON tag.run_id = run.run_id AND tag.tag = '{BACKFILL_TAG}'
WHERE run.status <> 'failed' AND run.experiment = $3 AND run.run_id IS DISTINCT FROM $2
    AND (
        decision.run_id IS NOT NULL
        OR (run.suite = $4 AND run.logical_date < $1 AND tag.run_id IS NULL)
    )
ORDER BY run.logical_date, run.run_id
"""  # noqa: S608 - a constant


def _gated(connection: DuckDBPyConnection, run_ids: Sequence[str]) -> dict[str, tuple[Gated, ...]]:
    rows: list[Any] = connection.execute(
        "SELECT run_id, baseline, measure, verdict, compared_at FROM comparisons "
        "WHERE is_gated AND tag IS NULL AND list_contains(?, run_id) "
        "AND list_contains(?, baseline) ORDER BY compared_at",
        [list(run_ids), list(GATES)],
    ).fetchall()
    found: dict[str, tuple[Gated, ...]] = {}
    for run_id, kind, measure, verdict, compared_at in rows:
        found[run_id] = (*found.get(run_id, ()), Gated(kind, measure, verdict, compared_at))
    return found


def _coverage(
    connection: DuckDBPyConnection, gated: Mapping[str, tuple[Gated, ...]]
) -> dict[str, bool]:
    """Run id to whether every gated measure has enough scores that did not fail."""
    rows = connection.execute(
        "SELECT run_id, measure, n_scored, n_failed FROM newest_run_metrics "
        "WHERE list_contains(?, run_id)",
        [list(gated)],
    ).fetchall()
    shares = {
        (run_id, measure): n_scored / (n_scored + n_failed) if n_scored + n_failed else 0.0
        for run_id, measure, n_scored, n_failed in rows
    }
    return {
        run_id: all(shares.get((run_id, item.measure), 0.0) >= MIN_COVERAGE for item in items)
        for run_id, items in gated.items()
    }
