"""Models of the tables about a run itself: runs, stages, events."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pandera.polars as pa
import polars as pl

from schemas.experiment import NAME_PATTERN
from schemas.measures import MEASURE_PATTERN
from schemas.table_rules import (
    DIGEST_PATTERN,
    JSON_LIST_PATTERN,
    JSON_OBJECT_PATTERN,
    UUID_PATTERN,
    Table,
    json_columns_parse,
)

RUN_STATUSES = ("completed", "degraded", "failed")
STAGE_STATUSES = ("completed", "failed")
LABEL_METHODS = ("answer_text", "span", "document")
EVENT_KINDS = (
    *("crashed", "warning", "damaged", "truth", "note", "tag", "untag"),
    *("pruned", "notified", "notification_failed"),
)


class Runs(Table):
    """One evaluation of one experiment. ``attempt`` and ``loaded_at`` are the loader's."""

    run_id: str = pa.Field(str_matches=UUID_PATTERN, unique=True)
    experiment: str = pa.Field(str_matches=NAME_PATTERN)
    logical_date: pl.Date
    status: str = pa.Field(isin=RUN_STATUSES)
    status_reason: str = pa.Field(nullable=True)  # NULL exactly when completed
    suite: str = pa.Field(nullable=True)
    grid_id: str = pa.Field(nullable=True)
    started_at: Annotated[pl.Datetime, "us", "UTC"]
    ended_at: Annotated[pl.Datetime, "us", "UTC"]
    seconds: float = pa.Field(ge=0)
    cpu_seconds: float = pa.Field(ge=0, nullable=True)
    peak_memory_bytes: int = pa.Field(ge=0, nullable=True)
    config: str = pa.Field(str_matches=JSON_OBJECT_PATTERN)
    config_digest: str = pa.Field(str_matches=DIGEST_PATTERN)
    corpus_path: str
    corpus_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    n_documents: int = pa.Field(ge=1, nullable=True)
    benchmark_path: str
    benchmark_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    split: str = pa.Field(nullable=True)
    n_queries: int = pa.Field(ge=1, nullable=True)
    chunks_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    n_chunks: int = pa.Field(ge=1, nullable=True)
    vectors_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    index_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    rankings_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    labels_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    label_method: str = pa.Field(isin=LABEL_METHODS)
    depth: int = pa.Field(ge=1)
    embedding_model: str = pa.Field(nullable=True)
    embedding_revision: str = pa.Field(nullable=True)
    embedding_weights_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    models: str = pa.Field(str_matches=JSON_LIST_PATTERN)
    rankhouse_version: str
    git_commit: str = pa.Field(str_matches=r"^[0-9a-f]{40,64}$", nullable=True)
    git_dirty: bool = pa.Field(nullable=True)
    python_version: str
    libraries: str = pa.Field(str_matches=JSON_OBJECT_PATTERN)
    machine: str = pa.Field(str_matches=JSON_OBJECT_PATTERN)
    flow_run_id: str = pa.Field(nullable=True)
    primary_measure: str = pa.Field(str_matches=MEASURE_PATTERN, nullable=True)  # of its grid

    @pa.dataframe_check
    @classmethod
    def json_parses(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """The JSON columns are JSON."""
        return json_columns_parse(data, ("config", "models", "libraries", "machine"))

    @pa.dataframe_check
    @classmethod
    def reason_unless_completed(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A run that did not complete says why."""
        is_completed = pl.col("status") == "completed"
        return data.lazyframe.select(is_completed == pl.col("status_reason").is_null())

    @pa.dataframe_check
    @classmethod
    def ends_after_it_started(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """Time runs forward."""
        return data.lazyframe.select(pl.col("ended_at") >= pl.col("started_at"))

    @pa.dataframe_check
    @classmethod
    def digests_unless_failed(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A run with results says what they rest on."""
        names = ("corpus_digest", "benchmark_digest", "rankings_digest", "labels_digest")
        has_all = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
        return data.lazyframe.select((pl.col("status") == "failed") | has_all)


class Stages(Table):
    """One stage of one run."""

    run_id: str = pa.Field(str_matches=UUID_PATTERN)
    position: int = pa.Field(ge=1)
    stage: str = pa.Field(str_length={"min_value": 1})
    status: str = pa.Field(isin=STAGE_STATUSES)
    cached: bool
    stage_key: str = pa.Field(nullable=True)
    code_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    inputs: str = pa.Field(str_matches=JSON_OBJECT_PATTERN, nullable=True)
    output_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    started_at: Annotated[pl.Datetime, "us", "UTC"] = pa.Field(nullable=True)
    seconds: float = pa.Field(ge=0, nullable=True)
    cpu_seconds: float = pa.Field(ge=0, nullable=True)
    peak_memory_bytes: int = pa.Field(ge=0, nullable=True)
    figures: str = pa.Field(str_matches=JSON_OBJECT_PATTERN, nullable=True)
    message: str = pa.Field(nullable=True)

    class Config:
        """A position holds one stage."""

        unique: ClassVar[list[str]] = ["run_id", "position"]

    @pa.dataframe_check
    @classmethod
    def json_parses(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """The JSON columns are JSON."""
        return json_columns_parse(data, ("inputs", "figures"))

    @pa.dataframe_check
    @classmethod
    def message_when_failed(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A stage that failed says why."""
        has_failed = pl.col("status") == "failed"
        return data.lazyframe.select(has_failed == pl.col("message").is_not_null())


class Events(Table):
    """What happened to a run."""

    event_id: str = pa.Field(str_length={"min_value": 1}, unique=True)
    run_id: str = pa.Field(str_matches=UUID_PATTERN, nullable=True)
    kind: str = pa.Field(isin=EVENT_KINDS)
    occurred_at: Annotated[pl.Datetime, "us", "UTC"]
    stage: str = pa.Field(nullable=True)
    query_id: str = pa.Field(nullable=True)
    author: str = pa.Field(nullable=True)
    host: str = pa.Field(nullable=True)
    message: str = pa.Field(str_length={"min_value": 1})
    details: str = pa.Field(str_matches=JSON_OBJECT_PATTERN, nullable=True)

    @pa.dataframe_check
    @classmethod
    def json_parses(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """The JSON column is JSON."""
        return json_columns_parse(data, ("details",))
