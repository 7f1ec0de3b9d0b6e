"""verify finds every kind of damage; recompute adds and touches nothing."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from flows.cli import command, run
from schemas import families
from schemas.home import Home
from schemas.measures import Measure
from tests.data.sample_runs import sample_run
from warehouse.load import load_parts
from warehouse.spool import Spool

IDS = [f"01980000-0000-7000-8000-00000000000{i}" for i in range(10)]
TABLES = ("runs", "stages", "queries", "rankings", "labels", "query_metrics", "run_metrics")
Rankhouse = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Three nights; the second changed nothing."""
    home = Home(tmp_path_factory.mktemp("template") / "home").prepare()
    for i, seed in enumerate([0, 0, 1]):
        with Spool(home).start(IDS[i], experiment="handbook") as started:
            night = date(2026, 11, 27 + i)
            started.finish(sample_run(IDS[i], night=night, seed=seed, is_real=True))
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


def query(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(home.warehouse), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_a_sound_warehouse_is_sound(home: Home, rankhouse: Rankhouse) -> None:
    code, out, err = rankhouse("warehouse", "verify", "--format", "json")
    assert (code, json.loads(out)) == (0, [])
    assert err.endswith("sound\n")


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        ("INSERT INTO runs SELECT * FROM runs LIMIT 1", "a run is stored once"),
        ("INSERT INTO query_metrics SELECT * FROM query_metrics LIMIT 1", "a value is stored once"),
        ("INSERT INTO run_metrics SELECT * FROM run_metrics LIMIT 1", "a mean is stored once"),
        ("INSERT INTO rankings SELECT * FROM rankings LIMIT 1", "a rank is stored once"),
        ("INSERT INTO labels SELECT * FROM labels LIMIT 1", "a label is stored once"),
        ("INSERT INTO queries SELECT * FROM queries LIMIT 1", "a query is stored once"),
        ("INSERT INTO measures SELECT * FROM measures LIMIT 1", "a contract is stored once"),
        (f"DELETE FROM runs WHERE run_id = '{IDS[0]}'", "query_metrics belongs to a run"),
        (f"DELETE FROM query_metrics WHERE run_id = '{IDS[0]}'", "a mean is that of its values"),
        (
            "DELETE FROM query_metrics WHERE query_id = 'q00001' AND measure = 'rr@10'",
            "a mean is that of its values",
        ),
        ("UPDATE run_metrics SET mean = mean + 1e-6", "a mean is that of its values"),
        ("UPDATE run_metrics SET n_scored = n_scored - 1", "a mean is that of its values"),
        ("UPDATE run_metrics SET high = 1.0", "a mean is that of its values"),
        ("UPDATE run_metrics SET n_lost = 1", "queries with lost ground truth"),
        (
            "UPDATE query_metrics SET value = 1.5 WHERE query_id = 'q00001'",
            "a value lies within its contract",
        ),
        (
            "UPDATE query_metrics SET value = 'nan' WHERE query_id = 'q00001'",
            "a value is finite, and NULL exactly with a reason",
        ),
        (
            "UPDATE query_metrics SET null_reason = 'failed' WHERE query_id = 'q00001'",
            "a value is finite, and NULL exactly with a reason",
        ),
        ("DELETE FROM measures WHERE measure = 'rr@10'", "a value lies within its contract"),
        ("DELETE FROM queries WHERE query_id = 'q00001'", "a value is of a query of its benchmark"),
        ("DELETE FROM labels", "the labels of a run are stored"),
        ("UPDATE runs SET attempt = 2", "attempts count from 1"),
        ("UPDATE runs SET status = 'degraded'", "a run that did not complete says why"),
        ("DELETE FROM rankings WHERE rank = 3", "ranks count from 1"),
        ("UPDATE rankings SET retrieval_score = rank", "a later rank never has a higher score"),
        (
            "UPDATE rankings SET item_id = 'other' || rank WHERE rank <= 5",
            "a value is what its rankings and labels give",
        ),
        (
            "UPDATE labels SET gain = 0 WHERE query_id = 'q00001'",
            "a value is what its rankings and labels give",
        ),
        ("UPDATE runs SET config = '{}'", "values can be computed anew"),
    ],
)
def test_damage_is_found_and_named(
    home: Home, rankhouse: Rankhouse, damage: str, rule: str
) -> None:
    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute(damage)
    code, out, err = rankhouse("warehouse", "verify", "--format", "json")
    assert code == 3
    assert any(row["rule"].startswith(rule) for row in json.loads(out)), out
    assert re.search(r": (1 row breaks|\d+ rows break) a rule\n", err), err


def test_verify_refuses_an_edited_migration(home: Home, rankhouse: Rankhouse) -> None:
    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute("UPDATE migrations SET checksum = 'x' WHERE version = 2")
    code, _, err = rankhouse("warehouse", "verify")
    assert code == 2
    assert "was edited after it ran" in err


def test_recompute_adds_a_measure_and_touches_nothing_else(
    home: Home, rankhouse: Rankhouse
) -> None:
    before = {name: query(home, f"SELECT * FROM {name} ORDER BY ALL") for name in TABLES}
    code, _, err = rankhouse("recompute", "--measure", "ndcg@3", "--measure", "ap@10")
    assert code == 0
    assert "30 values added to 3 runs" in err
    for seed, run_id in ((0, IDS[0]), (0, IDS[1]), (1, IDS[2])):
        expected = sample_run(run_id, seed=seed, is_real=True, measures=["ndcg@3", "ap@10"])
        stored = query(
            home,
            "SELECT query_id, measure, value FROM query_metrics "
            f"WHERE run_id = '{run_id}' AND measure IN ('ndcg@3', 'ap@10') ORDER BY ALL",
        )
        rows = expected["query_metrics"].select("query_id", "measure", "value").rows()
        assert stored == sorted(rows)
    new = "('ndcg@3', 'ap@10')"
    for name, rows in before.items():
        where = f"WHERE measure NOT IN {new}" if name.endswith("_metrics") else ""
        assert query(home, f"SELECT * FROM {name} {where} ORDER BY ALL") == rows
    assert rankhouse("recompute", "--measure", "ndcg@3")[2] == "0 values added to 0 runs\n"
    assert rankhouse("warehouse", "verify")[0] == 0
    assert rankhouse("history", "ndcg@3")[0] == 0


def test_recompute_can_begin_with_a_night(home: Home, rankhouse: Rankhouse) -> None:
    _, _, err = rankhouse("recompute", "--measure", "ndcg@3", "--since", "2026-11-29")
    assert err == "5 values added to 1 run\n"


def test_a_corrected_measure_stands_beside_the_old_one_and_views_show_the_new(
    home: Home, rankhouse: Rankhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = families.FAMILIES["rr"]
    newer = dataclasses.replace(old, contract=dataclasses.replace(old.contract, version=2))
    monkeypatch.setitem(families.FAMILIES, "rr", newer)  # type: ignore[index, unused-ignore]
    assert Measure.parse("rr@10").contract.version == 2
    assert rankhouse("recompute")[2] == "15 values added to 3 runs\n"
    assert query(
        home,
        "SELECT contract_version, count(*) FROM run_metrics WHERE measure = 'rr@10' "
        "GROUP BY ALL ORDER BY ALL",
    ) == [(1, 3), (2, 3)]
    assert query(
        home, "SELECT DISTINCT contract_version FROM metric_history WHERE measure = 'rr@10'"
    ) == [(2,)]
    assert rankhouse("warehouse", "verify")[0] == 0
    assert rankhouse("recompute")[2] == "0 values added to 0 runs\n"


def test_what_a_run_cannot_give_is_skipped_with_the_reason(
    home: Home, rankhouse: Rankhouse
) -> None:
    code, _, err = rankhouse("recompute", "--measure", "hit@500")
    assert code == 0
    assert err.count("the cutoff is beyond retrieval.depth, which is 10") == 3
    assert rankhouse("recompute", "--measure", "nope@3")[0] == 2
    assert rankhouse("recompute", "--measure", "qa")[2].count("skipped") == 3


def test_values_of_past_runs_must_fit_their_means(home: Home) -> None:
    from schemas.errors import ValidationRefusedError

    frames = sample_run(IDS[0], is_real=True)
    values = {name: frames[name] for name in ("query_metrics", "run_metrics", "measures")}
    wrong = frames["run_metrics"].with_columns(pl.col("n_scored") - 1)
    with pytest.raises(ValidationRefusedError, match="differ from those of query_metrics"):
        Spool(home).put_values({**values, "run_metrics": wrong})
    Spool(home).put_values(values)  # known already: loaded, and nothing changes
    before = query(home, "SELECT * FROM query_metrics ORDER BY ALL")
    assert len(load_parts(home).loaded) == 1
    assert query(home, "SELECT * FROM query_metrics ORDER BY ALL") == before
