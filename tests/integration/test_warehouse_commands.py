"""history, leaderboard, worst, runs note|tag, status, and answers as files."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from flows.cli import command, run
from schemas.home import Home
from tests.data.sample_runs import digest, sample_run
from warehouse.health import find_health
from warehouse.load import load_parts
from warehouse.publish import Publishing
from warehouse.sparkline import sparkline
from warehouse.spool import Spool

IDS = [f"01980000-0000-7000-8000-00000000000{i}" for i in range(10)]
Rankhouse = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Four nights of one experiment, the last with another benchmark, and one of another."""
    home = Home(tmp_path_factory.mktemp("template") / "home").prepare()
    nights = [("handbook", 26, 5), ("handbook", 27, 5), ("handbook", 28, 5), ("handbook", 29, 6)]
    for i, (experiment, day, n_queries) in enumerate([*nights, ("small", 29, 6)]):
        with Spool(home).start(IDS[i], experiment=experiment) as started:
            night = date(2026, 11, day)
            started.finish(
                sample_run(IDS[i], experiment=experiment, night=night, seed=i, n_queries=n_queries)
            )
    load_parts(home)
    return home


@pytest.fixture
def home(template: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "home")
    shutil.copytree(template.path, home.path)
    monkeypatch.setenv("RANKHOUSE_HOME", str(home.path))
    return home


@pytest.fixture
def rankhouse(capsys: pytest.CaptureFixture[str]) -> Rankhouse:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(lambda: command.main(list(arguments), standalone_mode=False))
        return (code, *capsys.readouterr())

    return call


def mean(seed: int, n_queries: int, measure: str) -> float:
    frame = sample_run(IDS[0], seed=seed, n_queries=n_queries)["run_metrics"]
    return float(frame.filter(pl.col("measure") == measure)["mean"][0])


def test_history_shows_the_means_and_where_they_must_not_be_compared(
    home: Home, rankhouse: Rankhouse
) -> None:
    code, out, _ = rankhouse("history", "rr@10", "--experiment", "handbook", "--format", "json")
    rows = json.loads(out)
    means = [mean(i, 5 if i < 3 else 6, "rr@10") for i in range(4)]
    assert code == 0
    assert [row["mean"] for row in rows] == means
    assert [row["change"] for row in rows] == [
        None,
        means[1] - means[0],
        means[2] - means[1],
        None,  # another benchmark
    ]
    line = rankhouse("history", "rr@10", "--experiment", "handbook")[1].splitlines()[0]
    assert line.startswith("handbook  rr@10  ")
    assert line.split()[2].count("│") == 1
    since = rankhouse("history", "rr@10", "--since", "2026-11-28", "--format", "json")[1]
    assert len(json.loads(since)) == 3


def test_history_without_a_measure_takes_the_first_one(home: Home, rankhouse: Rankhouse) -> None:
    assert rankhouse("history")[1].startswith("handbook  hit@1  ")


@pytest.mark.parametrize(
    ("values", "breaks", "drawn"),
    [
        ([0.0, 0.5, 1.0], None, "▁▅█"),
        ([1.0, 1.0], None, "▄▄"),
        ([0.0, None, 1.0], None, "▁ █"),
        ([0.0, 1.0], [True, True], "▁│█"),
        ([], None, ""),
        ([None], None, " "),
    ],
)
def test_a_sparkline_runs_from_the_lowest_to_the_highest(
    values: list[float | None], breaks: list[bool] | None, drawn: str
) -> None:
    assert sparkline(values, breaks) == drawn


def test_the_leaderboard_orders_what_may_be_compared(home: Home, rankhouse: Rankhouse) -> None:
    code, out, err = rankhouse("leaderboard", "rr@10", "--format", "json")
    rows = json.loads(out)
    by_mean = sorted([(mean(3, 6, "rr@10"), "handbook"), (mean(4, 6, "rr@10"), "small")])[::-1]
    assert (code, err) == (0, "")
    assert [(row["mean"], row["experiment"]) for row in rows] == by_mean
    assert [(row["comparable"], row["place"]) for row in rows] == [("A", 1), ("A", 2)]
    _, out, err = rankhouse("leaderboard", "rr@10", "--night", "2020-01-01")
    assert "no good run" in err


def test_worst_lists_what_lost_most_first(home: Home, rankhouse: Rankhouse) -> None:
    code, out, err = rankhouse(
        "worst", IDS[2], IDS[0], "--measure", "rr@10", "--format", "json", "--limit", "3"
    )
    old, new = (
        dict(
            sample_run(IDS[0], seed=seed)["query_metrics"]
            .filter(pl.col("measure") == "rr@10")
            .select("query_id", "value")
            .rows()
        )
        for seed in (0, 2)
    )
    lost = sorted((new[q] - old[q], q) for q in old if new[q] < old[q])[:3]
    rows = json.loads(out)
    assert code == 0
    assert [(row["delta"], row["query_id"]) for row in rows] == lost
    assert rows[0]["text"] == f"What is {rows[0]['query_id']}?"
    assert f"of {len(old)} queries" in err


def test_worst_of_what_cannot_be_compared_names_what_differs(
    home: Home, rankhouse: Rankhouse
) -> None:
    old, new = (digest(f"benchmark {n_queries}")[:12] for n_queries in (5, 6))
    code, out, err = rankhouse("worst", IDS[3], IDS[2])
    assert (code, out) == (12, "")
    assert "cannot be compared" in err.splitlines()[0]
    assert err.splitlines()[1:] == [f"  benchmark: {new} / {old}"]
    assert rankhouse("worst", IDS[3], IDS[2], "--format", "json")[:2] == (12, "[]\n")
    assert rankhouse("worst", IDS[3], IDS[3])[0] == 12


@pytest.mark.parametrize(
    ("measure", "changes", "named"),
    [
        ("hit@1", {"chunking": {"size": 600}}, ["chunking.size: 200 / 600"]),
        (
            "hit@1",
            {"chunking": {"size": 600}, "labelling": {"method": "document"}},
            ["labelling.method: span / document"],
        ),
        (
            "hit@1",
            {"benchmark": {"path": "benchmark.jsonl", "split": "test"}},
            ["split: – / test"],
        ),
        ("rr@10", {"measures": ["hit@1"]}, ["measure: rr@10 / –"]),
        ("hit@1", {"embedding": {"model": "other"}}, ["the version of the judge"]),
        ("hit@1", {"chunking": {"size": 9, "from": "v9"}}, ["chunking.size: 200 / 9"]),
    ],
)
def test_every_setting_that_keeps_runs_apart_is_named_with_both_values(
    home: Home, rankhouse: Rankhouse, measure: str, changes: dict[str, Any], named: list[str]
) -> None:
    config = {
        "name": "handbook",
        "corpus": {"path": "corpus"},
        "benchmark": {"path": "benchmark.jsonl"},
        "chunking": {"size": 200},
        "labelling": {"method": "span"},
        "measures": ["hit@1", "rr@10"],
    }
    for run_id, ours in ((IDS[7], config | changes), (IDS[8], config)):
        frames = sample_run(run_id, measures=ours["measures"], config=ours)
        key = pl.lit(digest(run_id)[:32])
        frames["run_metrics"] = frames["run_metrics"].with_columns(comparability_key=key)
        with Spool(home).start(run_id, experiment="handbook") as started:
            started.finish(frames)
    load_parts(home)
    code, out, err = rankhouse("worst", "latest", "latest~1", "--measure", measure)
    assert (code, out) == (12, "")
    lines = [line.strip() for line in err.splitlines()[1:]]
    assert all(any(line.startswith(name) for line in lines) for name in named), err
    if "from" not in changes.get("chunking", {}):  # a version that we cannot read: all is named
        assert len(lines) == len(named)


def test_runs_says_which_settings_differ_from_the_run_before(
    home: Home, rankhouse: Rankhouse
) -> None:
    config: dict[str, Any] = {
        "name": "varied",
        "measures": ["hit@1", "rr@10", "ndcg@10"],
        "chunking": {"size": 600, "plugin": None},
        "summary": None,
    }
    varied = [
        config,
        config,
        config | {"chunking": {"size": 200, "plugin": None}, "summary": {"judge": "lexical"}},
        config | {"measures": ["hit@1"], "chunking": {"size": 200, "plugin": "a:b"}},
    ]
    for run_id, settings in zip(IDS[5:9], varied, strict=True):
        with Spool(home).start(run_id, experiment="varied") as started:
            started.finish(sample_run(run_id, experiment="varied", config=settings))
    load_parts(home)
    rows = json.loads(rankhouse("runs", "--experiment", "varied", "--format", "json")[1])
    assert [row["changes"] for row in rows] == [
        'chunking.plugin=a:b summary.judge=– measures=["hit@1"]',
        "chunking.size=200 summary.judge=lexical",
        None,
        None,
    ]
    (newest,) = json.loads(rankhouse("runs", "--limit", "1", "--format", "json")[1])
    assert newest == rows[0]  # the run before is found beyond the limit


FIVE = ("hit@1", "rr@10", "ndcg@10", "precision@5", "recall@10")


@pytest.mark.parametrize(
    ("primary", "shown"),
    [
        (None, ["hit@1", "rr@10", "ndcg@10"]),  # of a grid from before it was stored
        ("hit@1", ["hit@1", "rr@10", "ndcg@10"]),
        ("rr@10", ["rr@10", "hit@1", "ndcg@10"]),
        ("recall@10", ["recall@10", "hit@1", "rr@10"]),
    ],
)
def test_the_runs_of_a_grid_begin_with_its_primary_measure(
    home: Home, rankhouse: Rankhouse, primary: str | None, shown: list[str]
) -> None:
    frames = sample_run(IDS[5], measures=FIVE, grid_id=IDS[9], primary_measure=primary)
    with Spool(home).start(IDS[5], experiment="handbook") as started:
        started.finish(frames)
    load_parts(home)
    means = dict(frames["run_metrics"].select("measure", "mean").iter_rows())

    def measures_of(*arguments: str) -> str:
        row, *_ = json.loads(rankhouse("runs", *arguments, "--format", "json")[1])
        assert row["run_id"] == IDS[5]
        return str(row["measures"])

    expected = "  ".join(f"{name} {means[name]:.4f}" for name in shown)
    assert measures_of("--grid", "latest") == expected
    assert measures_of().split()[::2] == ["hit@1", "rr@10", "ndcg@10"]
    assert rankhouse("runs", "--grid", "latest")[1].split()[3] == shown[0]


def test_runs_are_listed_from_a_copy_that_an_older_version_published(
    home: Home, rankhouse: Rankhouse
) -> None:
    before = rankhouse("runs", "--format", "json")
    home.published.unlink()
    with duckdb.connect(str(home.published)) as connection:
        connection.execute(f"ATTACH '{home.warehouse}' AS newer (READ_ONLY)")
        connection.execute("COPY FROM DATABASE newer TO published")
        connection.execute("ALTER TABLE runs DROP COLUMN primary_measure")
    assert rankhouse("runs", "--format", "json") == before


@pytest.fixture
def eighty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setattr("flows.tables.terminal_width", lambda: 80)


@pytest.mark.usefixtures("eighty")
def test_runs_fits_a_terminal_with_whole_ids_dates_and_numbers(
    home: Home, rankhouse: Rankhouse
) -> None:
    config = {"name": "handbook", "measures": ["hit@1"], "chunking": {"size": 200}}
    for run_id, size in ((IDS[5], 600), (IDS[6], 200)):
        late = {"status": "degraded", "status_reason": "some values failed"}
        settings = config | {"chunking": {"size": size}}
        with Spool(home).start(run_id, experiment="handbook") as started:
            started.finish(sample_run(run_id, night=date(2026, 11, 30), config=settings, **late))
    load_parts(home)
    rankhouse("runs", "tag", IDS[3], "release-4")
    code, out, err = rankhouse("runs")
    header, _, newest, *others = out.splitlines()
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert header.split()[:6] == ["run_id", "logical_date", "experiment", "status", "hit@1", "tags"]
    assert newest.split()[:4] == [IDS[6][-8:], "2026-11-30", "handbook", "degraded"]
    assert newest.split()[4] == f"{mean(0, 5, 'hit@1'):.4f}"
    assert "release-4" in others[2]
    assert "…" not in out
    assert err.startswith("not shown, to fit 80 columns: changes, ")
    rankhouse("runs", "untag", IDS[3], "release-4")
    assert "  chunking.size=200" in rankhouse("runs")[1].splitlines()[2]


@pytest.mark.usefixtures("eighty")
@pytest.mark.parametrize("words", [("history", "rr@10"), ("leaderboard", "rr@10"), ("status",)])
def test_every_listing_fits_a_terminal(
    home: Home, rankhouse: Rankhouse, words: tuple[str, ...]
) -> None:
    _, out, _ = rankhouse(*words)
    assert max(map(len, out.splitlines())) <= 80
    assert IDS[3][-8:] in out
    assert "rr@10" not in words or f"{mean(3, 6, 'rr@10'):.4f}" in out
    assert IDS[3] in rankhouse(*words, "--format", "json")[1]


def test_no_rows_are_a_header_and_a_count(home: Home, rankhouse: Rankhouse) -> None:
    code, out, err = rankhouse("sql", "select 1 as a, 2 as b where false")
    assert (code, out.splitlines()[0], err) == (0, "a  b", "0 rows\n")
    assert rankhouse("sql", "select 1 as a where false", "--format", "csv") == (0, "a\n", "")
    assert rankhouse("sql", "select 1 as a where false", "--format", "json") == (0, "[]\n", "")


def test_sql_prints_the_decimals_that_a_column_needs(home: Home, rankhouse: Rankhouse) -> None:
    rows = "(values (0.89::double, 1/3, 2.0::double), (0.5, 0.25, 10)) as t(a, b, c)"
    lines = rankhouse("sql", f"select * from {rows}")[1].splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["0.89", "0.3333", "2.0"],
        ["0.50", "0.2500", "10.0"],
    ]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("latest", IDS[4]),
        (IDS[2], IDS[2]),
        (IDS[2].upper(), IDS[2]),
        (IDS[2][-8:], IDS[2]),
    ],
)
def test_a_run_can_be_named_in_several_ways(
    home: Home, rankhouse: Rankhouse, written: str, found: str
) -> None:
    assert rankhouse("runs", "tag", written, "here")[0] == 0
    rows = json.loads(rankhouse("runs", "--tag", "here", "--format", "json")[1])
    assert [row["run_id"] for row in rows] == [found]


def test_latest_before_is_of_the_same_experiment(home: Home, rankhouse: Rankhouse) -> None:
    with Spool(home).start(IDS[5], experiment="handbook") as started:
        started.finish(sample_run(IDS[5], night=date(2026, 11, 30)))
    load_parts(home)
    rankhouse("runs", "tag", "latest~2", "here")
    rows = json.loads(rankhouse("runs", "--tag", "here", "--format", "json")[1])
    assert [row["run_id"] for row in rows] == [IDS[2]]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("0198", "5 runs begin or end so"),
        ("01980000-0000-7000-8000-000000000009", "the nearest: 01980000"),
        ("zzz", "the newest: 01980000"),
        ("latest~1", "there is only 1 run of 'small'; the first is latest~0"),
        ("", "there is no such run"),
    ],
)
def test_an_unknown_run_is_refused_with_the_nearest(
    home: Home, rankhouse: Rankhouse, written: str, message: str
) -> None:
    code, _, err = rankhouse("worst", written, IDS[0])
    assert code == 2
    assert message in err


def test_more_runs_back_than_there_are_is_refused_with_their_number(
    home: Home, rankhouse: Rankhouse
) -> None:
    with Spool(home).start(IDS[5], experiment="small") as started:
        started.finish(sample_run(IDS[5], experiment="small"))
    load_parts(home)
    code, _, err = rankhouse("worst", "latest~2", IDS[0])
    assert code == 2
    assert "there are only 2 runs of 'small'; the first is latest~1" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["history", "ndgc@10"], "did you mean 'ndcg'"),
        (["history", "ndcg@20"], "did you mean 'ndcg@10'?"),
        (["history", "--since", "2026-02-30"], "is not a date"),
        (["history", "--since", "yesterday"], "is not a date"),
        (["history", "--experiment", "hanbook"], "did you mean 'handbook'?"),
        (["leaderboard", "--night", "2026-13-01"], "is not a date"),
        (["status", "--max-age", "soon"], "is not a time span"),
        (["runs", "note", "latest", "  "], "the note is empty"),
        (["sql", "select 1", "--output", "x.xlsx"], "expected a name that ends in .parquet"),
    ],
)
def test_bad_words_are_refused(
    home: Home, rankhouse: Rankhouse, arguments: list[str], message: str
) -> None:
    code, out, err = rankhouse(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_notes_and_tags_are_events_and_a_tag_can_be_taken_back(
    home: Home, rankhouse: Rankhouse
) -> None:
    rankhouse("runs", "note", IDS[1], "new corpus")
    rankhouse("runs", "tag", IDS[1], "release-4")
    rankhouse("runs", "tag", IDS[1], "kept")
    rows = json.loads(rankhouse("runs", "--format", "json")[1])
    assert {row["run_id"]: row["tags"] for row in rows}[IDS[1]] == "kept, release-4"
    rankhouse("runs", "untag", IDS[1], "release-4")
    rows = json.loads(rankhouse("runs", "--format", "json")[1])
    assert {row["run_id"]: row["tags"] for row in rows}[IDS[1]] == "kept"
    sql = "select kind, message, author is not null as signed from events order by occurred_at"
    events = json.loads(rankhouse("sql", sql, "--format", "json")[1])
    assert [(row["kind"], row["message"]) for row in events] == [
        ("note", "new corpus"),
        ("tag", "release-4"),
        ("tag", "kept"),
        ("untag", "release-4"),
    ]
    assert all(row["signed"] for row in events)


@pytest.mark.parametrize(
    "arguments",
    [["runs"], ["history", "rr@10"], ["leaderboard", "rr@10"], ["worst", IDS[2], IDS[0]]],
)
def test_the_sql_that_is_shown_runs_in_any_duckdb(
    home: Home, rankhouse: Rankhouse, arguments: list[str]
) -> None:
    rows = json.loads(rankhouse(*arguments, "--format", "json")[1])
    sql = rankhouse(*arguments, "--show-sql")[1]
    with duckdb.connect(str(home.published), read_only=True) as connection:
        assert len(connection.execute(sql).fetchall()) == len(rows) > 0


HOSTILE = "select '=cmd|calc' as a, '+1' as b, '-x' as c, '@sum' as d, 'ok' as e, -1.5 as f"


def test_answers_become_files_and_cells_that_a_spreadsheet_would_run_are_defused(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    for suffix in ("csv", "json", "parquet"):
        path = tmp_path / f"answer.{suffix}"
        code, out, err = rankhouse("sql", HOSTILE, "--output", str(path))
        assert (code, out) == (0, "")
        assert err.endswith("1 row\n")
    plain = {"a": "=cmd|calc", "b": "+1", "c": "-x", "d": "@sum", "e": "ok"}
    (row,) = csv.DictReader((tmp_path / "answer.csv").open())
    assert row == {
        "a": "'=cmd|calc",
        "b": "+1",  # a number is no formula
        "c": "'-x",
        "d": "'@sum",
        "e": "ok",
        "f": "-1.5",
    }
    (row,) = json.loads((tmp_path / "answer.json").read_text())
    assert {name: row[name] for name in plain} == plain
    (row,) = pl.read_parquet(tmp_path / "answer.parquet").rows(named=True)
    assert {name: row[name] for name in plain} == plain


def test_all_tables_survive_a_trip_through_parquet(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    path = tmp_path / "values.parquet"
    rankhouse("sql", "from query_metrics order by all", "--output", str(path))
    with duckdb.connect(str(home.published), read_only=True) as connection:
        stored = connection.execute("from query_metrics order by all").fetchall()
    assert pl.read_parquet(path).rows() == stored


def test_an_answer_that_fails_leaves_no_file(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    folder = tmp_path / "answers"
    folder.mkdir()
    bad = "select cast(if(i = 5000, 'x', '1') as integer) from range(10000) t(i)"
    for suffix in ("csv", "json", "parquet"):
        code, _, _ = rankhouse("sql", bad, "--output", str(folder / f"answer.{suffix}"))
        assert code == 2
    assert list(folder.iterdir()) == []
    code, _, err = rankhouse("sql", "select 1", "--output", str(tmp_path / "no" / "x.csv"))
    assert code == 2
    assert "No such file or directory" in err


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_an_answer_never_replaces_a_file(
    home: Home, rankhouse: Rankhouse, tmp_path: Path, kind: str
) -> None:
    target, path = tmp_path / "target.csv", tmp_path / "answer.csv"
    if kind == "file":
        path.write_text("older")
    else:
        path.symlink_to(target)
    if kind == "link":
        target.write_text("older")
    code, out, err = rankhouse("sql", "select 1", "--output", str(path))
    assert (code, out) == (2, "")
    assert f"{path}: there is such a file already" in err
    assert path.is_symlink() == (kind != "file")
    assert target.exists() == (kind == "link")
    if kind != "dangling link":
        assert path.read_text() == "older"


def states(home: Home, **arguments: object) -> dict[str, str]:
    found = find_health(home, **{"max_age": timedelta(days=3650), **arguments})  # type: ignore[arg-type]
    return {f"{finding.what} {finding.name}": finding.state for finding in found}


def test_status_is_well_when_all_is_recent(home: Home, rankhouse: Rankhouse) -> None:
    code, _, err = rankhouse("status", "--max-age", "3650d")
    assert (code, err) == (0, "all is well\n")


def test_status_finds_what_does_not_come_any_more(home: Home, rankhouse: Rankhouse) -> None:
    with Spool(home).start(IDS[6], experiment="fresh") as started:
        now = datetime.now(UTC)
        row = {"started_at": now - timedelta(minutes=5), "ended_at": now, "suite": "nightly"}
        started.finish(sample_run(IDS[6], experiment="fresh", **row))
    load_parts(home)
    code, out, err = rankhouse("status", "--max-age", "60m", "--format", "json")
    by_name = {(row["what"], row["name"]): row["state"] for row in json.loads(out)}
    assert code == 3
    assert by_name["experiment", "fresh"] == by_name["suite", "nightly"] == "ok"
    assert by_name["experiment", "handbook"] == "stale"
    assert "experiment handbook is stale" in err
    assert rankhouse("status", "--experiment", "fresh", "--max-age", "60m")[0] == 0
    assert rankhouse("status", "--suite", "nightly")[0] == 0
    assert rankhouse("status", "--suite", "weekly")[0] == 3


def test_status_finds_crashed_failed_waiting_and_refused(home: Home) -> None:
    assert states(home)["experiment handbook"] == "ok"
    ready = home.spool / IDS[7]
    with Spool(home).start(IDS[7], experiment="handbook") as started:
        ready = started.finish(sample_run(IDS[7]))
        old = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
        os.utime(ready, (old, old))
    assert states(home, max_age=timedelta(days=365))[f"spool {IDS[7]}"] == "stale"
    (ready / "part.json").unlink()
    with Spool(home).start(IDS[8], experiment="handbook"):
        pass
    load_parts(home)
    found = states(home)
    assert found[f"spool {IDS[7]}"] == "refused"
    assert found["experiment handbook"] == "crashed"
    late = {"status": "failed", "status_reason": "embed: x"}
    now = datetime.now(UTC)
    frames = sample_run(IDS[9], experiment="small", started_at=now, ended_at=now, **late)
    with Spool(home).start(IDS[9], experiment="small") as started:
        started.finish({"runs": frames["runs"]})
    load_parts(home)
    assert states(home)["experiment small"] == "failed"


def test_status_speaks_where_there_is_nothing(
    tmp_path: Path, rankhouse: Rankhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "fresh").prepare()
    assert states(home)["published published.duckdb"] == "missing"
    monkeypatch.setenv("RANKHOUSE_HOME", str(home.path))
    code, out, err = rankhouse("status")
    assert code == 3
    assert "no runs yet" in out
    assert err.startswith(f"error: no runs in {home.path} yet: run `rankhouse evaluate")


def test_publishing_can_be_switched_off_and_status_says_how_far_behind_it_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKHOUSE_PUBLISH", "off")
    before = home.published.read_bytes()
    with Spool(home).start(IDS[7], experiment="handbook") as started:
        started.finish(sample_run(IDS[7]))
    report = load_parts(home)
    assert (report.loaded, report.is_published) == ([IDS[7]], False)
    assert home.published.read_bytes() == before
    assert states(home, max_age=timedelta(0))["published published.duckdb"] == "behind"
    monkeypatch.setenv("RANKHOUSE_PUBLISH", "on")
    assert load_parts(home).is_published


def test_a_large_copy_is_refreshed_at_most_once_a_minute(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKHOUSE_PUBLISH_LARGE_MB", "0")
    with Spool(home).start(IDS[7], experiment="handbook") as started:
        started.finish(sample_run(IDS[7]))
    # copied with the template a moment ago
    assert not load_parts(home).is_published
    monkeypatch.setattr("warehouse.publish.time.time", lambda: datetime.now(UTC).timestamp() + 61)
    assert load_parts(home).is_published


def test_parquet_beside_the_copy_on_request(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKHOUSE_PUBLISH_PARQUET", str(tmp_path / "parquet"))
    with Spool(home).start(IDS[7], experiment="handbook") as started:
        started.finish(sample_run(IDS[7]))
    load_parts(home)
    assert pl.read_parquet(tmp_path / "parquet" / "runs.parquet").height == 6
    assert not list((tmp_path / "parquet").glob(".*"))


@pytest.mark.parametrize(
    "values", [{"RANKHOUSE_PUBLISH": "maybe"}, {"RANKHOUSE_PUBLISH_LARGE_MB": "-1"}]
)
def test_a_switch_that_is_neither_on_nor_off_is_refused(values: dict[str, str]) -> None:
    from schemas.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match="expected"):
        Publishing.from_environment(values)


def test_the_texts_behind_a_number_are_reachable_by_sql(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    # the store as tasks.artifacts lays it out: kind/ab/<sha256>.parquet
    other = tmp_path / "store's [2]*"
    for store, text in ((home.artifacts, "ours"), (other, "theirs")):
        name = digest(text)
        folder = store / "chunks" / name[:2]
        folder.mkdir(parents=True)
        pl.DataFrame(
            {
                "chunk_id": ["d1#0-4"],
                "doc_id": ["d1"],
                "start": [0],
                "end": [4],
                "text": [text],
                "title": pl.Series([None], dtype=pl.String),
            }
        ).write_parquet(folder / f"{name}.parquet")
    config = {"measures": ["hit@1"], "execution": {"store": str(other)}}
    with Spool(home).start(IDS[7], experiment="handbook") as started:
        started.finish(sample_run(IDS[7], config=config, chunks_digest=digest("theirs")))
    load_parts(home)
    sql = (
        "select chunk_id, text from chunk_texts join runs using (chunks_digest) "
        f"where run_id = '{IDS[7]}'"
    )
    assert json.loads(rankhouse("sql", sql, "--format", "json")[1]) == [
        {"chunk_id": "d1#0-4", "text": "theirs"}
    ]
    with duckdb.connect(str(home.published), read_only=True) as connection:
        assert connection.execute(sql).fetchall() == [("d1#0-4", "theirs")]
    for path in (home.path / "spool", other / "chunks" / ".." / ".."):
        code, _, _ = rankhouse(
            "sql", f"select * from glob('{str(path).replace(chr(39), chr(39) * 2)}/*')"
        )
        assert code == 2
