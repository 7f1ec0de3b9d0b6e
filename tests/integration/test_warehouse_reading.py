"""``rankhouse sql`` and ``rankhouse runs`` on a published copy."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from flows.cli import command, run
from schemas.home import Home
from tests.data.sample_runs import sample_run
from warehouse.load import load_parts
from warehouse.queries import literal
from warehouse.spool import Spool

IDS = [f"01980000-0000-7000-8000-00000000000{i}" for i in range(10)]
Rankhouse = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Three nights of one experiment, the last one twice, and one night of another."""
    home = Home(tmp_path_factory.mktemp("template") / "home").prepare()
    for i, (experiment, day) in enumerate(
        [("handbook", 27), ("handbook", 28), ("handbook", 29), ("handbook", 29), ("small", 29)]
    ):
        with Spool(home).start(IDS[i], experiment=experiment) as started:
            night = date(2026, 11, day)
            started.finish(sample_run(IDS[i], experiment=experiment, night=night, seed=i))
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


DUCKDB_2 = pytest.mark.skipif(
    duckdb.__version__.startswith("1."),
    reason="DuckDB 1 says of a PIVOT without IN only that it is several statements: refused there",
)


@pytest.mark.parametrize(
    "statement",
    [
        "select 1 as a",
        "from range(1) t(a)",
        "with x as (select 1 as a) select a from x",
        "values (1)",
        "describe runs",
        "show tables",
        "summarize run_metrics",
        "explain select 1",
        "-- newest first\nfrom runs",
        "--newest first, a=b\nfrom runs",
        pytest.param(
            "pivot run_metrics on measure using avg(mean) group by run_id",
            marks=DUCKDB_2,
        ),
        pytest.param(
            "/* a */ with x as (from run_metrics) pivot x on measure using avg(mean)",
            marks=DUCKDB_2,
        ),
        pytest.param(
            "from (pivot run_metrics on measure using avg(mean) group by run_id)",
            marks=DUCKDB_2,
        ),
    ],
)
def test_statements_that_read_are_answered(
    home: Home, rankhouse: Rankhouse, statement: str
) -> None:
    code, out, _ = rankhouse("sql", statement)
    assert code == 0
    assert out.strip()


@pytest.mark.parametrize(
    "statement",
    [
        "copy runs to 'stolen.csv'",
        "insert into runs select * from runs",
        "delete from runs",
        "drop table runs",
        "create table x as select 1",
        "create temp table x as select 1",
        "attach 'other.duckdb'",
        "install json",
        "load json",
        "set threads = 1",
        "pragma enable_profiling",
        "call pragma_version()",
        "select 1; select 2",
        "",
        "checkpoint",
        "export database 'x'",
        "use main",
        "vacuum",
        "create temp table x as pivot run_metrics on measure using avg(mean)",
        "copy (pivot run_metrics on measure using avg(mean)) to 'stolen.csv'",
    ],
)
def test_statements_that_do_more_than_read_are_refused(
    home: Home, rankhouse: Rankhouse, tmp_path: Path, statement: str
) -> None:
    before = home.published.read_bytes()
    code, out, err = rankhouse("sql", statement)
    assert (code, out) == (2, "")
    assert err.startswith("error: expected ")
    assert home.published.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('{secret}')",
        "select * from '{secret}'",
        "select * from read_text('{secret}')",
        "select * from glob('/*')",
        "select * from read_parquet('https://example.org/x.parquet')",
        "select * from query('select * from read_text(''{secret}'')')",
        "select getenv('HOME')",
        "select * from sniff_csv('{secret}')",
    ],
)
def test_other_files_cannot_be_read(
    home: Home, rankhouse: Rankhouse, tmp_path: Path, statement: str
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("password\nhunter2\n")
    code, out, err = rankhouse("sql", statement.format(secret=secret))
    assert (code, out) == (2, "")
    assert "hunter2" not in err


def test_variables_of_the_program_are_not_tables(home: Home, rankhouse: Rankhouse) -> None:
    code, _, err = rankhouse("sql", "select * from home")
    assert code == 2
    assert "does not exist" in err


def test_an_error_shows_its_position(home: Home, rankhouse: Rankhouse) -> None:
    code, _, err = rankhouse("sql", "select experiment,\n  meen from metric_history")
    assert code == 2
    line, caret = err.splitlines()[-2:]
    assert line.startswith("LINE 2:   meen")
    assert line[caret.index("^")] == "m"


def test_an_error_in_the_middle_of_the_rows_is_an_error(home: Home, rankhouse: Rankhouse) -> None:
    statement = "select cast(if(i = 5000, 'x', '1') as integer) from range(10000) t(i)"
    code, _, err = rankhouse("sql", statement, "--format", "csv")
    assert code == 2
    assert "Could not convert" in err


def test_json_and_csv_hold_the_same_rows(home: Home, rankhouse: Rankhouse) -> None:
    statement = "select run_id, attempt, logical_date from runs order by run_id"
    rows = json.loads(rankhouse("sql", statement, "--format", "json")[1])
    assert rows[3] == {"run_id": IDS[3], "attempt": 2, "logical_date": "2026-11-29"}
    table = list(csv.DictReader(io.StringIO(rankhouse("sql", statement, "--format", "csv")[1])))
    assert [{**row, "attempt": str(row["attempt"])} for row in rows] == table


def test_columns_of_one_name_and_floats_that_json_lacks_survive(
    home: Home, rankhouse: Rankhouse
) -> None:
    statement = "select 1 as a, 2 as a, 'nan'::double as b, [1.5, '-inf'::double] as c"
    (row,) = json.loads(rankhouse("sql", statement, "--format", "json")[1])
    assert row == {"a": 1, "a_1": 2, "b": "nan", "c": [1.5, "-inf"]}


SQL_VALUES = """
select 1.50::decimal(5, 2) as amount, 12::decimal(5, 0) as whole, true as yes, 'ab\\xFF'::blob as b,
    date 'infinity' as d, timestamp '-infinity' as t, timestamptz 'infinity' as z,
    [1.5::decimal(3, 1)] as l, {'d': date '-infinity', 'b': null} as s, date '2026-11-29' as day
"""


def test_values_of_every_sql_type_are_json(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    expected = {
        "amount": 1.5,
        "whole": 12,
        "yes": True,
        "b": "6162ff",
        "d": "infinity",
        "t": "-infinity",
        "z": "infinity",
        "l": [1.5],
        "s": {"d": "-infinity", "b": None},
        "day": "2026-11-29",
    }
    path = tmp_path / "answer.json"
    assert rankhouse("sql", SQL_VALUES, "--output", str(path))[0] == 0
    for text in (rankhouse("sql", SQL_VALUES, "--format", "json")[1], path.read_text()):
        assert json.loads(text) == [expected]


def test_values_of_every_sql_type_are_cells(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    expected = {
        "amount": "1.50",
        "whole": "12",
        "yes": "true",
        "b": "6162ff",
        "d": "infinity",
        "t": "-infinity",
        "z": "infinity",
        "l": "[1.5]",
        "s": '{"d": "-infinity", "b": null}',
        "day": "2026-11-29",
    }
    path = tmp_path / "answer.csv"
    assert rankhouse("sql", SQL_VALUES, "--output", str(path))[0] == 0
    for text in (rankhouse("sql", SQL_VALUES, "--format", "csv")[1], path.read_text()):
        assert list(csv.DictReader(io.StringIO(text))) == [expected]
    table = rankhouse("sql", SQL_VALUES)[1]
    for shown in ("true", "6162ff", " infinity", " -infinity", '{"d": "-infinity", "b": null}'):
        assert shown in table


def test_a_statement_can_come_from_standard_input(
    home: Home, rankhouse: Rankhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("select 41 + 1 as a"))
    assert rankhouse("sql", "-", "--format", "csv")[1] == "a\n42\n"


def test_without_a_run_the_next_step_is_named(
    tmp_path: Path, rankhouse: Rankhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "fresh").prepare()
    monkeypatch.setenv("RANKHOUSE_HOME", str(home.path))
    for arguments in (["sql", "select 1"], ["runs"]):
        code, _, err = rankhouse(*arguments)
        assert code == 2
        assert err == (
            f"error: no runs in {home.path} yet: run `rankhouse evaluate EXPERIMENT.toml`, or set "
            "RANKHOUSE_HOME to the home that has them (the demo's is .rankhouse-demo)\n"
        )
    with Spool(home).start(IDS[0], experiment="handbook") as started:
        started.finish(sample_run(IDS[0]))
    assert "rankhouse warehouse load" in rankhouse("runs")[2]
    assert rankhouse("warehouse", "load") == (0, "", "loaded 1, 0 left in the spool\n")
    assert rankhouse("runs")[0] == 0


def test_a_copy_that_somebody_opened_for_writing_names_the_holder(
    home: Home, rankhouse: Rankhouse
) -> None:
    home.published.chmod(0o644)
    code = (
        f"import duckdb, time; c = duckdb.connect({str(home.published)!r}); "
        "print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        result, _, err = rankhouse("sql", "select 1")
        holder.kill()
    assert result == 2
    assert f"process {holder.pid}" in err
    assert "-readonly" in err


def test_runs_are_listed_newest_first_with_their_first_measures(
    home: Home, rankhouse: Rankhouse
) -> None:
    rows = json.loads(rankhouse("runs", "--format", "json")[1])
    assert [row["run_id"] for row in rows] == IDS[4::-1]
    assert [row["attempt"] for row in rows] == [1, 2, 1, 1, 1]
    assert rows[0]["measures"].startswith("hit@1 0.")
    assert [part.split()[0] for part in rows[0]["measures"].split("  ")] == [
        "hit@1",
        "rr@10",
        "ndcg@10",
    ]
    (row,) = json.loads(
        rankhouse("runs", "--experiment", "handbook", "--limit", "1", "--format", "json")[1]
    )
    assert row["run_id"] == IDS[3]
    code, _, err = rankhouse("runs", "--experiment", "it's a hand book")
    assert code == 2
    assert "did you mean 'handbook'?" in err


def test_the_sql_that_is_shown_gives_what_is_listed(home: Home, rankhouse: Rankhouse) -> None:
    _, sql, _ = rankhouse("runs", "--experiment", "handbook", "--show-sql")
    listed = json.loads(rankhouse("runs", "--experiment", "handbook", "--format", "json")[1])
    with duckdb.connect(str(home.published), read_only=True) as connection:
        answered = connection.execute(sql).fetchall()
    assert [row[0] for row in answered] == [row["run_id"] for row in listed]
    assert answered[0][7] == listed[0]["measures"]


def test_a_crashed_run_is_listed_until_it_lands(home: Home, rankhouse: Rankhouse) -> None:
    with Spool(home).start(IDS[7], experiment="handbook"):
        pass
    load_parts(home)
    rows = json.loads(rankhouse("runs", "--format", "json")[1])
    assert (rows[0]["run_id"], rows[0]["status"]) == (IDS[7], "crashed")
    with Spool(home).start(IDS[7], experiment="handbook") as started:
        started.finish(sample_run(IDS[7]))
    load_parts(home)
    rows = json.loads(rankhouse("runs", "--format", "json")[1])
    assert [row["status"] for row in rows if row["run_id"] == IDS[7]] == ["completed"]


def query(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(home.published), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_latest_runs_shows_the_last_good_attempt_of_each_night(home: Home) -> None:
    failed = sample_run(IDS[8], status="failed", status_reason="embed: no memory")
    degraded = sample_run(IDS[9], night=date(2026, 11, 28), status="degraded", status_reason="x")
    for run_id, frames in ((IDS[8], {"runs": failed["runs"]}), (IDS[9], degraded)):
        with Spool(home).start(run_id, experiment="handbook") as started:
            started.finish(frames)
    load_parts(home)
    assert query(
        home,
        "SELECT run_id, previous_run_id FROM latest_runs WHERE experiment = 'handbook' ORDER BY 1",
    ) == [(IDS[0], None), (IDS[1], IDS[0]), (IDS[3], IDS[1])]


def test_metric_history_changes_only_between_comparable_nights(home: Home) -> None:
    rows = query(
        home,
        "SELECT run_id, mean, change, is_comparable FROM metric_history "
        "WHERE experiment = 'handbook' AND measure = 'rr@10' ORDER BY logical_date",
    )
    assert [row[0] for row in rows] == [IDS[0], IDS[1], IDS[3]]
    assert [row[3] for row in rows] == [False, True, True]
    assert rows[0][2] is None
    assert rows[2][2] == pytest.approx(rows[2][1] - rows[1][1], abs=0)


def test_query_deltas_name_both_sides(home: Home) -> None:
    old = sample_run(IDS[1], seed=1)["query_metrics"]
    new = sample_run(IDS[3], seed=3)["query_metrics"]
    expected = {
        (q, m): v - w
        for (q, m, v), (_, _, w) in zip(
            new.select("query_id", "measure", "value").rows(),
            old.select("query_id", "measure", "value").rows(),
            strict=True,
        )
    }
    rows = query(
        home,
        "SELECT query_id, measure, delta FROM query_deltas "
        f"WHERE run_id = '{IDS[3]}' AND baseline_run_id = '{IDS[1]}'",
    )
    assert {(q, m): d for q, m, d in rows} == expected


def test_the_leaderboard_of_a_night_orders_experiments(home: Home) -> None:
    rows = query(
        home,
        "SELECT place, experiment, mean FROM leaderboard "
        "WHERE logical_date = '2026-11-29' AND measure = 'rr@10' ORDER BY place",
    )
    assert [row[0] for row in rows] == [1, 2]
    assert {row[1] for row in rows} == {"handbook", "small"}
    assert rows[0][2] > rows[1][2]


@pytest.mark.parametrize("value", [object(), 1.5, b"x"])
def test_only_plain_values_become_literals(value: object) -> None:
    with pytest.raises(TypeError):
        literal(value)


def test_reading_loads_no_library_that_it_does_not_need(home: Home) -> None:
    code = (
        "import sys\nfrom flows.cli import command, run\n"
        "run(lambda: command.main(sys.argv[1:], standalone_mode=False))\n"
        "heavy = ('prefect', 'torch', 'pandera', 'polars', 'pyarrow', 'numpy', 'pandas', 'faiss')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    for arguments in (["sql", "select 1"], ["runs"]):
        result = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).resolve().parents[2],
        )
        assert result.stderr == "[]\n"
