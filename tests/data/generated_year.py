"""A year of nights of two experiments, with planted events, straight into the tables.

Night 50: the first attempt failed. 90 and 91: the judge failed on half of the queries. From 120:
handbook has another model. 200: its corpus was cut for one night. From 250: another benchmark, with
a query more. 300: handbook-small crashed. 310: handbook did not start. 311: it failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from tests.data.sample_runs import digest
from warehouse.connect import create_warehouse

START = date(2025, 12, 1)
N_NIGHTS = 365
EXPERIMENTS = ("handbook", "handbook-small")
MEASURES = ("ndcg@10", "hit@5", "qa")
PRICE = 0.0015  # EUR a call


def n_queries(night: int) -> int:
    return 20 if night < 250 else 21


def model(experiment: str, night: int) -> str:
    return "model-b" if experiment == "handbook" and night >= 120 else "model-a"


def corpus(experiment: str, night: int) -> str:
    return digest("cut" if experiment == "handbook" and night == 200 else "whole")


def tags(query: int) -> list[str]:
    return ["who" if query % 2 == 0 else "when", *(["fr"] if query % 5 == 0 else [])]


def value(experiment: str, night: int, query: int, measure: str) -> float | None:
    """The value of one query; None: it failed."""
    if measure == "qa":
        return None if night in (90, 91) and query < 10 else (query * 13 + night) % 8 / 8
    found = (query * 37 + 11 * EXPERIMENTS.index(experiment)) % 101 / 101
    if model(experiment, night) == "model-b" and query % 3 == 0:
        found = min(1.0, found + 0.125)
    if experiment == "handbook" and night == 200 and query % 4 == 1:
        found = 0.0
    if measure == "hit@5":
        return float(found >= 0.3)
    return found


def attempts(experiment: str, night: int) -> list[str]:
    """The status of each attempt of a night."""
    if (experiment, night) in (("handbook-small", 300), ("handbook", 310)):
        return []
    if (experiment, night) == ("handbook", 311):
        return ["failed"]
    if (experiment, night) == ("handbook", 50):
        return ["failed", "completed"]
    return ["degraded" if night in (90, 91) else "completed"]


def run_id(experiment: str, night: int, attempt: int) -> str:
    return f"{night:08x}-0000-7000-8000-{EXPERIMENTS.index(experiment):011x}{attempt}"


def write_year(path: Path) -> None:
    """Make the warehouse file."""
    create_warehouse(path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for table, rows in (
            ("runs", list(_runs())),
            ("query_metrics", list(_values())),
            ("run_metrics", list(_means())),
            ("queries", list(_queries())),
            ("stages", list(_stages())),
            ("llm_calls", list(_calls())),
            ("events", [_crash()]),
        ):
            frame = pl.DataFrame(rows, infer_schema_length=None)
            connection.register("rows", frame.to_arrow())
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM rows")
            connection.unregister("rows")


def good_runs() -> Iterator[tuple[str, int, str]]:
    """Experiment, night and id of each run with results, in the order of their ids."""
    for night in range(N_NIGHTS):
        for experiment in EXPERIMENTS:
            for attempt, status in enumerate(attempts(experiment, night), start=1):
                if status != "failed":
                    yield experiment, night, run_id(experiment, night, attempt)


def _runs() -> Iterator[dict[str, Any]]:
    for night in range(N_NIGHTS):
        for experiment in EXPERIMENTS:
            for attempt, status in enumerate(attempts(experiment, night), start=1):
                at = datetime(2025, 12, 1, 2, attempt, tzinfo=UTC) + timedelta(days=night)
                reasons = {
                    "failed": "embed_chunks: MemoryError: 4 GB",
                    "degraded": "values failed: qa (10)",
                    "completed": None,
                }
                yield {
                    "run_id": run_id(experiment, night, attempt),
                    "experiment": experiment,
                    "attempt": attempt,
                    "logical_date": START + timedelta(days=night),
                    "status": status,
                    "status_reason": reasons[status],
                    "started_at": at,
                    "ended_at": at + timedelta(minutes=5),
                    "seconds": 300.0,
                    "config": json.dumps({"measures": ["ndcg@10", "hit@5"]}),
                    "config_digest": digest(experiment + model(experiment, night)),
                    "corpus_path": "corpus",
                    "corpus_digest": corpus(experiment, night),
                    "chunks_digest": digest(f"chunks of {corpus(experiment, night)}"),
                    "benchmark_path": "benchmark.jsonl",
                    "benchmark_digest": digest(f"benchmark {n_queries(night)}"),
                    "n_queries": n_queries(night),
                    "rankings_digest": digest(f"{experiment} {model(experiment, night)}"),
                    "labels_digest": digest("labels"),
                    "label_method": "document",
                    "depth": 10,
                    "embedding_model": model(experiment, night),
                    "models": "[]",
                    "rankhouse_version": "0.1.0",
                    "git_commit": "0" * 40,
                    "python_version": "3.11.7",
                    "libraries": "{}",
                    "machine": "{}",
                    "loaded_at": at + timedelta(minutes=6),
                }


def _values() -> Iterator[dict[str, Any]]:
    for experiment, night, run in good_runs():
        for measure in MEASURES:
            for query in range(n_queries(night)):
                found = value(experiment, night, query, measure)
                yield {
                    "run_id": run,
                    "query_id": f"q{query:02}",
                    "measure": measure,
                    "contract_version": 1,
                    "value": found,
                    "null_reason": "failed" if found is None else None,
                }


def _means() -> Iterator[dict[str, Any]]:
    for experiment, night, run in good_runs():
        for measure in MEASURES:
            n = n_queries(night)
            values = [value(experiment, night, query, measure) for query in range(n)]
            known = [found for found in values if found is not None]
            yield {
                "run_id": run,
                "measure": measure,
                "contract_version": 1,
                "mean": sum(known) / len(known),
                "n_scored": len(known),
                "n_queries": n,
                "n_lost": 0,
                "n_failed": n - len(known),
                "low": sum(known) / n,
                "high": (sum(known) + n - len(known)) / n,
                "comparability_key": digest(f"{measure} {n}")[:32],
            }


def _queries() -> Iterator[dict[str, Any]]:
    for n in (20, 21):
        for query in range(n):
            yield {
                "benchmark_digest": digest(f"benchmark {n}"),
                "query_id": f"q{query:02}",
                "text": f"Who wrote section {query}?",
                "tags": tags(query),
            }


def _stages() -> Iterator[dict[str, Any]]:
    for _, night, run in good_runs():
        for position in range(1, 6):
            yield {
                "run_id": run,
                "position": position,
                "stage": f"stage {position}",
                "status": "completed",
                "cached": night % 7 != 0 and position < 5,
                "seconds": float(position),
            }


def _calls() -> Iterator[dict[str, Any]]:
    for _, night, run in good_runs():
        for query in range(n_queries(night)):
            for purpose in ("key_phrases", "questions", "answers"):
                is_reused = purpose != "answers" and night > 0
                yield {
                    "run_id": run,
                    "call_key": digest(f"{purpose} {query} {night}"),
                    "query_id": f"q{query:02}",
                    "purpose": purpose,
                    "endpoint": "http://localhost:8000/v1",
                    "model": "judge-1",
                    "sample": "0",
                    "is_reused": is_reused,
                    "status": "answered",
                    "n_tries": 0 if is_reused else 1,
                    "prompt_tokens": 400,
                    "completion_tokens": 20,
                    "cost": PRICE,
                    "currency": "EUR",
                }


def _crash() -> dict[str, Any]:
    crashed = run_id("handbook-small", 300, 1)
    return {
        "event_id": f"crashed/{crashed}",
        "run_id": crashed,
        "kind": "crashed",
        "occurred_at": datetime(2025, 12, 1, 2, 3, tzinfo=UTC) + timedelta(days=300),
        "stage": "retrieve",
        "message": "its process ended in stage retrieve without results",
        "details": json.dumps({"experiment": "handbook-small"}),
    }
