"""Rules that several tables share, as Polars expressions."""

from __future__ import annotations

import pandera.polars as pa
import polars as pl

UUID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
DIGEST_PATTERN = r"^[0-9a-f]{16,64}$"
JSON_OBJECT_PATTERN = r"(?s)^\{.*\}$"
JSON_LIST_PATTERN = r"(?s)^\[.*\]$"


class Table(pa.DataFrameModel):
    """A table: no column more, none less, no other types, every float finite."""

    class Config:
        """Strict about columns; the frame is never altered."""

        strict = True
        coerce = False

    @pa.dataframe_check
    @classmethod
    def floats_are_finite(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """NULL, never NaN; an infinity is a fault upstream."""
        names = [
            name
            for name, dtype in data.lazyframe.collect_schema().items()
            if dtype in (pl.Float64, pl.Float32)
        ]
        if not names:
            return data.lazyframe.select(pl.lit(value=True).alias("is_finite"))
        finite = pl.all_horizontal(pl.col(name).is_finite().fill_null(value=True) for name in names)
        return data.lazyframe.select(finite.alias("is_finite"))


def keys_are_unique(data: pa.PolarsData, columns: tuple[str, ...]) -> pl.LazyFrame:
    """No two rows share their key; quick where the frame is sorted by it, in this order."""
    rises = pl.lit(value=False)
    for name in reversed(columns):
        column, before = pl.col(name), pl.col(name).shift(1)
        rises = (column > before) | ((column == before) & rises)
    frame = data.lazyframe.select(columns)
    is_sorted = frame.select(rises.slice(1).all()).collect().item()
    if is_sorted:
        return frame.select(pl.repeat(value=True, n=pl.len()).alias("is_unique"))
    return frame.select(pl.struct(columns).is_unique().alias("is_unique"))


def is_in_order(data: pa.PolarsData) -> bool:
    """Whether queries stand one after the other, each with its ranks 1, 2, … in order.

    So it is written; what is not takes the slow way.
    """
    query, rank = pl.struct("rankings_digest", "query_id"), pl.col("rank")
    expected = pl.when(pl.col("is_first")).then(1).otherwise(rank.shift(1) + 1)
    is_first = pl.col("query_id").ne_missing(pl.col("query_id").shift(1)) | pl.col(
        "rankings_digest"
    ).ne_missing(pl.col("rankings_digest").shift(1))
    row = (
        data.lazyframe.with_columns(is_first.alias("is_first"))
        .select(
            (rank == expected).all().alias("counts_up"),
            pl.col("is_first").sum().alias("n_groups"),
            query.filter(pl.col("is_first")).n_unique().alias("n_queries"),
        )
        .collect()
        .row(0)
    )
    counts_up, n_groups, n_queries = row
    return bool(counts_up) and bool(n_groups == n_queries)


def exactly_one_of(data: pa.PolarsData, value: str, reason: str) -> pl.LazyFrame:
    """Exactly one of two columns is NULL."""
    return data.lazyframe.select(pl.col(value).is_null() != pl.col(reason).is_null())


def ranges_of(measures: list[str]) -> pl.DataFrame:
    """The contract of each measure that this version knows.

    Returns:
        Columns measure, contract_version, lowest, highest (NULL: unbounded). Names that cannot be
        parsed, or are not written canonically, are absent.
    """
    from schemas.measures import Measure, MeasureError

    rows = []
    for name in measures:
        try:
            measure = Measure.parse(name)
        except MeasureError:
            continue
        if str(measure) == name:
            contract = measure.contract
            rows.append((name, contract.version, contract.lowest, contract.highest))
    schema = {
        "measure": pl.String,
        "contract_version": pl.Int64,
        "lowest": pl.Float64,
        "highest": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def within_contract(data: pa.PolarsData, columns: tuple[str, ...]) -> pl.LazyFrame:
    """Values lie within the range of their measure's contract; unknown measures are refused.

    A row under an older version than this code's is not judged by the newer range.
    """
    frame = data.lazyframe
    names = frame.select(pl.col("measure").unique()).collect().to_series().to_list()
    ranges = ranges_of([name for name in names if name is not None])
    joined = frame.join(
        ranges.lazy().rename({"contract_version": "known_version"}),
        on="measure",
        how="left",
        maintain_order="left",
    )
    # A sum of correctly rounded quotients may pass an end by a few units in the last place.
    slack = 1e-12
    inside = pl.all_horizontal(
        (
            (pl.col(name) >= pl.col("lowest") - slack)
            & (pl.col(name) <= pl.col("highest").fill_null(float("inf")) + slack)
        ).fill_null(value=True)
        for name in columns
    )
    is_older = pl.col("contract_version") < pl.col("known_version")
    is_known = pl.col("known_version").is_not_null() & (
        pl.col("contract_version") <= pl.col("known_version")
    )
    return joined.select((is_known & (inside | is_older)).alias("is_within"))


def is_json(text: str) -> bool:
    """Whether a text is JSON without NaN or Infinity, which DuckDB would refuse."""
    import json

    try:
        json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def json_columns_parse(data: pa.PolarsData, columns: tuple[str, ...]) -> pl.LazyFrame:
    """Every non-NULL text of the columns is JSON."""
    frame = data.lazyframe.select(columns).collect()
    verdicts = [
        all(cell is None or is_json(cell) for cell in row) for row in frame.iter_rows(named=False)
    ]
    return pl.LazyFrame({"is_json": pl.Series(verdicts, dtype=pl.Boolean)})
