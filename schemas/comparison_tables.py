"""Models of the tables comparisons and baselines."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pandera.polars as pa
import polars as pl

from schemas.experiment import NAME_PATTERN
from schemas.measures import MEASURE_PATTERN
from schemas.table_rules import JSON_OBJECT_PATTERN, UUID_PATTERN, Table, json_columns_parse

VERDICTS = ("better", "worse", "same", "not enough evidence", "not comparable")
BASELINE_KINDS = ("run", "previous", "pinned", "mean")


class Comparisons(Table):
    """One measure of a run against a baseline, over all queries or those of a tag."""

    comparison_id: str = pa.Field(str_matches=UUID_PATTERN)
    run_id: str = pa.Field(str_matches=UUID_PATTERN)
    baseline: str = pa.Field(isin=BASELINE_KINDS)
    baseline_run_ids: Annotated[pl.List, pl.String]  # empty: the first night
    measure: str = pa.Field(str_matches=MEASURE_PATTERN)
    contract_version: int = pa.Field(ge=1)
    tag: str = pa.Field(nullable=True)  # NULL: all queries
    is_gated: bool
    verdict: str = pa.Field(isin=VERDICTS)
    reason: str = pa.Field(str_length={"min_value": 1}, nullable=True)
    n_pairs: int = pa.Field(ge=0)
    n_better: int = pa.Field(ge=0)
    n_worse: int = pa.Field(ge=0)
    n_unchanged: int = pa.Field(ge=0)
    mean: float = pa.Field(nullable=True)  # NULL: no pairs, likewise below
    baseline_mean: float = pa.Field(nullable=True)
    difference: float = pa.Field(nullable=True)
    low: float = pa.Field(nullable=True)
    high: float = pa.Field(nullable=True)
    p_value: float = pa.Field(gt=0, le=1, nullable=True)
    p_adjusted: float = pa.Field(gt=0, le=1, nullable=True)
    effect_size: float = pa.Field(nullable=True)  # NULL: the differences do not vary
    smallest_detectable: float = pa.Field(gt=0, nullable=True)  # likewise
    delta: float = pa.Field(gt=0, nullable=True)  # NULL: not gated
    alpha: float = pa.Field(gt=0, lt=1, nullable=True)
    seed: int = pa.Field(nullable=True)
    compared_at: Annotated[pl.Datetime, "us", "UTC"]
    details: str = pa.Field(str_matches=JSON_OBJECT_PATTERN, nullable=True)

    class Config:
        """A comparison says one thing about a measure and slice."""

        unique: ClassVar[list[str]] = ["comparison_id", "measure", "tag"]

    @pa.dataframe_check
    @classmethod
    def json_parses(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """The JSON column is JSON."""
        return json_columns_parse(data, ("details",))

    @pa.dataframe_check
    @classmethod
    def counts_add_up(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """Every pair is better, worse or unchanged."""
        moved = pl.col("n_better") + pl.col("n_worse") + pl.col("n_unchanged")
        return data.lazyframe.select(moved == pl.col("n_pairs"))

    @pa.dataframe_check
    @classmethod
    def numbers_exactly_with_pairs(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A difference exactly where there are pairs."""
        return data.lazyframe.select(pl.col("difference").is_not_null() == (pl.col("n_pairs") > 0))

    @pa.dataframe_check
    @classmethod
    def no_verdict_without_reason(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """What cannot be compared says why; so does, over all queries, too little evidence."""
        needs = (pl.col("verdict") == "not comparable") | (
            (pl.col("verdict") == "not enough evidence") & pl.col("tag").is_null()
        )
        return data.lazyframe.select(~needs | pl.col("reason").is_not_null())


class Baselines(Table):
    """A decision that later nights are compared with this run."""

    baseline_id: str = pa.Field(str_matches=UUID_PATTERN, unique=True)
    experiment: str = pa.Field(str_matches=NAME_PATTERN)
    suite: str = pa.Field(nullable=True)  # NULL: every suite
    run_id: str = pa.Field(str_matches=UUID_PATTERN)
    accepted_at: Annotated[pl.Datetime, "us", "UTC"]
    author: str = pa.Field(str_length={"min_value": 1})
    reason: str = pa.Field(str_length={"min_value": 1})
