"""Nights are due when the clock on the wall says so, once a night, whatever the clock does."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from flows.scheduling import Timetable
from schemas.errors import ConfigurationError

BERLIN = Timetable("30 2 * * *", "Europe/Berlin")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fires(timetable: Timetable, start: str, n: int) -> list[str]:
    """The next ``n`` fires in UTC."""
    at, found = utc(start), []
    for _ in range(n):
        fire = timetable.next_fire(at)
        assert fire is not None
        found.append(f"{fire.astimezone(UTC):%m-%d %H:%M}")
        at = fire
    return found


# Worked by hand. Germany: UTC+1, from 29 March 2026 01:00 UTC to 25 October 2026 01:00 UTC UTC+2;
# the clock jumps from 02:00 to 03:00, and falls from 03:00 back to 02:00. New York: UTC-5, from
# 8 March 2026 07:00 UTC to 1 November 2026 06:00 UTC UTC-4. Lord Howe falls back by half an hour:
# UTC+11, from 4 April 2026 15:00 UTC UTC+10:30, so that 01:30 to 02:00 comes twice.
@pytest.mark.parametrize(
    ("timetable", "start", "expected"),
    [
        pytest.param(
            BERLIN,
            "2026-03-27T12:00",
            ["03-28 01:30", "03-29 01:30", "03-30 00:30", "03-31 00:30"],
            id="a time that is skipped in spring fires an hour later by the clock",
        ),
        pytest.param(
            BERLIN,
            "2026-10-23T12:00",
            ["10-24 00:30", "10-25 00:30", "10-26 01:30", "10-27 01:30"],
            id="a time that comes twice in autumn fires the first time only",
        ),
        pytest.param(
            Timetable("0 4 * * *", "Europe/Berlin"),
            "2026-03-27T12:00",
            ["03-28 03:00", "03-29 02:00", "03-30 02:00"],
            id="a time after the change keeps the clock's hour",
        ),
        pytest.param(
            Timetable("30 1 * * *", "America/New_York"),
            "2026-10-31T00:00",
            ["10-31 05:30", "11-01 05:30", "11-02 06:30"],
            id="New York falls back at two",
        ),
        pytest.param(
            Timetable("45 1 * * *", "Australia/Lord_Howe"),
            "2026-04-03T00:00",
            ["04-03 14:45", "04-04 14:45", "04-05 15:15"],
            id="half an hour counts too",
        ),
        pytest.param(
            Timetable("30 2 * * *", "UTC"),
            "2026-03-28T12:00",
            ["03-29 02:30", "03-30 02:30"],
            id="UTC has no summer",
        ),
    ],
)
def test_a_night_fires_once_at_a_change_of_the_clock(
    timetable: Timetable, start: str, expected: list[str]
) -> None:
    assert fires(timetable, start, len(expected)) == expected


@pytest.mark.parametrize("start", [f"2026-10-25T00:{minute:02d}" for minute in (0, 29, 31, 59)])
def test_a_restart_within_the_repeated_hour_fires_no_second_time(start: str) -> None:
    expected = "10-25 00:30" if utc(start) < utc("2026-10-25T00:30") else "10-26 01:30"
    assert fires(BERLIN, start, 1) == [expected]
    assert BERLIN.last_fire(utc("2026-10-25T01:45")) == utc("2026-10-25T00:30")


def test_every_day_of_a_year_has_exactly_one_night_of_its_date() -> None:
    at, dates = utc("2025-12-31T12:00"), []
    for _ in range(365):
        fire = BERLIN.next_fire(at)
        assert fire is not None
        dates.append(BERLIN.logical_date(fire))
        at = fire
    assert dates == [date(2026, 1, 1) + timedelta(days=n) for n in range(365)]


def test_the_date_of_a_night_is_the_one_on_the_wall_when_it_was_due() -> None:
    # 22:30 UTC is half past midnight in Berlin's summer, and half past three in the afternoon in
    # Los Angeles.
    due = utc("2026-07-01T22:30")
    assert Timetable("30 0 * * *", "Europe/Berlin").logical_date(due) == date(2026, 7, 2)
    assert Timetable("30 15 * * *", "America/Los_Angeles").logical_date(due) == date(2026, 7, 1)


def test_the_last_fire_is_found_however_rare_or_frequent() -> None:
    now = utc("2026-11-30T23:59")
    assert Timetable("0 0 29 2 *").last_fire(now) == utc("2024-02-29T00:00")
    assert Timetable("* 0-22 * * *").last_fire(now) == utc("2026-11-30T22:59")
    assert Timetable("* * * * *").last_fire(now) == now
    assert Timetable("0 6 1 * *").last_fire(now) == utc("2026-11-01T06:00")


class TestMissed:
    """Served since the 1st; it is the 20th at noon."""

    since, now = utc("2026-11-01T12:00"), utc("2026-11-20T12:00")
    fire = utc("2026-11-20T01:30")  # 02:30 in Berlin's winter

    def missed(self, **changed: object) -> datetime | None:
        arguments = {"since": self.since, "now": self.now, "done": set()} | changed
        return BERLIN.newest_missed(**arguments)  # type: ignore[arg-type]

    def test_only_the_newest_of_many_missed_nights_is_made_up(self) -> None:
        assert self.missed() == self.fire
        assert self.missed(done={date(2026, 11, 5)}) == self.fire

    def test_a_night_that_ran_is_not_made_up(self) -> None:
        assert self.missed(done={date(2026, 11, 20)}) is None

    def test_an_older_missed_night_is_let_go(self) -> None:
        assert self.missed(done={date(2026, 11, 20), date(2026, 11, 18)}) is None

    def test_what_was_due_before_the_suite_was_served_is_not_missed(self) -> None:
        assert self.missed(since=self.fire) is None
        assert self.missed(since=self.fire - timedelta(seconds=1)) == self.fire

    def test_a_night_that_is_still_to_come_is_not_missed(self) -> None:
        before = self.fire - timedelta(minutes=1)
        assert self.missed(now=before, done={date(2026, 11, 19)}) is None


@pytest.mark.parametrize(
    ("cron", "timezone", "said"),
    [
        ("61 * * * *", "UTC", "schedule.cron is '61 * * * *'"),
        ("nightly", "UTC", "schedule.cron is 'nightly'"),
        ("0 2 * *", "UTC", "expected minute, hour, day, month and weekday"),
        ("0 0 2 * * *", "UTC", "expected minute, hour, day, month and weekday"),
        ("0 0 30 2 *", "UTC", "failed to find next date"),
        ("R 2 * * *", "UTC", "unsupported"),
        ("0 2 * * *", "Mars/Olympus", "schedule.timezone is 'Mars/Olympus', which is no time zone"),
        ("0 2 * * *", "../../etc/passwd", "which is no time zone"),
        ("0 2 * * *", "Europe", "which is no time zone"),
        ("0 2 * * *", "", "which is no time zone"),
    ],
)
def test_what_never_fires_is_refused_and_named(cron: str, timezone: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Timetable(cron, timezone).check("suite.toml")
    assert str(refused.value).startswith("suite.toml: schedule.")
    assert said in str(refused.value)
