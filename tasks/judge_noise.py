"""How much a judge differs from itself: the same summaries judged again, under other samples."""

from __future__ import annotations

import math

import polars as pl

from schemas.experiment import Summary


def qa_by_repeat(questions: pl.DataFrame) -> pl.DataFrame:
    """(query_id, repeat, qa): the share of "1" among the answers of each repeat.

    Args:
        questions: SUMMARY_QUESTIONS, whose ``answers`` hold a character a repeat.
    """
    answered = questions.drop_nulls("answers").select("query_id", "answers")
    return (
        answered.with_columns(value=pl.col("answers").str.split(""))
        .with_columns(repeat=pl.int_ranges(pl.col("value").list.len()))
        .explode("value", "repeat")
        .group_by("query_id", "repeat", maintain_order=True)
        .agg(qa=(pl.col("value") == "1").mean())
    )


def noise_of(by_repeat: pl.DataFrame, config: Summary) -> dict[str, float]:
    """Standard deviation, per query, of judging one summary again; by measure.

    The mean over the queries of the variance of their repeats (n - 1 in the denominator), and its
    root. A score that is itself the mean of ``repeats`` has a variance that much smaller.

    Args:
        by_repeat: of ``qa_by_repeat``.
        config: how qa is weighed, and how often a summary is judged anyway.

    Returns:
        ``qa`` and ``summary_score``; empty where no query was judged at least twice.
    """
    variances = by_repeat.group_by("query_id").agg(pl.col("qa").var(ddof=1))["qa"].drop_nulls()
    if variances.is_empty():
        return {}
    deviation = math.sqrt(float(variances.sum()) / len(variances) / config.repeats)
    weight = 1 - config.coeff if config.length_penalty else 1.0
    return {"qa": deviation, "summary_score": deviation * weight}
