"""A year of nights in the warehouse: how long questions take, and what a night adds.

python -m tests.benchmarks.bench_warehouse [--nights 365] [--experiments 5] [--queries 1000]
                                           [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from schemas.home import Home
from warehouse.connect import create_warehouse

MEASURES = [
    f"{family}@{cutoff}"
    for family in ("hit", "precision", "recall", "ndcg", "rr", "ap")
    for cutoff in (1, 3, 5, 10, 20)
]
# A run's id from its number: the night's milliseconds first, as in a UUIDv7.
RUN_ID = """printf('%08x-%04x-7000-8000-%012x',
    ((1764547200000 + {run} // {experiments} * 86400000 + {run} % {experiments} * 60000)
        // 65536)::BIGINT,
    ((1764547200000 + {run} // {experiments} * 86400000 + {run} % {experiments} * 60000)
        % 65536)::BIGINT,
    ({run})::BIGINT)"""


def generate(path: Path, n_nights: int, n_experiments: int, n_queries: int) -> None:
    """Write a year of results straight into the tables, in the order of the loader."""
    create_warehouse(path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("CREATE TEMP TABLE names AS SELECT unnest(?) AS measure", [MEASURES])
        _generate_runs(connection, n_nights, n_experiments, n_queries)
        _generate_values(connection, n_nights * n_experiments, n_experiments, n_queries)
        connection.execute("CHECKPOINT")


def _generate_runs(
    connection: duckdb.DuckDBPyConnection, n_nights: int, n_experiments: int, n_queries: int
) -> None:
    run_id = RUN_ID.format(run="i", experiments=n_experiments)
    day = f"to_days((i // {n_experiments})::INTEGER)"
    columns = {
        "run_id": run_id,
        "experiment": f"'experiment ' || (i % {n_experiments})",
        "attempt": "1",
        "logical_date": f"DATE '2025-12-01' + (i // {n_experiments})::INTEGER",
        "status": "if(i % 97 = 0, 'degraded', 'completed')",
        "status_reason": "if(i % 97 = 0, 'values failed: qa (3)', NULL)",
        "started_at": f"TIMESTAMPTZ '2025-12-01 02:00:00+00' + {day}",
        "ended_at": f"TIMESTAMPTZ '2025-12-01 02:05:00+00' + {day}",
        "seconds": "300.0",
        "config": f"'{json.dumps({'measures': MEASURES})}'",
        "config_digest": f"md5('config' || (i % {n_experiments}))",
        "corpus_path": "'corpus'",
        "corpus_digest": f"md5('corpus' || (i // {7 * n_experiments}))",
        "benchmark_path": "'benchmark.jsonl'",
        "benchmark_digest": "md5('benchmark')",
        "n_queries": str(n_queries),
        "rankings_digest": f"md5('rankings' || (i // {n_experiments}))",
        "labels_digest": "md5('labels')",
        "label_method": "'document'",
        "depth": "100",
        "models": "'[]'",
        "rankhouse_version": "'0.1.0'",
        "python_version": "'3.11.7'",
        "libraries": "'{}'",
        "machine": "'{}'",
        "loaded_at": "now()",
    }
    selected = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    connection.execute(
        f"INSERT INTO runs BY NAME SELECT {selected} FROM range({n_nights * n_experiments}) t(i)"
    )
    connection.execute(
        "INSERT INTO run_metrics SELECT run_id, measure, 1, "
        "0.5 + (hash(run_id || measure) % 1000) / 10000.0, "
        f"{n_queries}, {n_queries}, 0, 0, 0.4, 0.7, md5(measure) FROM runs, names "
        "ORDER BY run_id, measure"
    )


def _generate_values(
    connection: duckdb.DuckDBPyConnection, n_runs: int, n_experiments: int, n_queries: int
) -> None:
    """Binary measures are 0 or 1, the others fractions of small whole numbers, a few missing."""
    run_id = RUN_ID.format(run="run", experiments=n_experiments)
    sorted_measures = sorted(MEASURES)
    connection.execute(
        f"""
        INSERT INTO query_metrics
        SELECT {run_id}, printf('q%05d', query), measure, 1,
            CASE WHEN noise % 200 = 0 THEN NULL
                WHEN measure LIKE 'hit%' THEN noise % 2
                WHEN measure LIKE 'ndcg%' THEN (noise % 100003) / 100003
                ELSE (noise % 11) / 10 END,
            if(noise % 200 = 0, 'failed', NULL)
        FROM (
            SELECT run, query, ?[1 + (i // {n_queries} % {len(MEASURES)})::INTEGER] AS measure,
                hash(query * 31 + i // {n_queries} % {len(MEASURES)} * 7919
                    + if(hash(i) % 10 = 0, run, 0)) AS noise
            FROM (
                SELECT i, i // {n_queries * len(MEASURES)} AS run, i % {n_queries} AS query
                FROM range({n_runs * n_queries * len(MEASURES)}) t(i)
            )
        )""",
        [sorted_measures],
    )


def questions(last_run: str, run_before: str, night: str) -> dict[str, tuple[str, str]]:
    """Each question with the bare aggregate over the columns that it reads."""
    columns = "min(run_id), min(measure), min(contract_version), min(comparability_key), avg(mean)"
    return {
        "history of one measure": (
            "SELECT logical_date, mean, change FROM metric_history "
            "WHERE experiment = 'experiment 3' AND measure = 'ndcg@10' ORDER BY logical_date",
            f"SELECT {columns} FROM run_metrics",
        ),
        "leaderboard of a night": (
            "SELECT place, experiment, mean FROM leaderboard "
            f"WHERE logical_date = '{night}' AND measure = 'ndcg@10' ORDER BY place",
            f"SELECT {columns} FROM run_metrics",
        ),
        "worst queries of two runs": (
            "SELECT query_id, value, baseline_value, delta FROM query_deltas "
            f"WHERE run_id = '{last_run}' AND baseline_run_id = '{run_before}' "
            "AND measure = 'ndcg@10' ORDER BY delta LIMIT 10",
            "SELECT min(run_id), min(query_id), min(measure), min(contract_version), avg(value) "
            "FROM query_metrics",
        ),
        "null reasons of a run": (
            f"SELECT measure, null_reason, n_queries FROM null_reasons WHERE run_id = '{last_run}'",
            "SELECT min(run_id), min(query_id), min(measure), min(contract_version), "
            "min(null_reason) FROM query_metrics",
        ),
    }


def ask_in_child(path: Path, sql: str, repeats: int = 5) -> tuple[float, float, int]:
    """Median seconds, peak MB above the start, and rows, in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-m", __spec__.name, "--ask", str(path), sql, "--repeats", str(repeats)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, megabytes, n_rows = json.loads(result.stdout)
    return seconds, megabytes, n_rows


def _ask(path: str, sql: str, repeats: int) -> None:
    with duckdb.connect(path, read_only=True) as connection:
        connection.execute("SELECT 1").fetchall()
        before = _peak_megabytes()
        times = []
        for _ in range(repeats):
            begin = time.perf_counter()
            rows = connection.execute(sql).fetchall()
            times.append(time.perf_counter() - begin)
    print(json.dumps([statistics.median(times), _peak_megabytes() - before, len(rows)]))


def _peak_megabytes() -> float:
    """Of this program; ru_maxrss would start with that of the process that started it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def bench_questions(path: Path, n_experiments: int) -> None:
    with duckdb.connect(str(path), read_only=True) as connection:
        (n_rows,) = _one(connection, "SELECT count(*) FROM query_metrics")
        runs = connection.execute(
            "SELECT run_id, logical_date FROM runs WHERE experiment = 'experiment 3' "
            "ORDER BY run_id DESC LIMIT 2"
        ).fetchall()
    print(f"\n{n_rows:,} rows in query_metrics, {path.stat().st_size / 2**20:,.0f} MB")
    print("question                     seconds  bare aggregate  ratio  peak MB  bare MB  rows")
    for name, (sql, bare) in questions(runs[0][0], runs[1][0], str(runs[0][1])).items():
        seconds, peak, n_rows = ask_in_child(path, sql)
        bare_seconds, bare_peak, _ = ask_in_child(path, bare)
        print(
            f"{name:27}  {seconds:7.3f}  {bare_seconds:14.3f}  {seconds / bare_seconds:5.2f}"
            f"  {peak:7.0f}  {bare_peak:7.0f}  {n_rows:4}"
        )


def bench_loading(folder: Path, n_queries: int = 10_000, repeats: int = 9) -> None:
    """Take in a run of 300,000 values, and compare with a bare insert of the same Arrow data.

    Both start from a file with empty tables and end with everything in it; they alternate, so
    that a busy machine slows both.
    """
    from tests.data.sample_runs import sample_run
    from warehouse.load import load_parts
    from warehouse.spool import Spool, new_run_id
    from warehouse.validate import find_refusals

    run_id = new_run_id()
    frames = sample_run(run_id, n_queries=n_queries, measures=MEASURES, depth=10)
    arrow = {name: frame.to_arrow() for name, frame in frames.items()}
    find_refusals(frames, run_id=run_id)  # imports and warms pandera
    clocks: dict[str, list[tuple[float, float]]] = {}
    for repeat in range(repeats):
        home = Home(folder / f"loading-{repeat}").prepare()
        create_warehouse(home.warehouse)
        for name in ("bare", "values", "checked"):
            shutil.copyfile(home.warehouse, home.path / f"{name}.duckdb")
        with Spool(home).start(run_id, experiment="bench") as run, _clock(clocks, "run: spool"):
            run.finish(frames)
        with _clock(clocks, "run: load, publish"):
            load_parts(home)
        with _clock(clocks, "run: bare"):
            _insert_bare(home.path / "bare.duckdb", arrow)
        with _clock(clocks, "values: bare"):
            _insert_bare(home.path / "values.duckdb", {"query_metrics": arrow["query_metrics"]})
        with _clock(clocks, "values"):
            _insert_checked(home.path / "checked.duckdb", frames["query_metrics"])
        shutil.rmtree(home.path)
    print(f"\n{frames['query_metrics'].height:,} values       wall s   CPU s")
    medians = {
        name: [statistics.median(column) for column in zip(*times, strict=True)]
        for name, times in clocks.items()
    }
    for name, (wall, cpu) in medians.items():
        print(f"{name:20} {wall:7.3f} {cpu:7.3f}")
    for i, clock in enumerate(("wall", "CPU")):
        values = medians["values"][i] / medians["values: bare"][i]
        whole = (medians["run: spool"][i] + medians["run: load, publish"][i]) / medians[
            "run: bare"
        ][i]
        print(f"{clock}: values {values:.2f} x their bare insert, the run {whole:.2f} x its own")


def _insert_bare(path: Path, tables: Mapping[str, Any]) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("BEGIN")
        for name, arrow in tables.items():
            connection.register("arrow", arrow)
            given = ", 1 AS attempt, now() AS loaded_at" if name == "runs" else ""
            connection.execute(f"INSERT INTO {name} BY NAME SELECT *{given} FROM arrow")
        connection.execute("COMMIT")


def _insert_checked(path: Path, frame: Any) -> None:
    """Strict model, Parquet, digest, insert: what the loader does for one table."""
    from warehouse.insert import insert_part
    from warehouse.parts import read_part, write_part
    from warehouse.validate import check_table

    assert check_table("query_metrics", frame) == []
    ready = write_part(path.parent / "values", "values", {"query_metrics": frame}, schema_version=1)
    # As in the part of a whole run: nothing has to be looked up before it is inserted.
    part = dataclasses.replace(read_part(ready), kind="events")
    with duckdb.connect(str(path)) as connection:
        insert_part(connection, part)


@contextmanager
def _clock(clocks: dict[str, list[tuple[float, float]]], name: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    clocks.setdefault(name, []).append((time.perf_counter() - wall, time.process_time() - cpu))


def bench_growth(folder: Path) -> None:
    """What a night of 1,000 queries x 30 measures adds, with known and with new rankings."""
    from tests.data.sample_runs import sample_run
    from warehouse.load import load_parts
    from warehouse.spool import Spool, new_run_id

    print("\nnights of 1,000 queries x 30 measures at depth 100: MB that one adds (mean of ten)")
    for name, is_new in (("rankings and labels unchanged", False), ("new", True)):
        home = Home(folder / f"growth-{is_new}").prepare()
        sizes = []
        for night in range(21):
            run_id = new_run_id()
            seed = night if is_new else 0
            frames = sample_run(run_id, n_queries=1000, measures=MEASURES, depth=100, seed=seed)
            with Spool(home).start(run_id, experiment="bench") as run:
                run.finish(frames)
            load_parts(home)
            sizes.append(home.warehouse.stat().st_size)
        print(f"{name:30} {(sizes[-1] - sizes[10]) / 10 / 2**20:.2f}")


def _text(value: str) -> Any:
    import polars as pl

    return pl.lit(value, dtype=pl.String)


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--experiments", type=int, default=5)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="where the year is kept between calls")
    parser.add_argument("--only", choices=["questions", "loading", "growth"])
    parser.add_argument("--ask", nargs=2, metavar=("FILE", "SQL"))
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    if given.ask:
        _ask(*given.ask, given.repeats)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        if given.only in (None, "questions"):
            path = folder / f"year-{given.nights}.duckdb"
            if not path.exists():
                folder.mkdir(parents=True, exist_ok=True)
                begin = time.perf_counter()
                generate(path, given.nights, given.experiments, given.queries)
                print(f"generated in {time.perf_counter() - begin:.0f} s")
            bench_questions(path, given.experiments)
        if given.only in (None, "loading"):
            bench_loading(Path(temporary))
        if given.only in (None, "growth"):
            bench_growth(Path(temporary))


if __name__ == "__main__":
    main()
