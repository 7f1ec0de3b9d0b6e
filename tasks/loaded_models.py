"""Models that stay loaded while several runs of one process use them, one run at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

Model = TypeVar("Model")

MOST_LOADED = 2  # the least lately used goes first


@dataclass(slots=True)
class _Loaded:
    models: dict[Hashable, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


_LOADED: ContextVar[_Loaded | None] = ContextVar("loaded_models", default=None)
"""Of whoever has entered ``keeping_models``, and the threads that it gave its context to."""


@contextmanager
def keeping_models() -> Iterator[None]:
    """Keep what is loaded within the block, for whoever needs it again there."""
    token = _LOADED.set(_Loaded())
    try:
        yield
    finally:
        _LOADED.reset(token)


@contextmanager
def model_in_turn(key: Hashable, load: Callable[[], Model]) -> Iterator[Model]:
    """A loaded model, for this thread alone.

    A model library uses all cores by itself, and its settings are those of the whole process: two
    threads gain nothing from computing at once, and would disturb each other.

    Args:
        key: what decides that two models are the same.
        load: loads it; called only when it is not kept.
    """
    loaded = _LOADED.get()
    with nullcontext() if loaded is None else loaded.lock:
        model: Model
        if loaded is None:
            model = load()
        else:
            model = loaded.models.pop(key) if key in loaded.models else load()
            loaded.models[key] = model
            while len(loaded.models) > MOST_LOADED:
                del loaded.models[next(iter(loaded.models))]
        yield model
