"""The verdict of a night: of all its comparisons together, and of losses that are still open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from warehouse.baselines import GATES, History, Loss, follow, read_history, read_night
from warehouse.comparisons import FIRST_NIGHT, Comparison, Verdict
from warehouse.stored_comparisons import read_comparisons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

BY_WEIGHT: tuple[Verdict, ...] = (
    "worse",
    "not comparable",
    "not enough evidence",
    "better",
    "same",
)
"""Of several verdicts the first of these is that of all."""


@dataclass(frozen=True, slots=True)
class NightVerdict:
    """What is said of one run in the morning."""

    verdict: Verdict
    reason: str
    comparisons: tuple[Comparison, ...]  # that which decided stands first
    losses: tuple[Loss, ...] = ()  # open after this night

    @property
    def is_first_night(self) -> bool:
        """Whether there was nothing yet to compare with."""
        return self.verdict == "not comparable" and self.reason == FIRST_NIGHT


def heaviest(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of several: worse before all, same only where all are."""
    return min(verdicts, key=BY_WEIGHT.index)


def read_verdict(connection: DuckDBPyConnection, run_id: str) -> NightVerdict | None:
    """The verdict of a suite's run; None: nobody has compared it yet.

    Raises:
        LookupError: the warehouse does not have the run.
    """
    comparisons = read_comparisons(connection, run_id, GATES)
    if not comparisons:
        return None
    night = read_night(connection, run_id)
    row = connection.execute(
        "SELECT experiment, suite FROM runs WHERE run_id = ?", [run_id]
    ).fetchone()
    experiment, suite = row or ("", None)
    before = read_history(
        connection, experiment=experiment, suite=suite, before=night.logical_date, run_id=run_id
    )
    return conclude(comparisons, follow([night], before))


def conclude(comparisons: Sequence[Comparison], after: History) -> NightVerdict:
    """Of a run's comparisons, and of the losses that are open after it, one verdict.

    A first night counts for nothing beside a comparison that could be made.
    """
    made = [item for item in comparisons if item.reason != FIRST_NIGHT] or list(comparisons)
    verdict = heaviest([item.verdict for item in made])
    decided = next(item for item in made if item.verdict == verdict)
    others = [item for item in comparisons if item is not decided]
    reason = decided.reason
    if after.losses and verdict != "worse":
        verdict, reason = (
            "worse",
            f"{_still_open(after.losses)}; tonight: {decided.verdict}"
            + (f" ({reason})" if reason else ""),
        )
    return NightVerdict(verdict, reason, (decided, *others), after.losses)


def _still_open(losses: Sequence[Loss]) -> str:
    since = ", ".join(f"{loss.measure} since {loss.since}" for loss in losses)
    return f"the loss of {since} is not shown to be gone"
