"""Telling people: real HTTP receivers on loopback that take, refuse, fail, hang and drip."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from flows.night_reports import NightReport, Outcome
from flows.telling import artifact_key, tell_people
from schemas.errors import ConfigurationError
from schemas.home import Home
from schemas.suites import Notify
from tasks import notifying
from tasks.notifying import Delivery, check_receivers, receivers_of, send
from tests.data.receivers import SECRET, Receivers, closed_port, receivers
from warehouse.baselines import Loss
from warehouse.health import Finding, find_health

NIGHT = date(2026, 11, 1)
VARIABLE = "RANKHOUSE_TEST_NOTIFY"


@pytest.fixture
def server() -> Iterator[Receivers]:
    with receivers() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def report(number: int, *losses: str, **fields: Any) -> NightReport:
    """The night of 1 November + ``number``, with these measures' losses open since the first."""
    about: dict[str, Any] = {"verdict": "worse" if losses else "same", "status": "completed"}
    about |= {"losses": tuple(Loss("previous", name, NIGHT, "run") for name in losses)}
    return NightReport(
        suite="docs nightly",
        path="suite.toml",
        home="home",
        logical_date=NIGHT + timedelta(days=number),
        outcomes=(Outcome(experiment="handbook", **{**about, **fields}),),
    )


def events(home: Home) -> list[tuple[str, dict[str, Any]]]:
    if not home.warehouse.exists():
        return []
    with duckdb.connect(str(home.warehouse), read_only=True) as connection:
        rows = connection.execute(
            "SELECT kind, details FROM events ORDER BY occurred_at, event_id"
        ).fetchall()
    return [(kind, json.loads(details)) for kind, details in rows]


def health(home: Home) -> list[Finding]:
    return find_health(home, max_age=timedelta(days=3650))


def test_whoever_can_be_reached_is_told_whatever_the_others_do(server: Receivers) -> None:
    urls = [server.url(word) for word in ("takes", "fails", "hangs", "drips")]
    urls += [f"json://user:{SECRET}@127.0.0.1:{closed_port()}", "nosuch://place"]
    deliveries = send(urls, "docs: a loss opened", "ndcg@10 <b> | `q`", seconds=10)
    assert deliveries == [
        Delivery(1, is_delivered=True),
        Delivery(2, is_delivered=False, reason="it answered 500"),
        Delivery(3, is_delivered=False, reason="no answer within 10 s"),
        Delivery(4, is_delivered=False, reason="no answer within 10 s"),
        Delivery(5, is_delivered=False, reason="it could not be reached"),
        Delivery(6, is_delivered=False, reason="its URL is of no kind that apprise knows"),
    ]
    (heard,) = server.heard
    assert (heard["title"], heard["message"]) == ("docs: a loss opened", "ndcg@10 <b> | `q`")


def test_a_loss_is_said_when_it_opens_changes_and_closes_and_not_between(
    server: Receivers, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"{server.url('takes')}\n{server.url('fails')}")
    nights = [
        report(0),
        report(1, "ndcg@10"),
        report(2, "ndcg@10"),
        report(3, "ndcg@10", "rr@10"),
        # Not measured, behind a warehouse that somebody holds: nothing new is known.
        report(4, verdict="not enough evidence", reason="locked", spooled_because="held"),
        report(5, verdict=None, status="failed", reason="StageError: no disk"),
        report(6),
        report(7),
    ]
    said = []
    for night in nights:
        before = len(server.heard)
        tell_people(night, Notify(urls_env=VARIABLE), home)
        said.append([message["title"].partition(": handbook: ")[2] for message in server.heard])
        said[-1] = said[-1][before:]
    assert said == [
        [],
        ["a loss opened"],
        [],
        ["a loss changed"],
        [],
        ["the night could not be measured"],
        ["a loss closed"],
        [],
    ]
    assert server.heard[0]["title"] == "docs nightly, 2026-11-02: handbook: a loss opened"
    assert server.heard[1]["message"].startswith(
        "a loss changed (ndcg@10 since 2026-11-01, rr@10 since 2026-11-01). handbook: worse"
    )
    # The other receiver answered 500 each time: stored, but not said again to those who know.
    kinds = [kind for kind, _ in events(home)]
    assert (kinds.count("notified"), kinds.count("notification_failed")) == (4, 4)
    assert all(details["not_told"] == [[2, "it answered 500"]] for _, details in events(home))
    stored = b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())
    assert SECRET.encode() not in stored


def test_what_nobody_heard_is_said_again_the_next_night(
    server: Receivers,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(logging.getLogger("rankhouse"), "propagate", True)
    monkeypatch.setenv(VARIABLE, server.url("takes"))
    server.is_up = False
    tell_people(report(1, "ndcg@10"), Notify(urls_env=VARIABLE), home)
    assert caplog.messages == ["receiver 1 of 1 was not told: it answered 500"]
    assert [kind for kind, _ in events(home)] == ["notification_failed"]
    (untold,) = [item for item in health(home) if item.what == "notification"]
    assert (untold.name, untold.state) == ("docs nightly, handbook", "failed")
    assert ": a loss opened (ndcg@10 since 2026-11-01)" in untold.detail
    server.is_up = True
    for number in (2, 3):
        tell_people(report(number, "ndcg@10"), Notify(urls_env=VARIABLE), home)
    assert [message["title"] for message in server.heard] == [
        "docs nightly, 2026-11-03: handbook: a loss opened"
    ]
    assert not [item for item in health(home) if item.what == "notification"]


def test_nobody_hears_of_a_night_that_was_filled_in_later_or_without_a_receiver(
    server: Receivers, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = report(1, "ndcg@10").model_copy(update={"is_backfill": True})
    monkeypatch.setenv(VARIABLE, server.url("takes"))
    tell_people(late, Notify(urls_env=VARIABLE), home)
    tell_people(report(1, "ndcg@10"), Notify(), home)
    monkeypatch.delenv(VARIABLE)
    tell_people(report(1, "ndcg@10"), Notify(urls_env=VARIABLE), home)
    assert server.heard == []
    assert events(home) == []


def test_what_could_never_be_told_is_refused_before_the_night(
    server: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = (server.url("takes"), f"nosuch://{SECRET}")
    with pytest.raises(ConfigurationError, match="receiver 2 of 2: its URL is of no kind") as error:
        check_receivers(VARIABLE, urls)
    assert SECRET not in str(error.value)
    check_receivers(VARIABLE, urls[:1])
    assert server.heard == []
    monkeypatch.setattr(notifying, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install -e \"\.\[notify\]\"") as error:
        check_receivers(VARIABLE, urls)
    assert SECRET not in str(error.value)
    check_receivers(VARIABLE, ())


def test_receivers_are_parted_by_white_space() -> None:
    assert receivers_of("A", {"A": " json://a \n mailto://b:c@d\t"}) == (
        "json://a",
        "mailto://b:c@d",
    )
    assert receivers_of("A", {}) == ()
    assert receivers_of(None, {"A": "json://a"}) == ()


def test_prefect_takes_the_key_of_a_suite_of_any_name() -> None:
    assert artifact_key("Docs & Handbook_v2") == "nightly-docs-handbook-v2"
