"""The gate before the warehouse: each frame against its model, then against the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

TOLERANCE = 1e-9  # between a stored mean and the mean of the stored values
MOST_REASONS = 100  # kept for each rule that is broken

Frames = Mapping[str, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a frame cannot be stored; ``row`` counts from 0, None: not about one row."""

    table: str
    rule: str
    column: str | None
    row: int | None
    value: str

    def __str__(self) -> str:
        where = self.table if self.column is None else f"{self.table}.{self.column}"
        at = "" if self.row is None else f", row {self.row}"
        return f"{where}{at}: {self.rule}: {self.value}"


def find_refusals(frames: Frames, *, run_id: str) -> list[Refusal]:
    """Check the frames of one run; empty: they may be stored.

    References are only looked at when every frame fits its own model.
    """
    refusals = _unknown_tables(frames)
    for name, frame in frames.items():
        refusals += check_table(name, frame)
    for rule in _RULES:
        if refusals:
            break
        refusals = rule(frames, run_id)
    return refusals


def find_refusals_of_values(frames: Frames) -> list[Refusal]:
    """Check values of past runs: each run's apart, against each other and their means."""
    refusals = _unknown_tables(frames)
    for name, frame in frames.items():
        refusals += check_table(name, frame)
    if refusals:
        return refusals
    for (run_id,), values in frames["query_metrics"].group_by("run_id"):
        means = frames["run_metrics"].filter(pl.col("run_id") == run_id)
        part = {"query_metrics": values, "run_metrics": means, "measures": frames["measures"]}
        refusals += _references_hold(part, str(run_id), _VALUE_REFERENCES)
        refusals += _means_are_of_their_values(part, str(run_id))
    return refusals


def check_table(name: str, frame: pl.DataFrame) -> list[Refusal]:
    """Check one frame against its table's strict model."""
    import pandera.errors
    from pandera.config import ValidationDepth, config_context

    from schemas.tables import MODELS

    if name not in MODELS:
        return []
    try:
        # PANDERA_VALIDATION_ENABLED=False in somebody's environment must not open the gate.
        with config_context(
            validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA
        ):
            MODELS[name].validate(frame, lazy=True)
    except pandera.errors.SchemaErrors as error:
        return _reasons(name, error.failure_cases)
    return []


def _reasons(name: str, cases: pl.DataFrame) -> list[Refusal]:
    kept = cases.group_by("check", "column", maintain_order=True).head(MOST_REASONS)
    return [
        Refusal(
            table=name,
            rule=str(case["check"]),
            column=None if case["schema_context"] == "DataFrameSchema" else case["column"],
            row=case["index"],
            value=str(case["failure_case"])[:500],
        )
        for case in kept.iter_rows(named=True)
    ]


def _unknown_tables(frames: Frames) -> list[Refusal]:
    from schemas.tables import MODELS

    return [
        Refusal(name, f"no such table; known: {', '.join(MODELS)}", None, None, name)
        for name in frames
        if name not in MODELS
    ]


def _one_run(frames: Frames, run_id: str) -> list[Refusal]:
    runs = frames.get("runs")
    found = [] if runs is None else runs["run_id"].to_list()
    if found != [run_id]:
        return [Refusal("runs", "exactly one row, of this run", "run_id", None, str(found))]
    return [
        Refusal(name, f"rows of another run than {run_id}", "run_id", None, str(strange[0]))
        for name, frame in frames.items()
        if "run_id" in frame.columns
        and (strange := frame["run_id"].filter(frame["run_id"] != run_id).to_list())
    ]


def _digests_match(frames: Frames, run_id: str) -> list[Refusal]:
    """What is stored once per digest belongs to the digest that the run names."""
    refusals = []
    run = frames["runs"].row(0, named=True)
    for name, column in (
        ("queries", "benchmark_digest"),
        ("rankings", "rankings_digest"),
        ("labels", "labels_digest"),
    ):
        frame = frames.get(name)
        if frame is None:
            if run[column] is not None and run["status"] != "failed":
                rule = f"runs.{column} is given, so the frame must be there"
                refusals.append(Refusal(name, rule, None, None, run[column]))
            continue
        strange = frame[column].filter(frame[column].ne_missing(run[column])).unique().to_list()
        if strange:
            rule = f"differs from runs.{column} {run[column]}"
            refusals.append(Refusal(name, rule, column, None, str(strange[0])))
    return refusals


_VALUE_REFERENCES = (
    ("query_metrics", "run_metrics", ["measure", "contract_version"]),
    ("run_metrics", "query_metrics", ["measure", "contract_version"]),
    ("run_metrics", "measures", ["measure", "contract_version"]),
)
_REFERENCES = (
    ("rankings", "queries", ["query_id"]),
    ("labels", "queries", ["query_id"]),
    ("query_metrics", "queries", ["query_id"]),
    ("summary_scores", "queries", ["query_id"]),
    ("summary_questions", "summary_scores", ["query_id"]),
    *_VALUE_REFERENCES,
)


def _references_hold(
    frames: Frames,
    run_id: str,
    references: tuple[tuple[str, str, list[str]], ...] = _REFERENCES,
) -> list[Refusal]:
    """Every query, measure and score that a row names is there."""
    refusals = []
    for name, target, columns in references:
        frame = frames.get(name)
        if frame is None or frame.is_empty():
            continue
        named, known = frame.select(columns), frames.get(target)
        missing = named if known is None else named.join(known, on=columns, how="anti")
        for row in missing.unique(maintain_order=True).head(MOST_REASONS).rows():
            value = ", ".join(map(str, row))
            refusals.append(Refusal(name, f"is not in {target}", ", ".join(columns), None, value))
    return refusals


def _means_are_of_their_values(frames: Frames, run_id: str) -> list[Refusal]:
    """Counts and mean of run_metrics are those of query_metrics."""
    values, means = frames.get("query_metrics"), frames.get("run_metrics")
    if values is None or means is None:
        return []
    from_values = values.group_by("measure", "contract_version").agg(
        pl.col("value").mean().alias("mean_of_values"),
        pl.col("value").count().cast(pl.Int64).alias("scored_values"),
        (pl.col("null_reason") == "failed").sum().cast(pl.Int64).alias("failed_values"),
        pl.len().cast(pl.Int64).alias("n_values"),
    )
    gap = (pl.col("mean") - pl.col("mean_of_values")).abs()
    allowed = TOLERANCE * pl.max_horizontal(pl.lit(1.0), pl.col("mean").abs())
    wrong = means.join(from_values, on=["measure", "contract_version"]).filter(
        (pl.col("n_scored") != pl.col("scored_values"))
        | (pl.col("n_failed") != pl.col("failed_values"))
        | (pl.col("n_queries") != pl.col("n_values"))
        | (gap > allowed).fill_null(value=False)
    )
    columns = ["mean", "n_scored", "n_failed", "n_queries"]
    others = ["mean_of_values", "scored_values", "failed_values", "n_values"]
    rule = f"{', '.join(columns)} differ from those of query_metrics"
    return [
        Refusal(
            "run_metrics",
            rule,
            None,
            None,
            f"{row['measure']}: {[row[name] for name in columns]}, "
            f"expected {[row[name] for name in others]}",
        )
        for row in wrong.iter_rows(named=True)
    ]


_RULES: tuple[Callable[[Frames, str], list[Refusal]], ...] = (
    _one_run,
    _digests_match,
    _references_hold,
    _means_are_of_their_values,
)
