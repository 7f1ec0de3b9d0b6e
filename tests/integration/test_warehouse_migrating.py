"""A database of every earlier version comes up to date with its rows; edited or newer: refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from schemas.errors import StorageError
from schemas.home import Home
from tests.data.sample_runs import sample_run
from warehouse import migrate as migrating
from warehouse.connect import create_warehouse, open_warehouse
from warehouse.documenting import read_comments
from warehouse.insert import insert_part
from warehouse.load import load_parts
from warehouse.migrate import Migration, apply_pending, check_warehouse, known_migrations, migrate
from warehouse.parts import Part, write_part
from warehouse.spool import Spool

IDS = [f"01980000-0000-7000-8000-00000000000{i}" for i in range(10)]
KNOWN = known_migrations()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def structure(path: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, comment "
            "FROM duckdb_columns() WHERE NOT internal ORDER BY table_name, column_index"
        ).fetchall()


def make_older(home: Home, version: int) -> None:
    """A database as that version made it, with a run in it."""
    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        apply_pending(connection, KNOWN[:version])
        columns = read_comments(connection)
        frames = {
            name: frame.select(column for column in frame.columns if column in columns[name])
            for name, frame in sample_run(IDS[0]).items()
        }
        ready = write_part(home.path / "older" / IDS[0], IDS[0], frames, schema_version=version)
        part = Part(IDS[0], "run", version, ready, {n: ready / f"{n}.parquet" for n in frames})
        assert insert_part(connection, part)


@pytest.mark.parametrize("version", range(1, len(KNOWN) + 1))
def test_a_database_of_every_version_comes_up_to_date_with_its_rows(
    home: Home, tmp_path: Path, version: int
) -> None:
    make_older(home, version)
    fresh = tmp_path / "fresh.duckdb"
    create_warehouse(fresh)
    with Spool(home).start(IDS[1], experiment="handbook") as run:
        run.finish(sample_run(IDS[1]))
    assert load_parts(home).loaded == [IDS[1]]
    assert structure(home.warehouse) == structure(fresh)
    with duckdb.connect(str(home.published), read_only=True) as connection:
        assert connection.execute("SELECT run_id, attempt FROM runs ORDER BY 1").fetchall() == [
            (IDS[0], 1),
            (IDS[1], 2),
        ]
        views = connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
        for (view,) in views:
            connection.execute(f"SELECT * FROM {view}").fetchall()
    copies = [path.name for path in home.path.glob("warehouse.duckdb.before-*")]
    expected = [] if version == len(KNOWN) else [f"warehouse.duckdb.before-{version + 1:04d}"]
    assert copies == expected
    for name in copies:
        with duckdb.connect(str(home.path / name), read_only=True) as before:
            assert before.execute("SELECT count(*) FROM query_metrics").fetchall() == [(15,)]
            assert before.execute("SELECT max(version) FROM migrations").fetchall() == [(version,)]


def test_queries_stored_before_filters_were_have_none_and_later_ones_have_theirs(
    home: Home,
) -> None:
    make_older(home, 6)
    frames = sample_run(IDS[1], n_queries=6)
    given = '{"lang": "fr", "year": [2025, 2026]}'
    is_first = pl.col("query_id") == "q00000"
    frames["queries"] = frames["queries"].with_columns(filter=pl.when(is_first).then(pl.lit(given)))
    with Spool(home).start(IDS[1], experiment="handbook") as run:
        run.finish(frames)
    assert load_parts(home).loaded == [IDS[1]]
    with duckdb.connect(str(home.published), read_only=True) as connection:
        rows = connection.execute(
            "SELECT run_id, query_id, filter, filter ->> '$.lang' FROM queries "
            "JOIN runs USING (benchmark_digest) ORDER BY ALL"
        ).fetchall()
    assert rows == [
        *((IDS[0], f"q0000{i}", None, None) for i in range(5)),
        (IDS[1], "q00000", given, "fr"),
        *((IDS[1], f"q0000{i}", None, None) for i in range(1, 6)),
    ]


def test_everything_is_documented_in_the_database(home: Home) -> None:
    create_warehouse(home.warehouse)
    with duckdb.connect(str(home.warehouse), read_only=True) as connection:
        comments = read_comments(connection)
        bare = [
            (t, c) for t, columns in comments.items() for c, text in columns.items() if not text
        ]
        assert bare == []
        (n_bare,) = connection.execute(
            "SELECT count(*) FROM (SELECT comment FROM duckdb_tables() UNION ALL "
            "SELECT comment FROM duckdb_views() WHERE NOT internal) WHERE comment IS NULL"
        ).fetchone() or (None,)
        assert n_bare == 0


def test_migrations_use_only_what_every_engine_shares() -> None:
    for migration in KNOWN:
        lines = [line for line in migration.sql.splitlines() if not line.startswith("--")]
        words = " ".join(lines).upper().split()
        for word in ("PRIMARY", "FOREIGN", "UNIQUE", "CHECK", "ENUM", "MACRO", "INDEX", "SEQUENCE"):
            assert word not in words, f"{migration.name}: {word}"


def test_a_newer_warehouse_is_refused_with_the_version_it_needs(home: Home) -> None:
    create_warehouse(home.warehouse)
    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute(
            "INSERT INTO migrations VALUES (77, '0077_x.sql', 'c', now(), '9.0', '3.0')"
        )
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        run.finish(sample_run(IDS[0]))
    before = home.warehouse.read_bytes()
    for refuse in (check_warehouse, load_parts):
        with pytest.raises(StorageError, match=r"migration 77 .* written by Rankhouse 9\.0"):
            refuse(home)
    assert home.warehouse.read_bytes() == before
    assert (home.spool / IDS[0] / "ready").is_dir()


def test_an_edited_migration_is_refused(home: Home) -> None:
    create_warehouse(home.warehouse)
    first, *rest = KNOWN
    edited = [Migration(1, first.name, first.sql + "\n-- a comment"), *rest]
    with (
        open_warehouse(home.warehouse) as warehouse,
        pytest.raises(StorageError, match="was edited after it ran"),
    ):
        migrate(warehouse, edited)


def test_line_ends_do_not_count_as_an_edit() -> None:
    first = KNOWN[0]
    assert Migration(1, first.name, first.sql.replace("\n", "\r\n")).checksum == first.checksum


def test_a_migration_copies_the_file_first_and_runs_whole_or_not_at_all(home: Home) -> None:
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        run.finish(sample_run(IDS[0]))
    load_parts(home)
    number = len(KNOWN) + 1
    good = Migration(number, f"{number:04d}_good.sql", "CREATE TABLE extra (a INTEGER)")
    bad = Migration(number + 1, "bad.sql", "CREATE TABLE more (a INTEGER); SELECT nonsense")
    with open_warehouse(home.warehouse) as warehouse:
        with pytest.raises(duckdb.Error):
            migrate(warehouse, [*KNOWN, good, bad])
        rows = warehouse.connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        tables = {name for (name,) in rows}
    assert "extra" in tables
    assert "more" not in tables
    copy = home.warehouse.with_name(f"warehouse.duckdb.before-{number:04d}")
    with duckdb.connect(str(copy), read_only=True) as before:
        assert before.execute("SELECT count(*) FROM query_metrics").fetchall() == [(15,)]
        with pytest.raises(duckdb.CatalogException):
            before.execute("SELECT * FROM extra")


def test_a_part_of_an_older_version_lands_with_what_it_has(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Spool(home).start(IDS[0], experiment="handbook") as run:
        ready = run.finish(sample_run(IDS[0]))
    manifest = json.loads((ready / "part.json").read_text())
    (ready / "part.json").write_text(json.dumps({**manifest, "schema_version": 1}))
    number = len(KNOWN) + 1
    newer = Migration(
        number, f"{number:04d}_colour.sql", "ALTER TABLE stages ADD COLUMN colour VARCHAR"
    )
    monkeypatch.setattr(migrating, "known_migrations", lambda: (*KNOWN, newer))
    assert load_parts(home).loaded == [IDS[0]]
    with duckdb.connect(str(home.published), read_only=True) as connection:
        colours = connection.execute("SELECT DISTINCT colour FROM stages").fetchall()
    assert colours == [(None,)]


def test_a_part_that_lacks_what_a_table_needs_is_refused(home: Home) -> None:
    frames = sample_run(IDS[0])
    folder = home.spool / IDS[0]
    frames["query_metrics"] = frames["query_metrics"].drop("contract_version")
    write_part(folder, IDS[0], frames, schema_version=1)
    report = load_parts(home)
    assert report.loaded == []
    assert "contract_version" in report.refused[0]
    assert (home.spool / "refused" / IDS[0] / "ready").is_dir()
    with duckdb.connect(str(home.published), read_only=True) as connection:
        for table in frames:
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]
