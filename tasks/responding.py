"""The summary of each query: the benchmark's response, else a generated one."""

from __future__ import annotations

import polars as pl

from schemas.errors import StageError
from schemas.experiment import Summary
from schemas.frames import SUMMARY_RESPONSES
from tasks.excerpting import ExtractiveGenerator
from tasks.gathering import gather_contexts, retrieved_contexts
from tasks.judging import Failure, Generator


def make_generator(config: Summary) -> Generator:
    """The generator that the configuration names."""
    if config.generator != "extractive":
        raise StageError(
            f"summary.generator is {config.generator!r}; this version knows 'extractive'"
        )
    return ExtractiveGenerator(max_characters=config.max_characters)


def summarize_queries(
    queries: pl.DataFrame,
    rankings: pl.DataFrame,
    chunks: pl.DataFrame,
    config: Summary,
    generator: Generator | None = None,
) -> pl.DataFrame:
    """The summary of every judged query: the benchmark's response, else a generated one.

    Args:
        queries: QUERIES.
        rankings: RANKINGS; the generator reads the first ``n_contexts`` chunks, whatever
            contexts the summary is judged by.
        chunks: CHUNKS.
        config: names the generator.
        generator: instead of the one that the configuration names.

    Returns:
        ``SUMMARY_RESPONSES``, a row for each row of ``gather_contexts``.
    """
    generator = generator or make_generator(config)
    judged = gather_contexts(queries, rankings, chunks, config).select("query_id")
    asked = judged.join(queries, on="query_id", maintain_order="left")
    bare = asked.filter(pl.col("response").is_null())
    found = retrieved_contexts(bare, rankings, chunks, n_contexts=config.n_contexts)
    outcomes = generator.summarize(bare["text"].to_list(), found["contexts"].to_list())
    generated = dict(zip(bare["query_id"], outcomes, strict=True))
    rows: list[tuple[str | None, ...]] = []
    for query_id, response in asked.select("query_id", "response").iter_rows():
        source = generator.name if query_id in generated else "benchmark"
        outcome = generated.get(query_id, response)
        if isinstance(outcome, str) and not outcome.strip():
            failure = Failure("empty_response", f"the response ({source}) is blank")
            rows.append((query_id, outcome, source, failure.status, failure.message))
        elif isinstance(outcome, Failure):
            rows.append((query_id, None, source, outcome.status, outcome.message))
        else:
            rows.append((query_id, outcome, source, None, None))
    return pl.DataFrame(rows, schema=SUMMARY_RESPONSES, orient="row")
