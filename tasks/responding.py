"""The summary of each query: the benchmark's response, else a generated one."""

from __future__ import annotations

import polars as pl

from schemas.endpoints import Endpoint
from schemas.errors import StageError
from schemas.experiment import Summary
from schemas.frames import SUMMARY_RESPONSES
from tasks.excerpting import ExtractiveGenerator
from tasks.gathering import gather_contexts, retrieved_contexts
from tasks.judging import Failure, Generator
from tasks.llm_judging import CompleterOf
from tasks.llm_writing import LLMGenerator, fit_contexts
from tasks.prompting import load_prompts


def make_generator(config: Summary, completer_of: CompleterOf | None = None) -> Generator:
    """The generator that the configuration names.

    Args:
        config: the section.
        completer_of: what asks an endpoint; only an LLM needs it.

    Raises:
        StageError: the generator is an LLM, and there is nothing to ask it with.
    """
    if not isinstance(config.generator, Endpoint):
        return ExtractiveGenerator(max_characters=config.max_characters)
    if completer_of is None:
        raise StageError(f"summary.generator is {config.generator_name}: ask with a desk (desk_of)")
    return LLMGenerator(
        completer_of(config.generator),
        load_prompts(config.prompts),
        max_characters=config.max_characters,
    )


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
    contexts, cuts = _within_budget(found["contexts"].to_list(), config)
    outcomes = generator.summarize(bare["text"].to_list(), contexts)
    generated = dict(zip(bare["query_id"], outcomes, strict=True))
    n_cut = dict(zip(bare["query_id"], cuts, strict=True))
    rows: list[tuple[object, ...]] = []
    for query_id, response in asked.select("query_id", "response").iter_rows():
        source = generator.name if query_id in generated else "benchmark"
        outcome, cut = generated.get(query_id, response), n_cut.get(query_id)
        if isinstance(outcome, str) and not outcome.strip():
            blank = Failure("empty_response", f"the response ({source}) is blank")
            rows.append((query_id, outcome, source, blank.status, blank.message, cut))
        elif isinstance(outcome, Failure):
            rows.append((query_id, None, source, outcome.status, outcome.message, cut))
        else:
            rows.append((query_id, outcome, source, None, None, cut))
    return pl.DataFrame(rows, schema=SUMMARY_RESPONSES, orient="row")


def _within_budget(
    contexts: list[list[str]], config: Summary
) -> tuple[list[list[str]], list[int | None]]:
    """The contexts that a generator is given, and how many characters were left out."""
    if not isinstance(config.generator, Endpoint):
        return contexts, [0] * len(contexts)
    fitted = [fit_contexts(given, config.max_context_tokens) for given in contexts]
    return [kept for kept, _ in fitted], [n_cut for _, n_cut in fitted]
