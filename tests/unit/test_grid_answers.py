"""What a grid answers, over a warehouse whose every value is chosen here."""

from __future__ import annotations

from typing import Any

import pytest

from flows.grid_answers import GridAnswer, answer_of
from tests.data.stored_runs import frames_of, store
from warehouse.grid_runs import read_grid_runs

GRID = "01980000-0000-7000-8000-00000000abcd"
GOOD, BAD = [1.0] * 12, [0.0] * 12
FAIR = [1.0] * 10 + [0.0] * 2


def run(number: int, name: str, values: list[Any], *, size: int = 100, **more: Any) -> Any:
    split = more.pop("split", None)
    config = {
        "name": name,
        "chunking": {"size": size},
        "benchmark": {"path": "b.jsonl", "split": split},
        "measures": ["hit@1"],
    }
    return frames_of(
        number,
        {"hit@1": values},
        key=f"{more.pop('key', 'key')} {split}",
        experiment=name,
        grid_id=GRID,
        config=config,
        **more,
    )


def answer(*runs: Any) -> GridAnswer:
    connection = store(*runs)
    return answer_of(connection, GRID, read_grid_runs(connection, GRID), "hit@1")


def standings(found: GridAnswer) -> dict[str, str | None]:
    return {each.experiment: found.standing(each)[0] for each in found.runs}


def test_the_set_holds_what_cannot_be_told_from_the_best() -> None:
    found = answer(run(1, "bad", BAD), run(2, "good", GOOD), run(3, "fair", FAIR))
    assert standings(found) == {"bad": "worse", "good": "in set", "fair": "in set"}
    (choices,) = found.choices
    assert [each.experiment for each in choices.members] == ["good", "fair"]


def test_a_run_that_beats_all_others_is_the_best() -> None:
    found = answer(run(1, "bad", BAD), run(2, "good", GOOD))
    assert standings(found) == {"bad": "worse", "good": "best"}


def test_runs_whose_values_mean_different_things_are_not_compared() -> None:
    found = answer(
        run(1, "small", BAD, key="small"),
        run(2, "large", GOOD, key="large"),
        run(3, "large too", GOOD, key="large"),
    )
    assert [len(choices.runs) for choices in found.choices] == [2, 1]  # in order of names
    assert standings(found)["large"] == "in set"
    assert standings(found)["small"] == "in set"


def test_a_run_that_failed_or_scored_too_little_takes_no_part() -> None:
    failed = run(1, "failed", GOOD, status="failed", status_reason="embed_chunks: no disk")
    gaps = run(2, "gaps", [*GOOD[:11], "failed"])
    found = answer(failed, gaps, run(3, "fair", FAIR))
    assert standings(found) == {"failed": None, "gaps": None, "fair": "in set"}
    assert sorted(found.untested.values()) == [
        "1 of 12 values of hit@1 failed, more than 5%",
        "failed: embed_chunks: no disk",
    ]


def test_the_choice_is_made_on_dev_and_the_figures_are_of_test() -> None:
    found = answer(
        run(1, "a on dev", GOOD, size=1, split="dev"),
        run(2, "a on test", BAD, size=1, split="test"),
        run(3, "b on dev", BAD, size=2, split="dev"),
        run(4, "b on test", GOOD, size=2, split="test"),
    )
    assert found.is_split
    assert standings(found) == {"a on test": "best", "b on test": "worse"}
    assert [each.means["hit@1"].mean for each in found.runs] == [0.0, 1.0]


def test_without_a_partner_for_each_run_the_splits_are_answered_apart() -> None:
    found = answer(
        run(1, "a on dev", GOOD, size=1, split="dev"), run(2, "b", GOOD, size=2, split="test")
    )
    assert not found.is_split
    assert len(found.choices) == 2


def stages(number: int, *rows: dict[str, Any]) -> Any:
    """Frames of stages with these figures."""
    from tests.data.stored_runs import run_id
    from warehouse.rows import StageRow, stages_frame

    return stages_frame(
        [
            StageRow(
                run_id=run_id(number),
                position=position,
                stage=row.pop("stage"),
                cached=row.pop("cached", False),
                figures=row,
            )
            for position, row in enumerate(rows, start=1)
        ]
    )


def test_figures_are_what_a_run_spent_and_what_its_stages_took_whoever_made_them() -> None:
    frames = run(1, "a", GOOD)
    frames["stages"] = stages(
        1,
        {"stage": "embed_chunks", "cached": True, "n_encoded": 90, "seconds_when_made": 9.0},
        {"stage": "embed_queries", "n_encoded": 7, "seconds_when_made": 1.0},
        {"stage": "build_index", "n_bytes": 1000, "build_seconds": 0.5, "seconds_when_made": 2.0},
        {"stage": "index_terms", "n_bytes": 500, "seconds_when_made": 3.0},
        {"stage": "retrieve", "latency_p50_ms": 1.5, "latency_p95_ms": 2.5},
        {"stage": "rerank", "latency_p50_ms": 11.5, "latency_p95_ms": 12.5},
    )
    connection = store(frames)
    (read,) = read_grid_runs(connection, GRID)
    assert read.figures["texts_embedded"] == 7
    assert read.figures["index_bytes"] == 1500
    assert read.figures["build_seconds"] == pytest.approx(0.5 + 3.0)
    assert read.figures["seconds_to_make"] == pytest.approx(15.0)
    assert (read.figures["latency_p50_ms"], read.figures["latency_p95_ms"]) == (11.5, 12.5)
    assert read.figures["cost"] is None


def test_the_cheapest_counts_money_before_time_and_the_fastest_the_median_query() -> None:
    runs = []
    for number, (name, cost, seconds, p50) in enumerate(
        [("dear", 2.0, 1.0, 1.0), ("cheap", 0.5, 9.0, 3.0), ("cheap and slow", 0.5, 10.0, 2.0)],
        start=1,
    ):
        frames = run(number, name, GOOD)
        embedding = {"stage": "embed_chunks", "tokens": 100, "cost": cost, "currency": "EUR"}
        frames["stages"] = stages(
            number,
            {**embedding, "cached": number == 2, "seconds_when_made": seconds},
            {"stage": "retrieve", "latency_p50_ms": p50, "latency_p95_ms": p50},
        )
        runs.append(frames)
    (choices,) = answer(*runs).choices
    assert choices.cheapest.experiment == "cheap"
    assert choices.fastest is not None
    assert choices.fastest.experiment == "dear"
    assert choices.cheapest.figures["cost"] == 0  # it paid nothing, and would have paid 0.5
    assert choices.cheapest.figures["tokens"] == 0
