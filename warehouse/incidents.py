"""What people have to be told of an experiment's nights: when a loss opens, changes or closes.

An incident is the difference between what people were last told and how things stand after a
night. So a night without news says nothing, and what could not be delivered is said with the next
night, as long as it is still so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Change = Literal["opened", "changed", "closed"]


@dataclass(frozen=True, slots=True)
class OpenLoss:
    """A gated measure that got worse and has not been shown to be back."""

    baseline: str  # previous, mean or pinned
    measure: str
    since: date

    @property
    def key(self) -> tuple[str, str]:
        """A loss is the same one whenever it is dated."""
        return self.baseline, self.measure


@dataclass(frozen=True, slots=True)
class Standing:
    """How an experiment stands: well, unless something is open."""

    losses: tuple[OpenLoss, ...] = ()
    has_failed: bool = False  # the night could not be measured

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.losses and not self.has_failed

    @property
    def _matter(self) -> tuple[frozenset[tuple[str, str]], bool]:
        return frozenset(loss.key for loss in self.losses), self.has_failed

    def change_since(self, told: Standing) -> Change | None:
        """What is new beside what people were told; None: nothing.

        Other measures, or another baseline that they are worse than, are a change; so is a night
        that cannot be measured while a loss is open, and one that can be again. A night that shows
        nothing either way (not comparable, not enough evidence) leaves a loss as it stood.
        """
        if self._matter == told._matter:
            return None
        if told.is_well:
            return "opened"
        return "closed" if self.is_well else "changed"

    def to_json(self) -> dict[str, Any]:
        """As an event's details hold it."""
        losses = [[*loss.key, loss.since.isoformat()] for loss in self.losses]
        return {"losses": losses, "has_failed": self.has_failed}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Standing:
        """Back from an event's details.

        Raises:
            KeyError, TypeError, ValueError: they are not of this form.
        """
        losses = tuple(
            OpenLoss(str(kind), str(measure), date.fromisoformat(since))
            for kind, measure, since in value["losses"]
        )
        return cls(losses, bool(value["has_failed"]))


WELL = Standing()


@dataclass(frozen=True, slots=True)
class Incident:
    """News of one experiment."""

    experiment: str
    run_id: str | None
    change: Change
    now: Standing
    told: Standing


def find_incident(
    experiment: str, run_id: str | None, *, now: Standing, told: Standing
) -> Incident | None:
    """The news; None: there is none."""
    change = now.change_since(told)
    return None if change is None else Incident(experiment, run_id, change, now, told)


def read_told(
    connection: DuckDBPyConnection, suite: str, experiments: Collection[str]
) -> dict[str, Standing]:
    """What people were last told of each experiment; well where nothing was ever said."""
    rows = connection.execute(
        "SELECT details FROM events WHERE kind = 'notified' AND details ->> '$.suite' = ? "
        "ORDER BY occurred_at, event_id",
        [suite],
    ).fetchall()
    told = dict.fromkeys(experiments, WELL)
    for (details,) in rows:
        value = json.loads(details)
        if value.get("experiment") in told:
            told[value["experiment"]] = Standing.from_json(value)
    return told


_UNTOLD = """
SELECT details ->> '$.suite' AS suite, details ->> '$.experiment' AS experiment,
    max(occurred_at), max_by(message, occurred_at)
FROM events AS missed
WHERE kind = 'notification_failed' AND NOT EXISTS (
    SELECT 1 FROM events AS heard
    WHERE heard.kind = 'notified'
        AND heard.details ->> '$.suite' = missed.details ->> '$.suite'
        AND heard.details ->> '$.experiment' = missed.details ->> '$.experiment'
        AND heard.details ->> '$.logical_date' >= missed.details ->> '$.logical_date'
)
GROUP BY ALL ORDER BY ALL
"""


def find_untold(connection: DuckDBPyConnection) -> list[tuple[str, str, datetime, str]]:
    """Suite, experiment, when and what: the last news of each that reached nobody."""
    return connection.execute(_UNTOLD).fetchall()
