"""Which night it is, whose name a suite bears, which run is pinned, what a night may spend."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from flows.night_reports import NightReport, Outcome
from flows.nights import choose_night, night_of
from flows.ordering import within_night
from flows.planning_nights import check_name, plan_night
from schemas.endpoints import Budget
from schemas.errors import ConfigurationError, InputError, UsageError
from schemas.experiment import Summary
from schemas.home import Home
from schemas.orders import Order, at_date
from schemas.suites import Suite, read_suite
from tests.data.nightly_project import SUITE, write_suite
from tests.data.sample_runs import sample_run
from warehouse.comparisons import Verdict
from warehouse.load import load_parts
from warehouse.spool import Spool, new_run_id

AT = datetime(2026, 11, 30, 2, tzinfo=UTC)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_suite(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def in_zone(file: Path, name: str) -> Suite:
    file.write_text(SUITE + f'[schedule]\ntimezone = "{name}"\n')
    return read_suite(file)


def test_a_night_is_the_day_of_the_schedules_time_zone(file: Path) -> None:
    assert night_of(read_suite(file), AT) == date(2026, 11, 30)
    assert night_of(in_zone(file, "America/New_York"), AT) == date(2026, 11, 29)
    assert night_of(in_zone(file, "Asia/Tokyo"), AT) == date(2026, 11, 30)


def test_no_night_is_skipped_or_comes_twice_when_clocks_change(file: Path) -> None:
    # 01:30 in Berlin: 23:30 UTC of the day before in summer, 00:30 UTC in winter
    berlin = in_zone(file, "Europe/Berlin")
    starts = [
        datetime(2026, 10, 23, 23, 30, tzinfo=UTC),
        datetime(2026, 10, 24, 23, 30, tzinfo=UTC),
        datetime(2026, 10, 26, 0, 30, tzinfo=UTC),
    ]
    days = [night_of(berlin, at).day for at in starts]
    assert days == [24, 25, 26]


def test_a_night_before_today_is_a_back_fill(file: Path) -> None:
    suite = read_suite(file)
    assert choose_night(suite, None, AT) == (date(2026, 11, 30), False)
    assert choose_night(suite, date(2026, 11, 30), AT) == (date(2026, 11, 30), False)
    assert choose_night(suite, date(2026, 11, 29), AT) == (date(2026, 11, 29), True)


@pytest.mark.parametrize(
    ("asked", "says"), [(date(2026, 12, 2), "in the future"), (date(1969, 1, 1), "long past")]
)
def test_a_night_that_cannot_be_meant_is_refused(file: Path, asked: date, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        choose_night(read_suite(file), asked, AT)


def test_a_date_in_a_path_is_the_nights(file: Path) -> None:
    experiment = read_suite(file).entries[0].experiment
    corpus = experiment.corpus.model_copy(update={"path": "/x/{date}/docs"})
    dated = at_date(experiment.model_copy(update={"corpus": corpus}), date(2026, 11, 3))
    assert dated.corpus.path == "/x/2026-11-03/docs"


def test_a_second_suite_of_a_name_is_refused_while_the_first_is_there(
    file: Path, home: Home, tmp_path: Path
) -> None:
    check_name(read_suite(file), home)
    check_name(read_suite(file), home)
    (tmp_path / "other").mkdir()
    other = write_suite(tmp_path / "other")
    other.write_text(SUITE.replace("0.05", "0.01"))
    with pytest.raises(ConfigurationError, match="a suite called 'nightly' is read from"):
        check_name(read_suite(other), home)
    other.write_text('name = "theirs"\n' + SUITE)
    check_name(read_suite(other), home)


def test_a_suite_that_moved_or_was_checked_out_again_keeps_its_name(
    file: Path, home: Home, tmp_path: Path
) -> None:
    check_name(read_suite(file), home)
    (tmp_path / "other").mkdir()
    again = write_suite(tmp_path / "other")
    check_name(read_suite(again), home)  # the same to the byte
    again.write_text(SUITE.replace("0.05", "0.01"))
    check_name(read_suite(again), home)
    file.unlink()
    moved = tmp_path / "other" / "moved.toml"
    moved.write_text('name = "nightly"\n' + SUITE.replace("0.05", "0.02"))
    again.unlink()
    check_name(read_suite(moved), home)


def store(home: Home, **changes: Any) -> str:
    run_id = new_run_id()
    with Spool(home).start(run_id, experiment="boats") as started:
        started.finish(sample_run(run_id, **changes))
    load_parts(home)
    return run_id


def test_a_pinned_run_is_found_by_a_part_of_its_id(file: Path, home: Home) -> None:
    run_id = store(home, experiment="boats")
    file.write_text(SUITE + f'[baseline]\nkind = "pinned"\nrun = "{run_id[-12:]}"\n')
    plan = plan_night(file, home, asked=None, at=AT)
    assert plan.experiments[0].baseline.run == run_id


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"experiment": "ships"}, "is of experiment 'ships'"),
        ({"experiment": "boats", "status": "failed", "status_reason": "x"}, "it has no results"),
    ],
)
def test_a_pinned_run_that_cannot_serve_is_refused(
    file: Path, home: Home, changes: dict[str, Any], says: str
) -> None:
    run_id = store(home, **changes)
    file.write_text(SUITE + f'[baseline]\nrun = "{run_id}"\n')
    with pytest.raises(ConfigurationError, match=says):
        plan_night(file, home, asked=None, at=AT)


@pytest.mark.parametrize("n_runs", [0, 1])
def test_a_pinned_run_that_does_not_exist_is_refused(file: Path, home: Home, n_runs: int) -> None:
    for _ in range(n_runs):
        store(home, experiment="boats")
    file.write_text(SUITE + '[baseline]\nrun = "ffffffff"\n')
    with pytest.raises(ConfigurationError, match="the baseline's run 'ffffffff' does not exist"):
        plan_night(file, home, asked=None, at=AT)


@pytest.mark.parametrize(
    ("own", "night", "spent", "expected"),
    [
        (None, None, 5, None),
        (None, 30, 0, 30),
        (None, 30, 12, 18),
        (None, 30, 40, 0),
        (10, 30, 12, 10),
        (25, 30, 12, 18),
    ],
)
def test_a_run_may_spend_what_the_night_left_and_its_own_budget_allows(
    own: int | None, night: int | None, spent: int, expected: int | None
) -> None:
    summary = Summary(budget=None if own is None else Budget(calls=own))
    order = Order(night_budget=None if night is None else Budget(calls=night), spent_calls=spent)
    found = within_night(summary, order).budget
    assert (None if found is None else found.calls) == expected


def report(*verdicts: Verdict | None) -> NightReport:
    outcomes = tuple(
        Outcome(experiment=str(index), status="failed" if verdict is None else "completed")
        if verdict is None
        else Outcome(experiment=str(index), status="completed", verdict=verdict)
        for index, verdict in enumerate(verdicts)
    )
    return NightReport(
        suite="s", path="s.toml", home="h", logical_date=AT.date(), outcomes=outcomes
    )


@pytest.mark.parametrize(
    ("verdicts", "title", "codes"),
    [
        (("same", "better"), "better", (0, 0)),
        (("same", "not enough evidence"), "not enough evidence", (11, 0)),
        (("not comparable", "not enough evidence"), "not comparable", (12, 12)),
        (("worse", "not comparable", "not enough evidence"), "worse", (10, 10)),
        (("worse", None), "failed", (1, 1)),
    ],
)
def test_a_suite_returns_the_first_code_that_applies(
    verdicts: tuple[Verdict | None, ...], title: str, codes: tuple[int, int]
) -> None:
    night = report(*verdicts)
    assert night.title == title
    assert (night.exit_code(), night.exit_code({11})) == codes


def test_a_night_of_which_nothing_could_begin_is_refused() -> None:
    refused = Outcome(experiment="a", status="refused", reason="no such folder")
    night = report("same").model_copy(update={"outcomes": (refused,)})
    assert night.exit_code() == 2
    both = night.model_copy(update={"outcomes": (refused, *report("same").outcomes)})
    assert both.exit_code() == 1


def test_an_anchor_that_cannot_be_read_is_refused_before_the_night(file: Path, home: Home) -> None:
    experiment = file.with_name("boats.toml")
    judge = '[summary]\ncontexts = "reference"\n[summary.judge]\nmodel = "m"\n'
    experiment.write_text(experiment.read_text() + judge)
    file.write_text(SUITE + '[anchor]\npath = "anchor.jsonl"\n')
    with pytest.raises(InputError, match=r"anchor\.jsonl: the judge's anchor cannot be read"):
        plan_night(file, home, asked=None, at=AT)
    file.with_name("anchor.jsonl").write_text('{"anchor_id": "a"}\n')
    with pytest.raises(InputError, match=r"anchor\.jsonl:1: contexts: Field required; expected"):
        plan_night(file, home, asked=None, at=AT)
