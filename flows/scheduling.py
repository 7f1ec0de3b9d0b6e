"""When nights are due: cron times in a time zone, and the newest one that was missed.

The times are those of Prefect's own scheduler, so that what is made up and what is scheduled
agree. At a change of the clock a night fires once: a time that is skipped in spring fires when the
clock has jumped (02:30 becomes 03:30), one that comes twice in autumn fires the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError

from schemas.errors import ConfigurationError

LOOK_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=40), timedelta(days=3000))
"""How far a fire is looked for in the past, step by step: 29 February may be 8 years ago."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """A cron expression of five fields, read in a time zone."""

    cron: str
    timezone: str = "UTC"

    def check(self, where: str) -> None:
        """Refuse what never fires, or cannot be read.

        Args:
            where: the file that says so, for the message.

        Raises:
            ConfigurationError: the time zone does not exist, the expression is none, has seconds
                or never fires.
        """
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigurationError(
                f"{where}: schedule.timezone is {self.timezone!r}, which is no time zone; expected "
                "a name such as Europe/Berlin or UTC"
            ) from None
        expected = (
            "expected minute, hour, day, month and weekday, such as "
            '"30 2 * * *" for every night at half past two'
        )
        if len(self.cron.split()) != 5:
            raise ConfigurationError(f"{where}: schedule.cron is {self.cron!r}; {expected}")
        try:
            next_fire = self.next_fire(datetime.now(UTC))
        except ValueError as error:
            said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise ConfigurationError(
                f"{where}: schedule.cron is {self.cron!r} ({said}); {expected}"
            ) from None
        if next_fire is None:
            raise ConfigurationError(
                f"{where}: schedule.cron is {self.cron!r}, which never fires; {expected}"
            )

    def next_fire(self, after: datetime) -> datetime | None:
        """The first fire later than ``after``, in UTC; None: there is none."""
        return next(self._fires(after + timedelta(microseconds=1), None), None)

    def last_fire(self, until: datetime) -> datetime | None:
        """The last fire at or before ``until``, in UTC; None: there is none."""
        for span in LOOK_BACK:
            fires = list(self._fires(until - span, until))
            if fires:
                return fires[-1]
        return None

    def on_the_wall(self, fire: datetime) -> str:
        """What the clock says in the time zone, for people."""
        return f"{fire.astimezone(ZoneInfo(self.timezone)):%Y-%m-%d %H:%M} {self.timezone}"

    def logical_date(self, fire: datetime) -> date:
        """The date of a night: the one in the time zone when it was due, however late it runs."""
        return fire.astimezone(ZoneInfo(self.timezone)).date()

    def newest_missed(
        self, *, since: datetime, now: datetime, done: Container[date]
    ) -> datetime | None:
        """The newest fire whose night has not run; None: nothing is to be made up.

        Args:
            since: when the schedule began; earlier fires were never promised.
            now: fires after it are still to come.
            done: logical dates of the nights that ran to their end.
        """
        fire = self.last_fire(now)
        if fire is None or fire <= since or self.logical_date(fire) in done:
            return None
        return fire

    def _fires(self, start: datetime, end: datetime | None) -> Iterator[datetime]:
        """Fires from ``start`` to ``end``, both included; without an end the first ones."""
        from prefect.server.schemas.schedules import CronSchedule

        schedule = CronSchedule(cron=self.cron, timezone=self.timezone)
        while True:
            # Prefect answers with at most a thousand at once.
            page = asyncio.run(schedule.get_dates(start=start, end=end))
            if not page:
                return
            for fire in page:
                yield fire.astimezone(UTC)
            start = page[-1] + timedelta(seconds=1)
