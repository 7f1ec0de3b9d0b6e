"""Stages that several runs need at once: who computes, who waits, who gets what."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import sharing
from flows.sharing import GridStoppedError, Machine, SharedStages
from schemas.artifacts import Artifact, StageOutput
from schemas.errors import ArtifactDamagedError
from tasks.artifacts import ArtifactStore
from tasks.caching import StageRun


def task_named(stage: str) -> Any:
    policy = SimpleNamespace(stage=stage, key_of=lambda inputs: f"{stage}-{inputs}")
    return SimpleNamespace(cache_policy=policy)


@dataclass
class Calls:
    """Stands in for ``run_stage``, which needs a flow: counts, and does as it is told."""

    act: Callable[[], dict[str, Artifact]] = dict
    keys: list[str] = field(default_factory=list)

    def __call__(self, task: Any, store: ArtifactStore, **inputs: Any) -> StageRun:
        key = task.cache_policy.key_of(inputs)
        self.keys.append(key)
        output = StageOutput(stage=task.cache_policy.stage, artifacts=self.act())
        now = datetime.now(UTC)
        return StageRun(output.stage, key, output, False, now, 0.1, "code", {})


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path), scratch=tmp_path)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(sharing, "run_stage", calls)
    return calls


def slowly() -> dict[str, Artifact]:
    time.sleep(0.1)
    return {}


def test_of_runs_that_need_a_stage_at_once_one_computes_it(
    calls: Calls, store: ArtifactStore
) -> None:
    calls.act = slowly
    shared = SharedStages()
    with ThreadPoolExecutor(4) as pool:
        runs = list(
            pool.map(lambda size: shared.run(task_named("chunk"), store, size=size), [1] * 4)
        )
    assert len(calls.keys) == 1
    assert sorted(run.is_shared for run in runs) == [False, True, True, True]
    assert sorted(run.is_cached for run in runs) == [False, True, True, True]


def test_a_stage_with_other_inputs_is_another_stage(calls: Calls, store: ArtifactStore) -> None:
    shared = SharedStages()
    for size in (1, 2, 1):
        shared.run(task_named("chunk"), store, size=size)
    assert len(calls.keys) == 2


def test_whoever_shares_a_stage_that_fails_gets_its_error(
    calls: Calls, store: ArtifactStore
) -> None:
    def fail() -> dict[str, Artifact]:
        raise ValueError("broken")

    calls.act = fail
    shared = SharedStages()
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            shared.run(task_named("chunk"), store)
    assert len(calls.keys) == 1


def test_a_stage_that_met_damage_or_whose_output_is_gone_runs_again(
    calls: Calls, store: ArtifactStore
) -> None:
    def meet_damage() -> dict[str, Artifact]:
        raise ArtifactDamagedError("altered", name="chunks/aa/aa.parquet")

    shared = SharedStages()
    calls.act = meet_damage
    with pytest.raises(ArtifactDamagedError):
        shared.run(task_named("embed"), store)
    gone = Artifact(kind="vectors", suffix=".npy", digest="ab" * 32, size=9, n_items=1)
    calls.act = lambda: {"vectors": gone}
    shared.run(task_named("embed"), store)
    shared.run(task_named("embed"), store)
    assert len(calls.keys) == 3


def test_after_a_stop_no_stage_starts(calls: Calls, store: ArtifactStore) -> None:
    shared = SharedStages()
    shared.stop()
    with pytest.raises(GridStoppedError):
        shared.run(task_named("chunk"), store)
    assert calls.keys == []


def test_a_measured_stage_computes_alone_and_is_not_starved() -> None:
    machine = Machine()
    at_once: list[set[str]] = []
    running: set[str] = set()
    lock = threading.Lock()

    def compute(name: str) -> None:
        stage = "retrieve" if name.startswith("measured") else "chunk_corpus"
        with machine.place_for(stage):
            with lock:
                running.add(name)
                at_once.append(set(running))
            time.sleep(0.05)
            with lock:
                running.remove(name)

    names = ["a", "b", "measured 1", "c", "measured 2", "d"]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(compute, names))
    for together in at_once:
        assert not any(name.startswith("measured") for name in together) or len(together) == 1
    assert any(len(together) > 1 for together in at_once)


def test_a_stage_that_waits_for_others_keeps_nobody_from_the_machine() -> None:
    machine = Machine()
    with machine.place_for("score_summaries"), machine.place_for("retrieve"):
        pass
