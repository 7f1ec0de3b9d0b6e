"""Keeping less: what goes, what stays, and that what stays is whole."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from flows.cli import command as rankhouse_command
from flows.cli import run
from flows.pruning import Kept, prune
from schemas.home import Home
from schemas.suites import Keep, Retention
from tests.data.sample_runs import sample_run
from tests.data.small_project import Command
from warehouse import retaining
from warehouse.load import load_parts
from warehouse.rows import EventRow, events_frame
from warehouse.spool import Spool

IDS = [f"01700000-0000-7000-8000-0000000000{i:02d}" for i in range(20)]
NIGHT = date(2020, 3, 1)
Rankhouse = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("RANKHOUSE_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home").prepare()


@pytest.fixture
def rankhouse(capsys: pytest.CaptureFixture[str]) -> Rankhouse:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(lambda: rankhouse_command.main(list(arguments), standalone_mode=False))
        return (code, *capsys.readouterr())

    return call


def land(home: Home, index: int, night: date = NIGHT, **changes: Any) -> str:
    with Spool(home).start(IDS[index], experiment="handbook") as started:
        started.finish(sample_run(IDS[index], night=night, is_real=True, **changes))
    load_parts(home)
    return IDS[index]


def query(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(home.warehouse), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def attempts(home: Home) -> list[tuple[str, int]]:
    return query(home, "SELECT run_id, attempt FROM runs ORDER BY run_id")


def test_an_attempt_that_a_later_one_replaced_goes_with_its_rows_and_an_event(
    home: Home, rankhouse: Rankhouse
) -> None:
    land(home, 0, seed=7)  # rankings and labels that no other run has
    land(home, 1, seed=1)
    land(home, 2, seed=1)  # the same rankings and labels as the run before it
    land(home, 3, night=date(2020, 3, 2), seed=1)
    code, out, _ = rankhouse("warehouse", "prune", "--older-than", "30", "--dry-run")
    assert (code, out.count("attempt  ")) == (0, 2)
    assert len(attempts(home)) == 4, "a dry run deletes nothing"

    assert rankhouse("warehouse", "prune", "--older-than", "30")[0] == 0
    assert attempts(home) == [(IDS[2], 1), (IDS[3], 1)]
    for table in ("stages", "query_metrics", "run_metrics"):
        assert query(home, f"SELECT DISTINCT run_id FROM {table} ORDER BY 1") == [
            (IDS[2],),
            (IDS[3],),
        ]
    shared = {
        "rankings": (5 * 10, "rankings_digest"),  # 5 queries of depth 10, of one seed of two
        "labels": (5 * 3, "labels_digest"),
        "queries": (5, "benchmark_digest"),  # all four runs asked the same
    }
    for table, (n_rows, column) in shared.items():
        assert query(home, f"SELECT count(*), count(DISTINCT {column}) FROM {table}") == [
            (n_rows, 1)
        ]
    assert query(home, "SELECT run_id, kind, message FROM events ORDER BY run_id") == [
        (
            IDS[index],
            "pruned",
            f"attempt {index + 1} of handbook for 2020-03-01 was removed with its rows: "
            f"run {IDS[2]} counts for that night",
        )
        for index in (0, 1)
    ]
    assert rankhouse("warehouse", "verify", "--sample", "9")[0] == 0
    assert "added to 2 runs" in rankhouse("recompute", "--measure", "ndcg@3")[2]
    with duckdb.connect(str(home.published), read_only=True) as copy:
        assert copy.execute("SELECT count(*) FROM runs").fetchone() == (2,)


def test_a_removal_that_fails_half_way_removes_nothing(
    home: Home, rankhouse: Rankhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(home, 0, seed=7)
    land(home, 1, seed=1)
    tables = ("runs", "stages", "rankings", "labels", "query_metrics", "run_metrics", "events")
    before = {name: query(home, f"SELECT * FROM {name} ORDER BY ALL") for name in tables}

    def fails(connection: object) -> None:
        raise OSError("no space is left")

    monkeypatch.setattr(retaining, "_count_attempts_anew", fails)
    with pytest.raises(OSError, match="no space"):
        prune(home, Retention(attempts=Keep(days=1)), Kept())
    assert {name: query(home, f"SELECT * FROM {name} ORDER BY ALL") for name in tables} == before
    assert rankhouse("warehouse", "verify")[0] == 0


def test_a_part_of_a_run_that_was_removed_is_not_taken_again(
    home: Home, rankhouse: Rankhouse
) -> None:
    land(home, 0)
    land(home, 1)
    rankhouse("warehouse", "prune", "--older-than", "30")
    land(home, 0)
    assert attempts(home) == [(IDS[1], 1)]
    land(home, 2)
    assert attempts(home) == [(IDS[1], 1), (IDS[2], 2)]
    assert rankhouse("warehouse", "verify")[0] == 0


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({}, {"status": "failed", "status_reason": "x"}),  # nothing took its place
        ({}, {"status": "degraded", "status_reason": "x"}),  # it came out better
        ({}, {"config_digest": "0" * 64}),  # two settings tried in one night
        ({}, {"suite": "nightly"}),
        ({"grid_id": "grid 1"}, {"grid_id": "grid 2"}),
    ],
)
def test_an_attempt_that_still_says_something_stays(
    home: Home, rankhouse: Rankhouse, earlier: dict[str, Any], later: dict[str, Any]
) -> None:
    land(home, 0, **earlier)
    land(home, 1, **later)
    assert rankhouse("warehouse", "prune", "--older-than", "1")[0] == 0
    assert attempts(home) == [(IDS[0], 1), (IDS[1], 2)]


def test_what_people_marked_or_a_kept_run_was_compared_with_stays(
    home: Home, rankhouse: Rankhouse
) -> None:
    for index in range(8):
        land(home, index)
    rankhouse("runs", "tag", IDS[0], "release")
    rankhouse("runs", "note", IDS[1], "the one before the outage")
    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute(
            "INSERT INTO baselines VALUES ('b1', 'handbook', NULL, ?, now(), 'anna', 'agreed')",
            [IDS[2]],
        )
        comparison = (
            "INSERT INTO comparisons (comparison_id, run_id, baseline, baseline_run_ids, measure, "
            "contract_version, is_gated, verdict, n_pairs, n_better, n_worse, n_unchanged, "
            "compared_at) VALUES (?, ?, 'previous', [?], 'rr@10', 1, true, ?, 5, 0, 0, 5, now())"
        )
        # 7 stays; so does 3, which it was compared with; 4 refers to 2, and goes all the same; 5
        # found a loss that 7 could neither find again nor show to be gone.
        connection.execute(comparison, ["c1", IDS[7], IDS[3], "not enough evidence"])
        connection.execute(comparison, ["c2", IDS[4], IDS[2], "not enough evidence"])
        connection.execute(comparison, ["c3", IDS[5], IDS[2], "worse"])
    assert rankhouse("warehouse", "prune", "--older-than", "1")[0] == 0
    assert attempts(home) == [(IDS[i], n) for n, i in enumerate((0, 1, 2, 3, 5, 7), start=1)]
    assert query(home, "SELECT comparison_id FROM comparisons ORDER BY 1") == [("c1",), ("c3",)]


def test_old_events_go_but_for_what_people_wrote_and_what_explains_a_kept_run(
    home: Home, rankhouse: Rankhouse
) -> None:
    land(home, 0)
    told = {"suite": "docs", "experiment": "handbook"}
    rows = [
        (IDS[9], "crashed", None),  # of a run that never landed
        (IDS[0], "warning", None),
        (IDS[0], "note", None),
        (None, "damaged", None),
        (IDS[0], "notification_failed", told),
        (IDS[0], "notified", told),
        (IDS[0], "notified", told),  # the newest: what people know
    ]
    events = [
        EventRow(
            run_id=run_id,
            kind=kind,
            message=kind,
            details=details,
            event_id=f"e{i}",
            occurred_at=query(home, f"SELECT ended_at + INTERVAL {i} MINUTE FROM runs")[0][0],
        )
        for i, (run_id, kind, details) in enumerate(rows)
    ]
    Spool(home).put_events(events_frame(events))
    load_parts(home)
    assert rankhouse("warehouse", "prune", "--older-than", "30")[0] == 0
    assert [row[0] for row in query(home, "SELECT event_id FROM events ORDER BY 1")] == [
        "e1",
        "e2",
        "e6",
    ]


def test_only_refused_parts_leave_the_spool(home: Home, rankhouse: Rankhouse) -> None:
    land(home, 0)
    for name in ("refused/old", "refused/new", "other"):
        (home.spool / name).mkdir(parents=True)
        (home.spool / name / "reasons.json").write_text("{}")
    for path in (home.spool / "refused/old/reasons.json", home.spool / "refused/old"):
        os.utime(path, (1e9, 1e9))
    assert rankhouse("warehouse", "prune", "--older-than", "30")[0] == 0
    left = sorted(str(path.relative_to(home.spool)) for path in home.spool.glob("*/*"))
    assert left == ["other/reasons.json", "refused/new"]


@pytest.mark.parametrize("words", [(), ("suite.toml", "--older-than", "3")])
def test_prune_asks_what_is_kept(home: Home, rankhouse: Rankhouse, words: tuple[str, ...]) -> None:
    code, _, err = rankhouse("warehouse", "prune", *words)
    assert code == 2
    assert "name a suite's file, or give --older-than DAYS" in err


def test_a_suite_that_sets_no_limits_is_told_so(
    small: Path, home: Home, rankhouse: Rankhouse
) -> None:
    land(home, 0)
    suite = small.with_name("limitless.toml")
    suite.write_text(
        f'[[experiment]]\npath = "{small.name}"\n[[gate]]\nmeasure = "rr@5"\ndelta = 0.02\n'
    )
    code, _, err = rankhouse("warehouse", "prune", str(suite), "--dry-run")
    assert code == 0
    assert "limitless.toml has no [retention]: nothing is pruned. Set one, or give" in err


def test_a_locked_warehouse_is_not_pruned(home: Home, rankhouse: Rankhouse) -> None:
    land(home, 0)
    land(home, 1)
    with duckdb.connect(str(home.warehouse)):
        code, _, err = rankhouse("warehouse", "prune", "--older-than", "1")
    assert (code, attempts(home)) == (2, [(IDS[0], 1), (IDS[1], 2)])
    assert "warehouse.duckdb" in err


def test_what_a_kept_run_needs_to_be_computed_again_stays(
    command: Command, small: Path, rankhouse: Rankhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKHOUSE_HOME", str(command.home))
    monkeypatch.delenv("PREFECT_LOCAL_STORAGE_PATH", raising=False)
    command.evaluate(small, "--date", "2020-03-01")
    (command.folder / "docs/tides.md").write_text("# Tides\n\nSpring tides come twice a month.")
    command.evaluate(small, "--date", "2020-03-02")
    for path in (*command.home.glob("prefect/results/*"), *command.home.rglob("artifacts/*/*/*")):
        os.utime(path, (1e9, 1e9))
    # Both nights are among the last ones: nothing of theirs goes, however old.
    untouched = rankhouse("warehouse", "prune", "--older-than", "1", "--format", "csv")
    assert untouched[:2] == (0, "kind,what,n,bytes,last_used,because\n")

    suite = command.folder / "suite.toml"
    suite.write_text(
        '[[experiment]]\npath = "small.toml"\n[[gate]]\nmeasure = "rr@5"\ndelta = 0.02\n'
        "[retention]\nartifacts = { gigabytes = 1e-9 }\n"
    )
    with duckdb.connect(str(command.home / "warehouse.duckdb")) as connection:
        # Seven nights after them, so that neither is among the last.
        columns = "* REPLACE (? AS run_id, ?::DATE AS logical_date, 'later' AS config_digest)"
        for i in range(7):
            connection.execute(
                f"INSERT INTO runs SELECT {columns} FROM runs ORDER BY run_id LIMIT 1",
                [IDS[i], f"2020-04-0{i + 1}"],
            )
    _, listed, said = rankhouse("warehouse", "prune", str(suite), "--format", "csv")
    gone = {row["what"].split("/")[0] for row in csv.DictReader(io.StringIO(listed))}
    assert {"vectors", "index", "rankings", "labels"} <= gone
    assert not gone & {"documents", "chunks"}
    assert "stay, beyond the limit of 1e-09: kept runs need them" in said
    assert len(list(command.home.glob("artifacts/documents/*/*"))) == 2

    # A measure over texts, of both corpora as they were; then a night that is computed again.
    added = rankhouse("recompute", "--measure", "evidence_recall@200chars", "--since", "2020-03-01")
    assert "added to" in added[2]
    values = query(
        Home(command.home),
        "SELECT mean FROM run_metrics JOIN runs AS run USING (run_id) WHERE measure = "
        "'evidence_recall@200chars' AND month(run.logical_date) = 3 ORDER BY run.logical_date",
    )
    assert values == [(1.0,), (0.75,)]  # the edit lost one quote of four
    shutil.rmtree(command.folder / "docs/fr")
    again = command.evaluate(small)
    assert again["sizes"]["n_encoded"] == 0, "vectors stay by text, below the stages"
    assert rankhouse("warehouse", "verify")[0] == 0
