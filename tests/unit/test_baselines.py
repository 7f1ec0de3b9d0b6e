"""Good nights, open losses, and what the next night is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from schemas.gates import Gate
from schemas.home import Home
from schemas.requests import ComparisonRequest
from schemas.suites import BaselineRule
from tests.data.sample_runs import sample_run
from warehouse.accepting import accept_run
from warehouse.baselines import Gated, History, Night, choose, follow, read_history
from warehouse.comparisons import FIRST_NIGHT, Baseline, Comparison, MeasureComparison, Verdict
from warehouse.connect import open_warehouse
from warehouse.load import load_parts
from warehouse.night_verdicts import conclude, read_verdict
from warehouse.requests import has_requests, put_request
from warehouse.spool import Spool, new_run_id

START = date(2026, 11, 1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def night(
    number: int, verdict: Verdict | None, *, is_covered: bool = True, run: str = "", **more: Any
) -> Night:
    """The night of 1 November + ``number``, with one verdict on one gated measure."""
    compared_at = NOON + timedelta(days=number)
    gated = [] if verdict is None else [Gated("previous", "ndcg@10", verdict, compared_at)]
    when = START + timedelta(days=number)
    return Night(run or f"run{number}", when, is_covered, tuple(gated), **more)


def good(*nights: Night) -> list[str]:
    return list(follow(nights).good.values())


def test_every_verdict_but_worse_makes_a_good_night() -> None:
    verdicts: list[Verdict] = ["not comparable", "same", "not enough evidence", "better"]
    nights = [night(number, verdict) for number, verdict in enumerate(verdicts)]
    assert good(*nights) == ["run0", "run1", "run2", "run3"]


def test_a_night_without_coverage_or_verdict_is_not_good() -> None:
    assert good(night(0, "same"), night(1, "same", is_covered=False), night(2, None)) == ["run0"]


def test_a_loss_stays_against_the_same_baseline_until_it_is_gone() -> None:
    before = [night(0, "same"), night(1, "worse"), night(2, "worse")]
    history = follow(before)
    assert list(history.good.values()) == ["run0"]
    (loss,) = history.losses
    assert (loss.measure, loss.since, loss.run_id) == ("ndcg@10", date(2026, 11, 2), "run1")
    gone = follow([night(3, "same")], history)
    assert list(gone.good.values()) == ["run0", "run3"]
    assert not gone.losses


@pytest.mark.parametrize("verdict", ["not comparable", "not enough evidence"])
def test_a_night_that_could_not_tell_does_not_end_a_loss(verdict: Verdict) -> None:
    history = follow([night(0, "same"), night(1, "worse"), night(2, verdict)])
    assert list(history.good.values()) == ["run0"]
    assert len(history.losses) == 1


def test_a_night_without_coverage_does_not_end_a_loss() -> None:
    history = follow([night(0, "same"), night(1, "worse"), night(2, "same", is_covered=False)])
    assert len(history.losses) == 1


def test_each_measure_and_each_baseline_has_a_loss_of_its_own() -> None:
    lost = Night(
        "run1",
        START + timedelta(days=1),
        gated=(
            Gated("previous", "ndcg@10", "worse", NOON),
            Gated("pinned", "ndcg@10", "worse", NOON),
            Gated("previous", "hit@1", "same", NOON),
        ),
    )
    back = Night(
        "run2", START + timedelta(days=2), gated=(Gated("previous", "ndcg@10", "same", NOON),)
    )
    history = follow([night(0, "same"), lost, back])
    assert [(loss.kind, loss.measure) for loss in history.losses] == [("pinned", "ndcg@10")]
    assert list(history.good.values()) == ["run0"]


def test_what_somebody_accepts_ends_losses_and_starts_the_baseline_anew() -> None:
    accepted = night(2, "worse", accepted_at=NOON + timedelta(days=3, hours=1))
    later = night(4, "same")
    history = follow([night(0, "same"), night(1, "worse"), accepted, night(3, "worse"), later])
    # Night 3 was compared with night 0, before the decision: it says nothing about night 2.
    assert list(history.good.values()) == ["run2", "run4"]
    assert not history.losses
    assert history.accepted == accepted


def test_of_several_attempts_the_last_good_one_counts() -> None:
    attempts = [
        night(0, "same", run="a"),
        night(1, "same", run="b"),
        night(1, "not enough evidence", run="c"),
        night(1, "same", is_covered=False, run="d"),
    ]
    assert good(*attempts) == ["a", "c"]
    saved = [night(0, "same", run="a"), night(1, "worse", run="b"), night(1, "same", run="c")]
    assert good(*saved) == ["a", "c"]


def test_previous_is_the_last_good_night_and_mean_the_last_n() -> None:
    history = follow(night(number, "same") for number in range(5))
    assert choose(history, kind="previous") == (Baseline(("run4",), "previous"),)
    assert choose(history, kind="mean", n_nights=3) == (Baseline(("run2", "run3", "run4"), "mean"),)
    assert choose(History(), kind="previous") == (Baseline((), "previous"),)


def test_a_pinned_run_stands_beside_the_others_and_yields_to_a_newer_decision() -> None:
    history = follow([night(0, "same"), night(1, "same")])
    both = choose(history, kind="previous", pinned="run0")
    assert both == (Baseline(("run1",), "previous"), Baseline(("run0",), "pinned"))
    assert choose(history, kind="pinned", pinned="run0") == (Baseline(("run0",), "pinned"),)
    decided = follow([night(3, "worse", accepted_at=NOON)], history)
    assert choose(decided, kind="pinned", pinned="run0") == (Baseline(("run3",), "pinned"),)
    assert choose(decided, kind="pinned", pinned="run9") == (Baseline(("run9",), "pinned"),)


def comparison(verdict: Verdict, reason: str, kind: Any = "previous") -> Comparison:
    item = MeasureComparison(measure="rr@10", contract_version=1, verdict=verdict, is_gated=True)
    return Comparison(
        comparison_id=new_run_id(),
        run_id="run9",
        baseline=Baseline(("run8",), kind),
        verdict=verdict,
        reason=reason,
        measures=(item,),
    )


def test_the_heaviest_verdict_is_the_nights() -> None:
    both = [comparison("same", "a"), comparison("worse", "b", "pinned")]
    verdict = conclude(both, History())
    assert (verdict.verdict, verdict.reason) == ("worse", "b")
    assert verdict.comparisons[0].baseline.kind == "pinned"


def test_a_first_night_counts_for_nothing_beside_a_pinned_run() -> None:
    first = comparison("not comparable", FIRST_NIGHT)
    assert conclude([first], History()).is_first_night
    verdict = conclude([first, comparison("same", "", "pinned")], History())
    assert (verdict.verdict, verdict.is_first_night) == ("same", False)


def test_a_loss_that_is_open_stays_the_verdict() -> None:
    history = follow([night(0, "same"), night(1, "worse"), night(2, "not enough evidence")])
    verdict = conclude([comparison("not enough evidence", "coverage 0.5")], history)
    assert verdict.verdict == "worse"
    assert verdict.reason == (
        "the loss of ndcg@10 since 2026-11-02 is not shown to be gone; tonight: not enough "
        "evidence (coverage 0.5)"
    )


# Over a warehouse: rows as the loader writes them.


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


@pytest.fixture
def connection(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    load_parts(home)
    with open_warehouse(home.warehouse) as warehouse:
        yield warehouse.connection


GATES = (Gate(measure="rr@10", delta=0.05),)


def run_night(home: Home, number: int, rule: BaselineRule | None = None, **changes: Any) -> str:
    """A run of the suite ``nightly`` as the flow leaves it, compared by its load."""
    run_id = new_run_id()
    when = START + timedelta(days=number)
    put_request(
        home,
        ComparisonRequest(
            run_id=run_id,
            experiment="handbook",
            suite="nightly",
            gates=GATES,
            baseline=rule or BaselineRule(),
        ),
    )
    fields = {"experiment": "handbook", "suite": "nightly", "logical_date": when} | changes
    with Spool(home).start(run_id, experiment="handbook") as started:
        started.finish(sample_run(run_id, measures=("rr@10",), n_queries=40, **fields))
    assert load_parts(home).problem is None
    return run_id


def ask(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with open_warehouse(home.warehouse) as warehouse:
        return warehouse.connection.execute(sql).fetchall()


def test_the_load_compares_each_night_with_the_one_before(home: Home) -> None:
    first, second = run_night(home, 0), run_night(home, 1)
    rows = ask(
        home,
        "SELECT run_id, baseline, verdict, reason, baseline_run_ids FROM comparisons "
        "WHERE is_gated AND tag IS NULL ORDER BY run_id",
    )
    assert rows[0] == (first, "previous", "not comparable", FIRST_NIGHT, [])
    assert (rows[1][0], rows[1][1], rows[1][4]) == (second, "previous", [first])
    assert not has_requests(home)


def test_a_verdict_reads_back_as_it_was_made(home: Home) -> None:
    run_night(home, 0)
    run_id = run_night(home, 1)
    with open_warehouse(home.warehouse) as warehouse:
        from warehouse.stored_comparisons import read_comparisons

        found = read_verdict(warehouse.connection, run_id)
        (stored,) = read_comparisons(warehouse.connection, run_id, ("previous",))
    assert found is not None
    assert found.comparisons == (stored,)
    assert stored.measure("rr@10").n_pairs == 40


def test_slow_drift_is_gated_against_a_pinned_run_beside_the_night_before(home: Home) -> None:
    first = run_night(home, 0)
    second = run_night(home, 1)
    third = run_night(home, 2, BaselineRule(kind="previous", run=first))
    last = run_night(home, 3, BaselineRule(kind="mean", nights=2))
    rows = ask(
        home,
        "SELECT run_id, baseline, baseline_run_ids FROM comparisons "
        f"WHERE measure = 'rr@10' AND tag IS NULL AND run_id >= '{third}' "
        "ORDER BY run_id, baseline",
    )
    assert rows == [
        (third, "pinned", [first]),
        (third, "previous", [second]),
        (last, "mean", [second, third]),
    ]


def history(home: Home, number: int) -> History:
    with open_warehouse(home.warehouse) as warehouse:
        return read_history(
            warehouse.connection,
            experiment="handbook",
            suite="nightly",
            before=START + timedelta(days=number),
        )


def test_only_earlier_nights_of_the_suite_count(home: Home) -> None:
    first = run_night(home, 0)
    run_night(home, 1)
    run_night(home, 1, suite="another")
    run_night(home, 1, experiment="else")
    run_night(home, 1, status="failed", status_reason="label: no")
    assert list(history(home, 1).good.values()) == [first]


def test_a_back_filled_night_is_no_baseline_unless_somebody_accepts_it(home: Home) -> None:
    first = run_night(home, 0)
    filled = run_night(home, 1)
    from warehouse.rows import EventRow, events_frame

    tag = EventRow(run_id=filled, kind="tag", message="back-fill")
    Spool(home).put_events(events_frame([tag]))
    load_parts(home)
    assert list(history(home, 2).good.values()) == [first]
    with open_warehouse(home.warehouse) as warehouse:
        decision = accept_run(warehouse.connection, filled, reason="checked", author="Ada")
    assert (decision.suite, decision.experiment) == ("nightly", "handbook")
    decision.put(home)
    load_parts(home)
    assert list(history(home, 2).good.values()) == [filled]
    assert list(history(home, 1).good.values()) == [filled]  # for another attempt of its night
    assert not history(home, 0).good
    assert ask(home, "SELECT run_id, author, reason FROM baselines") == [(filled, "Ada", "checked")]


def test_a_request_waits_for_its_run_and_is_dropped_when_that_failed(home: Home) -> None:
    run_night(home, 0)
    request = ComparisonRequest(
        run_id=new_run_id(),
        experiment="handbook",
        suite="nightly",
        gates=GATES,
        baseline=BaselineRule(),
    )
    put_request(home, request)
    load_parts(home)
    assert has_requests(home)
    with Spool(home).start(request.run_id, experiment="handbook") as started:
        started.finish(sample_run(request.run_id, status="failed", status_reason="label: no"))
    load_parts(home)
    assert not has_requests(home)


def test_a_request_that_cannot_be_read_blocks_no_run(home: Home) -> None:
    home.requests.mkdir(parents=True)
    (home.requests / "0.json").write_text("{")
    run_id = new_run_id()
    with Spool(home).start(run_id, experiment="handbook") as started:
        started.finish(sample_run(run_id))
    report = load_parts(home)
    assert report.loaded == [run_id]
    assert "0.damaged: this request for a comparison cannot be read" in str(report.problem)
    assert load_parts(home).problem is None
