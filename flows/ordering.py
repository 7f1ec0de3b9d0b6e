"""What an order changes in a run: documents that are given, and the rest of a night's budget."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from schemas.artifacts import StageOutput
from schemas.endpoints import Budget
from schemas.errors import StageError
from schemas.experiment import Summary
from schemas.orders import Order, StoredDocuments
from tasks.artifacts import ArtifactStore
from tasks.caching import StageRun


class RestOfNight(Budget):
    """What earlier runs of a night, or the run's own budget, leave; it may be nothing."""

    calls: int | None = None
    tokens: int | None = None
    money: float | None = None

    @property
    def label(self) -> str:
        """What it is called where it was reached."""
        return "summary.budget, or what the night left of the suite's,"


def within_night(summary: Summary, order: Order) -> Summary:
    """The section with a budget that keeps its own limits and those of the night."""
    night = order.night_budget
    if night is None:
        return summary
    own = summary.budget

    def least(name: str, spent: float, kind: Callable[[Any], Any]) -> Any:
        of_night, of_run = getattr(night, name), getattr(own, name, None)
        left = [] if of_night is None else [max(0, of_night - spent)]
        limits = left if of_run is None else [*left, of_run]
        return kind(min(limits)) if limits else None

    rest = RestOfNight(
        calls=least("calls", order.spent_calls, int),
        tokens=least("tokens", order.spent_tokens, int),
        money=least("money", order.spent_money, float),
    )
    return summary.model_copy(update={"budget": rest})


def stored_run(stored: StoredDocuments, store: ArtifactStore) -> StageRun:
    """The stage load_corpus of a past run, as this run reuses it.

    Raises:
        StageError: the documents are gone.
    """
    if not store.has(stored.documents):
        raise StageError(
            f"{stored.documents.name}: the documents of that night are no longer in the artifact "
            "store; nothing can make them again"
        )
    output = StageOutput(
        stage="load_corpus",
        artifacts={"documents": stored.documents},
        figures={"n_documents": stored.documents.n_items},
    )
    return StageRun(
        stage="load_corpus",
        key=stored.stage_key,
        output=output,
        is_cached=True,
        started_at=datetime.now(UTC),
        seconds=0.0,
        code_digest=stored.code_digest,
        inputs={},
    )
