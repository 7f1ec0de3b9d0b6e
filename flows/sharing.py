"""Stages that several runs of one process need are computed once, and handed to all of them.

The runs of a grid go on side by side in threads. The first that needs a stage, known by its key,
computes it; the others wait for that and get what it made, or the error that it ended with.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from schemas.errors import ArtifactDamagedError
from tasks.artifacts import ArtifactStore
from tasks.caching import StageRun, run_stage

MEASURED = frozenset({"build_index", "index_terms", "retrieve", "retrieve_terms", "fuse", "rerank"})
"""Stages whose times and latencies are results: no other stage computes beside them."""

WAITING = frozenset(
    {"retrieve_elsewhere", "write_responses", "build_question_bank", "score_summaries"}
)
"""Stages that wait for somebody else most of the time: they keep nobody from the machine."""


class GridStoppedError(Exception):
    """The grid was interrupted; no further stage starts."""


@dataclass(slots=True)
class SharedStages:
    """The stages that the runs of a grid have asked for so far, by key."""

    machine: Machine = field(default_factory=lambda: Machine())
    _futures: dict[str, Future[StageRun]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Let no further stage start; those that run cannot be stopped."""
        self._stopped.set()

    def refuse_when_stopped(self) -> None:
        """Raise GridStoppedError when the grid was interrupted."""
        if self._stopped.is_set():
            raise GridStoppedError

    def run(self, task: Any, store: ArtifactStore, **inputs: Any) -> StageRun:
        """Run a stage as ``run_stage`` does, or wait for the run that is at it already.

        Returns:
            The stage's run; ``is_shared`` when another run made or looked it up.

        Raises:
            Exception: whatever the stage raised, for every run that shares it.
            GridStoppedError: the grid was interrupted.
        """
        self.refuse_when_stopped()
        future, is_first = self._claim(task.cache_policy.key_of(inputs), store)
        if not is_first:
            return _handed_on(future)
        try:
            with self.machine.place_for(task.cache_policy.stage):
                run = run_stage(task, store, **inputs)
        except BaseException as error:
            future.set_exception(error)
            raise
        future.set_result(run)
        return run

    def _claim(self, key: str, store: ArtifactStore) -> tuple[Future[StageRun], bool]:
        """The future of a stage, and whether the caller has to fulfil it."""
        with self._lock:
            future = self._futures.get(key)
            if future is not None and not _is_spent(future, store):
                return future, False
            future = self._futures[key] = Future()
            return future, True


def _is_spent(future: Future[StageRun], store: ArtifactStore) -> bool:
    """Whether a stage has to run again: what it read or made was damaged or is gone."""
    if not future.done():
        return False
    error = future.exception()
    if error is not None:
        return isinstance(error, ArtifactDamagedError)
    return not all(store.has(artifact) for artifact in future.result().output.artifacts.values())


def _handed_on(future: Future[StageRun]) -> StageRun:
    started_at, started = datetime.now(UTC), time.perf_counter()
    run = future.result()
    seconds = time.perf_counter() - started
    return replace(run, is_cached=True, is_shared=True, started_at=started_at, seconds=seconds)


class Machine:
    """Who computes now: one stage whose time is a result, or any number of others.

    A stage that is measured waits until those that compute have ended, and goes before those that
    come later, so that it does not wait for ever.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._n_computing = 0
        self._n_measured_waiting = 0
        self._is_measuring = False

    @contextmanager
    def place_for(self, stage: str) -> Iterator[None]:
        """Hold the machine as a stage of this name needs it."""
        if stage in WAITING:
            yield
        elif stage in MEASURED:
            with self._alone():
                yield
        else:
            with self._beside_others():
                yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._changed:
            self._n_measured_waiting += 1
            try:
                self._changed.wait_for(lambda: not (self._is_measuring or self._n_computing))
            finally:
                self._n_measured_waiting -= 1
            self._is_measuring = True
        try:
            yield
        finally:
            with self._changed:
                self._is_measuring = False
                self._changed.notify_all()

    @contextmanager
    def _beside_others(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not (self._is_measuring or self._n_measured_waiting))
            self._n_computing += 1
        try:
            yield
        finally:
            with self._changed:
                self._n_computing -= 1
                self._changed.notify_all()
