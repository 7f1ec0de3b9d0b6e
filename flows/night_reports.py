"""What a night came to: the report that commands print, Prefect shows and people are told."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict

from warehouse.baselines import Loss
from warehouse.comparisons import Comparison, Verdict
from warehouse.night_verdicts import heaviest

EXIT_CODES: dict[Verdict, int] = {
    "worse": 10,
    "not enough evidence": 11,
    "not comparable": 12,
    "better": 0,
    "same": 0,
}
ORDER_OF_CODES = (1, 10, 12, 11)
"""A suite returns the first of these that one of its experiments has."""
REFUSED = 2


class Outcome(BaseModel):
    """One experiment of the night."""

    model_config = ConfigDict(frozen=True)

    experiment: str
    status: Literal["completed", "degraded", "failed", "refused"]  # of its run
    run_id: str | None = None  # None: it was refused before it began
    verdict: Verdict | None = None  # None: nothing was measured
    reason: str = ""  # what the numbers do not say; or why nothing was measured
    is_first_night: bool = False
    spooled_because: str | None = None  # why the run is not in the warehouse yet
    comparisons: tuple[Comparison, ...] = ()  # that which decided stands first
    losses: tuple[Loss, ...] = ()  # that are open after this night
    alarms: tuple[str, ...] = ()  # models that changed under their name
    why: tuple[str, ...] = ()  # what differs from the baseline, in words

    @property
    def exit_code(self) -> int:
        """Of this experiment alone."""
        if self.verdict is None:
            return 1
        return 0 if self.is_first_night else EXIT_CODES[self.verdict]


class NightReport(BaseModel):
    """One night of a suite."""

    model_config = ConfigDict(frozen=True)

    suite: str
    path: str
    home: str
    logical_date: date
    is_backfill: bool = False
    outcomes: tuple[Outcome, ...]
    flow_runs: dict[str, int] = {}  # of Prefect, to how many task runs each has

    @property
    def verdict(self) -> Verdict | None:
        """Of all experiments; None: one could not be measured."""
        verdicts = [outcome.verdict for outcome in self.outcomes if outcome.verdict is not None]
        return heaviest(verdicts) if len(verdicts) == len(self.outcomes) else None

    @property
    def title(self) -> str:
        """One or a few words for the whole night: the name of Prefect's final state."""
        return self.verdict or "failed"

    @property
    def is_refused(self) -> bool:
        """Whether no experiment could even begin: nothing was spent or written."""
        return all(outcome.status == "refused" for outcome in self.outcomes)

    def exit_code(self, tolerated: Collection[int] = ()) -> int:
        """The first that applies of 1, 10, 12 and 11; 2 when all were refused."""
        if self.is_refused:
            return REFUSED
        codes = {outcome.exit_code for outcome in self.outcomes} - set(tolerated)
        return next((code for code in ORDER_OF_CODES if code in codes), 0)
