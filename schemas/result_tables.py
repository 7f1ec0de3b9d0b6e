"""Models of the tables that hold results: what was retrieved, how it was labelled and scored."""

from __future__ import annotations

from typing import Annotated, ClassVar

import pandera.polars as pa
import polars as pl

from schemas.frames import JUDGEMENT, SPAN
from schemas.measures import MEASURE_PATTERN
from schemas.table_rules import (
    DIGEST_PATTERN,
    JSON_OBJECT_PATTERN,
    UUID_PATTERN,
    Table,
    exactly_one_of,
    is_in_order,
    json_columns_parse,
    keys_are_unique,
    within_contract,
)

NULL_REASONS = ("no_relevant", "no_judged", "failed")
LABEL_KINDS = ("item", "span", "lost")
SUMMARY_STATUSES = (
    "scored",
    "no_judged",
    "no_key_phrases",
    "no_questions",
    "empty_response",
    "truncated",
    "refused",
    "timeout",
    "rate_limited",
    "invalid_reply",
    "over_budget",
)


class Queries(Table):
    """A query of a benchmark, with its ground truth."""

    benchmark_digest: str = pa.Field(str_matches=DIGEST_PATTERN)
    query_id: str = pa.Field(str_length={"min_value": 1})
    text: str = pa.Field(str_length={"min_value": 1})
    tags: Annotated[pl.List, pl.String] = pa.Field(nullable=True)
    split: str = pa.Field(nullable=True)
    answers: Annotated[pl.List, pl.String] = pa.Field(nullable=True)
    spans: Annotated[pl.List, SPAN] = pa.Field(nullable=True)
    qrels: Annotated[pl.List, JUDGEMENT] = pa.Field(nullable=True)
    response: str = pa.Field(nullable=True)
    reference_contexts: Annotated[pl.List, pl.String] = pa.Field(nullable=True)
    filter: str = pa.Field(str_matches=JSON_OBJECT_PATTERN, nullable=True)

    class Config:
        """A benchmark holds a query once."""

        unique: ClassVar[list[str]] = ["benchmark_digest", "query_id"]

    @pa.dataframe_check
    @classmethod
    def json_parses(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """The JSON column is JSON."""
        return json_columns_parse(data, ("filter",))


class Rankings(Table):
    """What was retrieved at one rank for one query."""

    rankings_digest: str = pa.Field(str_matches=DIGEST_PATTERN)
    query_id: str
    rank: int = pa.Field(ge=1)
    item_id: str
    chunk_id: str
    retrieval_score: float

    class Config:
        """A query's ranking holds an item once; that ranks are 1, 2, … is checked below."""

        unique: ClassVar[list[str]] = ["rankings_digest", "query_id", "item_id"]

    @pa.dataframe_check
    @classmethod
    def ranks_count_from_one(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """The ranks of a query are 1 … n, each once."""
        if is_in_order(data):
            return data.lazyframe.select(pl.repeat(value=True, n=pl.len()).alias("rank"))
        query = ["rankings_digest", "query_id"]
        place = pl.col("rank").rank("ordinal").over(query).cast(pl.Int64)
        return data.lazyframe.select(pl.col("rank") == place)

    @pa.dataframe_check
    @classmethod
    def scores_never_rise(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A later rank never has a higher score."""
        query, score = ["rankings_digest", "query_id"], pl.col("retrieval_score")
        before = score.shift(1).over(query, order_by="rank")
        if is_in_order(data):
            before = pl.when(pl.col("rank") > 1).then(score.shift(1)).otherwise(None)
        return data.lazyframe.select((score <= before).fill_null(value=True))


class Labels(Table):
    """An item with a gain or judgement."""

    labels_digest: str = pa.Field(str_matches=DIGEST_PATTERN)
    query_id: str
    kind: str = pa.Field(isin=LABEL_KINDS)
    item_id: str
    doc_id: str = pa.Field(nullable=True)
    start: int = pa.Field(ge=0, nullable=True)
    end: int = pa.Field(ge=0, nullable=True)
    gain: int

    class Config:
        """An item has one label of a kind."""

        unique: ClassVar[list[str]] = ["labels_digest", "query_id", "kind", "item_id"]


class Measures(Table):
    """A contract."""

    measure: str = pa.Field(str_matches=MEASURE_PATTERN)
    contract_version: int = pa.Field(ge=1)
    family: str
    formula: str = pa.Field(str_length={"min_value": 1})
    lowest: float
    highest: float = pa.Field(nullable=True)  # NULL: unbounded
    edge_policy: str
    source: str

    class Config:
        """A version of a contract is written once."""

        unique: ClassVar[list[str]] = ["measure", "contract_version"]


class QueryMetrics(Table):
    """One value of one measure for one query of one run."""

    run_id: str = pa.Field(str_matches=UUID_PATTERN)
    query_id: str
    measure: str = pa.Field(str_matches=MEASURE_PATTERN)
    contract_version: int = pa.Field(ge=1)
    value: float = pa.Field(nullable=True)  # within its contract's range; NULL: see null_reason
    null_reason: str = pa.Field(isin=NULL_REASONS, nullable=True)

    @pa.dataframe_check
    @classmethod
    def one_value_of_a_measure_for_a_query(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A query has one value of a measure under a contract."""
        return keys_are_unique(data, ("run_id", "measure", "contract_version", "query_id"))

    @pa.dataframe_check
    @classmethod
    def value_within_its_contract(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A precision above 1 never reaches the table."""
        return within_contract(data, ("value",))

    @pa.dataframe_check
    @classmethod
    def exactly_one_of_value_and_reason(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """No silent NULL, and no reason beside a value."""
        return exactly_one_of(data, "value", "null_reason")


class RunMetrics(Table):
    """The mean of one measure over the queries of one run."""

    run_id: str = pa.Field(str_matches=UUID_PATTERN)
    measure: str = pa.Field(str_matches=MEASURE_PATTERN)
    contract_version: int = pa.Field(ge=1)
    mean: float = pa.Field(nullable=True)  # NULL: nothing was scored
    n_scored: int = pa.Field(ge=0)
    n_queries: int = pa.Field(ge=1)
    n_lost: int = pa.Field(ge=0)
    n_failed: int = pa.Field(ge=0)
    low: float = pa.Field(nullable=True)
    high: float = pa.Field(nullable=True)  # NULL: unbounded, or nothing scored or failed
    comparability_key: str = pa.Field(str_matches=DIGEST_PATTERN)

    class Config:
        """A run has one mean of a measure under a contract."""

        unique: ClassVar[list[str]] = ["run_id", "measure", "contract_version"]

    @pa.dataframe_check
    @classmethod
    def means_within_their_contract(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A mean lies where its values may lie."""
        return within_contract(data, ("mean", "low", "high"))

    @pa.dataframe_check
    @classmethod
    def mean_when_something_was_scored(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A mean exactly where a query was scored."""
        return data.lazyframe.select(pl.col("mean").is_not_null() == (pl.col("n_scored") > 0))

    @pa.dataframe_check
    @classmethod
    def counts_add_up(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """No part is larger than the whole."""
        fits = (pl.col("n_scored") + pl.col("n_failed") <= pl.col("n_queries")) & (
            pl.col("n_lost") <= pl.col("n_queries")
        )
        return data.lazyframe.select(fits)

    @pa.dataframe_check
    @classmethod
    def bounds_enclose_the_mean(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """The bounds, as far as they exist, lie on either side of the mean."""
        encloses = (pl.col("low") <= pl.col("mean") + 1e-12).fill_null(value=True) & (
            pl.col("mean") <= pl.col("high") + 1e-12
        ).fill_null(value=True)
        return data.lazyframe.select(encloses)


class SummaryScores(Table):
    """The summary score of one query of one run."""

    run_id: str = pa.Field(str_matches=UUID_PATTERN)
    query_id: str
    status: str = pa.Field(isin=SUMMARY_STATUSES)
    message: str = pa.Field(nullable=True)
    summary_score: float = pa.Field(in_range={"min_value": 0, "max_value": 1}, nullable=True)
    qa: float = pa.Field(in_range={"min_value": 0, "max_value": 1}, nullable=True)
    conciseness: float = pa.Field(in_range={"min_value": 0, "max_value": 1}, nullable=True)
    n_questions: int = pa.Field(ge=0, nullable=True)
    n_answered: int = pa.Field(ge=0, nullable=True)
    response: str = pa.Field(nullable=True)
    response_source: str = pa.Field(nullable=True)
    n_characters_response: int = pa.Field(ge=0, nullable=True)
    n_characters_contexts: int = pa.Field(ge=0, nullable=True)
    contexts_digest: str = pa.Field(str_matches=DIGEST_PATTERN, nullable=True)
    generator: str = pa.Field(nullable=True)
    judge: str = pa.Field(nullable=True)
    n_repeats: int = pa.Field(ge=1, nullable=True)
    spread: float = pa.Field(in_range={"min_value": 0, "max_value": 1}, nullable=True)
    n_characters_cut: int = pa.Field(ge=0, nullable=True)

    class Config:
        """A query has one summary score."""

        unique: ClassVar[list[str]] = ["run_id", "query_id"]

    @pa.dataframe_check
    @classmethod
    def score_exactly_when_scored(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """A status other than scored never comes with a score, nor without a message."""
        is_scored = pl.col("status") == "scored"
        has_score = pl.col("summary_score").is_not_null()
        return data.lazyframe.select(
            (is_scored == has_score) & (is_scored == pl.col("message").is_null())
        )

    @pa.dataframe_check
    @classmethod
    def no_more_answers_than_questions(cls, data: pa.PolarsData) -> pl.LazyFrame:
        """The parts of qa fit each other."""
        fits = pl.col("n_answered") <= pl.col("n_questions")
        return data.lazyframe.select(fits.fill_null(value=True))


class SummaryQuestions(Table):
    """A closed question with its answer."""

    run_id: str = pa.Field(str_matches=UUID_PATTERN)
    query_id: str
    question_index: int = pa.Field(ge=0)
    key_phrase: str = pa.Field(nullable=True)
    question: str
    answer: str = pa.Field(isin=("0", "1"), nullable=True)
    reason: str = pa.Field(nullable=True)
    answers: str = pa.Field(str_matches=r"^[01]+$", nullable=True)

    class Config:
        """An index holds one question."""

        unique: ClassVar[list[str]] = ["run_id", "query_id", "question_index"]
