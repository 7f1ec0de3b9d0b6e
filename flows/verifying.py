"""Whether the warehouse is sound: its rules in SQL, and a sample of its values computed anew."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from flows.past_runs import PastRun, read_past_run, score_again
from schemas.errors import RankhouseError
from schemas.home import Home
from schemas.measures import Measure, MeasureError
from tasks.evidence import FAMILIES
from tasks.formulas import FORMULAS
from warehouse.verify import SHOWN, Broken, find_broken

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TOLERANCE = 1e-12


def verify_warehouse(home: Home, *, n_sampled: int, seed: int) -> Iterator[Broken]:
    """Check everything that can be checked; nothing comes out of a sound warehouse.

    Args:
        home: whose warehouse.
        n_sampled: how many runs have their values computed anew, the newest among them.
        seed: decides which.

    Raises:
        StorageError: the file cannot be used: not DuckDB, cut, newer, an edited migration, or
            somebody holds it.
    """
    from warehouse.connect import open_to_read
    from warehouse.texts import chunk_folders

    with open_to_read(home.warehouse) as connection:
        yield from find_broken(connection)
        folders = chunk_folders(home, connection)
        for run_id in _sample(connection, n_sampled, seed):
            yield from _compare(connection, run_id, folders)


def _sample(connection: DuckDBPyConnection, n_sampled: int, seed: int) -> list[str]:
    rows = connection.execute(
        "SELECT run_id FROM runs WHERE status <> 'failed' ORDER BY run_id DESC"
    ).fetchall()
    run_ids = [run_id for (run_id,) in rows]
    older = run_ids[1:]
    chosen = random.Random(seed).sample(older, min(max(n_sampled - 1, 0), len(older)))  # noqa: S311
    return run_ids[: min(n_sampled, 1)] + sorted(chosen)


def _compare(
    connection: DuckDBPyConnection, run_id: str, folders: Sequence[Path]
) -> Iterator[Broken]:
    """The stored values of one run against those that its rankings and labels give."""
    try:
        run = read_past_run(connection, run_id)
        stored = _stored(connection, run_id)
        measures = _computable(stored, run, folders)
        if not measures:
            return
        values, means = score_again(connection, run, measures, folders)
    except RankhouseError as error:
        yield Broken("values can be computed anew", f"run_id {run_id}: {error}")
        return
    yield from _differences(run_id, stored, values)
    yield from _lost(connection, run_id, means)


def _stored(connection: DuckDBPyConnection, run_id: str) -> pl.DataFrame:
    columns = "query_id, measure, contract_version, value, null_reason"
    sql = f"SELECT {columns} FROM query_metrics WHERE run_id = ?"  # noqa: S608
    frame: pl.DataFrame = connection.cursor().sql(sql, params=[run_id]).pl()
    return frame.cast({"contract_version": pl.Int64})


def _computable(stored: pl.DataFrame, run: PastRun, folders: Sequence[Path]) -> list[Measure]:
    """Ranking measures under this code's contract, whose chunks, if they need any, are there."""
    digest = run.chunks_digest or "-"
    has_chunks = any((folder / digest[:2] / f"{digest}.parquet").is_file() for folder in folders)
    found = []
    for name, version in stored.select("measure", "contract_version").unique().rows():
        try:
            measure = Measure.parse(name)
        except MeasureError:
            continue
        is_known = measure.family in FORMULAS or (measure.family in FAMILIES and has_chunks)
        if is_known and measure.contract.version == version:
            found.append(measure)
    return sorted(found)


def _differences(run_id: str, stored: pl.DataFrame, values: pl.DataFrame) -> Iterator[Broken]:
    keys = ["query_id", "measure", "contract_version"]
    wanted = stored.join(values.select("measure", "contract_version").unique(), on=keys[1:])
    both = wanted.join(values, on=keys, how="full", coalesce=True, suffix="_again")
    gap = (pl.col("value") - pl.col("value_again")).abs()
    wrong = both.filter(
        (gap > TOLERANCE).fill_null(value=False)
        | pl.col("value").is_null().ne(pl.col("value_again").is_null())
        | pl.col("null_reason").ne_missing(pl.col("null_reason_again"))
    )
    for row in wrong.sort(keys).head(SHOWN).iter_rows(named=True):
        yield Broken(
            "a value is what its rankings and labels give",
            f"run_id {run_id}, query_id {row['query_id']}, measure {row['measure']}: stored "
            f"{row['value']} {row['null_reason'] or ''}, computed {row['value_again']} "
            f"{row['null_reason_again'] or ''}",
        )


def _lost(connection: DuckDBPyConnection, run_id: str, means: pl.DataFrame) -> Iterator[Broken]:
    rows = connection.execute(
        "SELECT measure, contract_version, n_lost FROM run_metrics WHERE run_id = ?", [run_id]
    ).fetchall()
    stored = {(name, version): n_lost for name, version, n_lost in rows}
    for name, version, n_lost in means.select("measure", "contract_version", "n_lost").rows():
        if stored.get((name, version)) != n_lost:
            yield Broken(
                "queries with lost ground truth are those of the labels",
                f"run_id {run_id}, measure {name}: stored {stored.get((name, version))}, "
                f"labels say {n_lost}",
            )
