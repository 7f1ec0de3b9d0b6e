"""What the strict models and the rules between frames let through, and what they refuse."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from schemas.measures import MEASURE_PATTERN, Measure
from schemas.tables import MODELS
from tests.data.sample_runs import digest, sample_run
from warehouse import comparison_rows, rows
from warehouse.spool import new_run_id
from warehouse.validate import check_table, find_refusals

RUN_ID = "01980000-0000-7000-8000-000000000001"


def set_cell(frame: pl.DataFrame, column: str, value: Any, row: int = 0) -> pl.DataFrame:
    cells = frame[column].to_list()
    cells[row] = value
    return frame.with_columns(pl.Series(column, cells, dtype=frame.schema[column]))


def refusals_of(table: str, column: str, value: Any, row: int = 0) -> list[str]:
    frame = set_cell(sample_run(RUN_ID)[table], column, value, row)
    return [f"{refusal.rule} row {refusal.row}" for refusal in check_table(table, frame)]


def test_a_whole_run_passes() -> None:
    assert find_refusals(sample_run(RUN_ID), run_id=RUN_ID) == []


def test_a_failed_run_passes_with_its_stages_alone() -> None:
    whole = sample_run(RUN_ID, status="failed", status_reason="embed: out of memory")
    assert find_refusals({n: whole[n] for n in ("runs", "stages")}, run_id=RUN_ID) == []


@pytest.mark.parametrize(
    ("table", "column", "value", "rule"),
    [
        ("query_metrics", "value", 1.5, "value_within_its_contract"),
        ("query_metrics", "value", -0.1, "value_within_its_contract"),
        ("query_metrics", "value", math.nan, "floats_are_finite"),
        ("query_metrics", "value", math.inf, "floats_are_finite"),
        ("query_metrics", "value", None, "exactly_one_of_value_and_reason"),
        ("query_metrics", "null_reason", "failed", "exactly_one_of_value_and_reason"),
        ("query_metrics", "null_reason", "because", "isin"),
        ("query_metrics", "measure", "nope@3", "value_within_its_contract"),
        ("query_metrics", "measure", "ndcg@010", "value_within_its_contract"),
        ("query_metrics", "measure", "ndcg 10", "str_matches"),
        ("query_metrics", "query_id", None, "not_nullable"),
        ("query_metrics", "contract_version", 99, "value_within_its_contract"),
        ("query_metrics", "query_id", "q00001", "one_value_of_a_measure_for_a_query"),
        ("run_metrics", "mean", None, "mean_when_something_was_scored"),
        ("run_metrics", "mean", 1.0 + 1e-9, "means_within_their_contract"),
        ("run_metrics", "low", 0.9999, "bounds_enclose_the_mean"),
        ("run_metrics", "n_failed", 1, "counts_add_up"),
        ("run_metrics", "n_lost", 6, "counts_add_up"),
        ("runs", "status", "fine", "isin"),
        ("runs", "status", "degraded", "reason_unless_completed"),
        ("runs", "run_id", "42", "str_matches"),
        ("runs", "config", "{", "str_matches"),
        ("runs", "config", '{"a": NaN}', "json_parses"),
        ("runs", "rankings_digest", None, "digests_unless_failed"),
        ("runs", "ended_at", datetime(2020, 1, 1, tzinfo=UTC), "ends_after_it_started"),
        ("runs", "seconds", math.nan, "floats_are_finite"),
        ("stages", "status", "failed", "message_when_failed"),
        ("rankings", "rank", 2, "ranks_count_from_one"),
        ("rankings", "rank", 0, "greater_than_or_equal_to"),
        ("rankings", "retrieval_score", -1.0, "scores_never_rise"),
        ("labels", "kind", "chunk", "isin"),
        ("queries", "text", "", "str_length"),
        ("queries", "filter", "[1]", "str_matches"),
        ("queries", "filter", '{"year": NaN}', "json_parses"),
        ("measures", "formula", "", "str_length"),
    ],
)
def test_a_bad_cell_is_refused_by_name(table: str, column: str, value: Any, rule: str) -> None:
    assert any(found.startswith(rule) for found in refusals_of(table, column, value))


def test_a_refusal_names_the_row() -> None:
    assert refusals_of("query_metrics", "value", 1.5, row=7) == ["value_within_its_contract row 7"]


@pytest.mark.parametrize("table", list(MODELS))
def test_a_column_more_or_less_is_refused(table: str) -> None:
    frame = sample_run(RUN_ID).get(table)
    if frame is None:
        frame = pl.DataFrame(schema={n: pl.String for n in MODELS[table].to_schema().columns})
    assert check_table(table, frame.with_columns(extra=pl.lit(1)))
    assert check_table(table, frame.drop(frame.columns[-1]))


def test_other_types_are_refused_and_never_cast() -> None:
    frame = sample_run(RUN_ID)["query_metrics"]
    assert check_table("query_metrics", frame.with_columns(pl.col("value").cast(pl.Float32)))
    assert check_table("query_metrics", frame.with_columns(pl.col("query_id").cast(pl.Binary)))


@pytest.mark.parametrize(
    ("queries", "ranks", "scores", "is_fine"),
    [
        ("aabb", [1, 2, 1, 2], [0.9, 0.8, 0.9, 0.9], True),
        ("abab", [1, 1, 2, 2], [0.9, 0.9, 0.8, 0.8], True),  # not in order, but sound
        ("aaaa", [2, 1, 3, 4], [0.8, 0.9, 0.7, 0.7], True),
        ("aabb", [1, 2, 1, 3], [0.9, 0.8, 0.9, 0.8], False),
        ("aaba", [1, 2, 1, 1], [0.9, 0.8, 0.9, 0.9], False),  # one query, in two places
        ("aabb", [1, 2, 0, 1], [0.9, 0.8, 0.9, 0.8], False),
        ("aabb", [1, 2, 1, 2], [0.8, 0.9, 0.9, 0.8], False),
        ("abab", [1, 1, 2, 2], [0.8, 0.9, 0.9, 0.8], False),
        ("a", [1], [0.5], True),
        ("", [], [], True),
    ],
)
def test_ranks_and_scores_are_judged_alike_in_any_order_of_rows(
    queries: str, ranks: list[int], scores: list[float], is_fine: bool
) -> None:
    n_rows = len(ranks)
    items = [f"d{i}" for i in range(n_rows)]
    frame = pl.DataFrame(
        {
            "rankings_digest": ["f" * 64] * n_rows,
            "query_id": list(queries),
            "rank": ranks,
            "item_id": items,
            "chunk_id": items,
            "retrieval_score": scores,
        },
        schema=sample_run(RUN_ID)["rankings"].schema,
    )
    assert (check_table("rankings", frame) == []) is is_fine


def test_an_unbounded_measure_has_no_largest_value() -> None:
    assert Measure.parse("dcg@10").contract.highest is None
    frame = sample_run(RUN_ID)["query_metrics"].filter(pl.col("measure") == "ndcg@10")
    frame = frame.with_columns(measure=pl.lit("dcg@10"))
    assert check_table("query_metrics", set_cell(frame, "value", 1e9)) == []
    assert check_table("query_metrics", set_cell(frame, "value", -1.0))


def test_the_environment_cannot_switch_validation_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from pandera.config import CONFIG

    monkeypatch.setattr(CONFIG, "validation_enabled", False)
    assert refusals_of("query_metrics", "value", 1.5) == ["value_within_its_contract row 0"]


@pytest.mark.parametrize("name", ["rbp(p=0.8)", "evidence_recall@2000chars", "bpref", "qa"])
def test_every_way_of_writing_a_measure_fits_the_pattern(name: str) -> None:
    import re

    assert re.search(MEASURE_PATTERN, str(Measure.parse(name)))
    assert check_table("measures", rows.measures_frame([name])) == []


def with_frame(name: str, frame: pl.DataFrame) -> list[str]:
    frames = {**sample_run(RUN_ID), name: frame}
    return [str(refusal) for refusal in find_refusals(frames, run_id=RUN_ID)]


def test_a_value_for_a_query_that_the_benchmark_lacks_is_refused() -> None:
    queries = sample_run(RUN_ID)["queries"].filter(pl.col("query_id") != "q00003")
    found = with_frame("queries", queries)
    assert {line.split(":")[0] for line in found} == {
        "rankings.query_id",
        "labels.query_id",
        "query_metrics.query_id",
    }
    assert all(line.endswith("is not in queries: q00003") for line in found)


def test_values_without_a_mean_and_means_without_values_are_refused() -> None:
    sample = sample_run(RUN_ID)
    lost_mean = with_frame(
        "run_metrics", sample["run_metrics"].filter(pl.col("measure") != "hit@1")
    )
    assert lost_mean == ["query_metrics.measure, contract_version: is not in run_metrics: hit@1, 1"]
    values = sample["query_metrics"].filter(pl.col("measure") != "hit@1")
    assert with_frame("query_metrics", values) == [
        "run_metrics.measure, contract_version: is not in query_metrics: hit@1, 1"
    ]


def test_a_mean_of_other_values_is_refused() -> None:
    frame = sample_run(RUN_ID)["run_metrics"]
    moved = set_cell(frame, "mean", frame["mean"][0] + 1e-6)
    moved = set_cell(moved, "high", 1.0)
    (line,) = with_frame("run_metrics", moved)
    assert "differ from those of query_metrics" in line


def test_rows_of_another_run_are_refused() -> None:
    other = sample_run("01980000-0000-7000-8000-000000000002")["stages"]
    (line,) = with_frame("stages", other)
    assert "rows of another run" in line


def test_rankings_of_another_digest_are_refused() -> None:
    frame = sample_run(RUN_ID)["rankings"].with_columns(rankings_digest=pl.lit(digest("other")))
    (line,) = with_frame("rankings", frame)
    assert "differs from runs.rankings_digest" in line


def test_a_completed_run_without_its_labels_is_refused() -> None:
    frames = sample_run(RUN_ID)
    del frames["labels"]
    (refusal,) = find_refusals(frames, run_id=RUN_ID)
    assert str(refusal).startswith("labels: runs.labels_digest is given")


def test_a_table_that_does_not_exist_is_refused() -> None:
    (line,) = with_frame("surprises", pl.DataFrame({"a": [1]}))
    assert "no such table" in line


@pytest.mark.parametrize(
    ("table", "schema"),
    [
        ("runs", rows.RUNS),
        ("stages", rows.STAGES),
        ("events", rows.EVENTS),
        ("measures", rows.MEASURES),
        ("baselines", comparison_rows.BASELINES),
    ],
)
def test_rows_and_models_agree_on_columns_and_types(table: str, schema: pl.Schema) -> None:
    columns = MODELS[table].to_schema().columns
    assert {name: column.dtype.type for name, column in columns.items()} == dict(schema)


def test_figures_that_are_not_finite_become_null_in_json() -> None:
    row = rows.StageRow(
        run_id=RUN_ID, position=1, stage="s", cached=False, figures={"p95": math.nan, "n": [1]}
    )
    assert rows.stages_frame([row])["figures"].to_list() == ['{"n": [1], "p95": null}']


def test_credentials_inside_a_url_never_reach_a_row() -> None:
    config = {"execution": {"store": "s3://AKIA:hunter2@bucket/x"}, "list": ["http://u:p@h/v1"]}
    frame = sample_run(RUN_ID, config=config, corpus_path="s3://key:secret@bucket/corpus")["runs"]
    stored = json.loads(frame["config"][0])
    assert stored == {"execution": {"store": "s3://bucket/x"}, "list": ["http://h/v1"]}
    assert frame["corpus_path"][0] == "s3://bucket/corpus"
    plain = sample_run(RUN_ID, corpus_path="a@b/c@d")["runs"]["corpus_path"][0]
    assert plain == "a@b/c@d"


def test_run_ids_are_uuid7_and_sort_by_time() -> None:
    import time
    import uuid

    made = []
    for _ in range(5):
        made.append(new_run_id())
        time.sleep(0.002)
    assert made == sorted(made)
    assert {(uuid.UUID(run_id).version, uuid.UUID(run_id).variant) for run_id in made} == {
        (7, uuid.RFC_4122)
    }
    assert abs(int(made[0].replace("-", "")[:12], 16) / 1000 - time.time()) < 60
