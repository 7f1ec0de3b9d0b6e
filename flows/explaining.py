"""Why a run and its baseline differ: what each rests on that the other does not, in words."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flows.canary_moves import CanaryMove, find_canary_move
from flows.changed_documents import SHOWN, DocumentChanges, find_changed_documents
from schemas.counting import counted
from schemas.home import Home
from warehouse.anchors import Move, find_moves
from warehouse.changes import Change, RunChanges, StageChange, count_touched, find_changes

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from warehouse.comparisons import Comparison

NONE = "–"
DIGITS = 12  # of a digest or commit
LENGTH = 60  # characters of a value
NOTHING = "nothing differs: the same documents, settings, models, code and libraries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What differs between a run and one run of its baseline."""

    run_id: str
    baseline_run_id: str
    changes: RunChanges
    documents: DocumentChanges
    canaries: CanaryMove | None = None  # None: they did not move, or are not known
    judge: Move | None = None
    n_lost: int = 0  # queries that lost
    n_touched: int = 0  # of these, with a document of ``documents`` in their truth or rankings

    @property
    def alarms(self) -> list[str]:
        """What changed under its name."""
        canaries, judge = self.canaries, self.judge
        found = [] if canaries is None or canaries.unknown_because else [str(canaries)]
        return found if judge is None else [*found, str(judge)]

    @property
    def lines(self) -> list[str]:
        """In words, what is most telling first; one line where nothing differs."""
        changes = self.changes
        found = [
            *self.alarms,
            *([str(self.canaries)] if self.canaries and self.canaries.unknown_because else []),
            *_document_lines(self),
            *(f"model: {_model(change)}" for change in changes.models),
            *_setting_lines(changes.settings),
            *_benchmark_lines(changes.benchmark),
            *_code_lines(changes),
            *_listed("libraries", changes.libraries),
            *_stage_lines(changes.stages),
        ]
        return found or [NOTHING]

    def to_json(self) -> dict[str, Any]:
        """Everything, with at most ``SHOWN`` documents of a kind."""
        documents: dict[str, Any] = {
            "n_lost_queries": self.n_lost,
            "n_lost_queries_touched": self.n_touched,
            "unknown_because": self.documents.unknown_because,
        }
        for kind in ("added", "removed", "changed"):
            doc_ids = getattr(self.documents, kind)
            documents |= {f"n_{kind}": len(doc_ids), kind: list(doc_ids[:SHOWN])}
        return {
            "run_id": self.run_id,
            "baseline_run_id": self.baseline_run_id,
            "lines": self.lines,
            "documents": documents,
            "canaries": self.canaries and dataclasses.asdict(self.canaries),
            "judge": self.judge and dataclasses.asdict(self.judge),
            **dataclasses.asdict(self.changes),
        }


def explain(
    connection: DuckDBPyConnection,
    run_id: str,
    baseline_id: str,
    home: Home,
    *,
    lost_query_ids: Sequence[str] = (),
) -> Why:
    """Find what differs between two runs.

    Args:
        connection: the warehouse, or its copy.
        run_id: the run.
        baseline_id: what it is compared with.
        home: whose artifact store has the documents of both.
        lost_query_ids: of their comparison.

    Raises:
        UsageError: a run that is not there.
    """
    changes = find_changes(connection, run_id, baseline_id)
    documents = find_changed_documents(connection, run_id, baseline_id, home)
    canaries = find_canary_move(connection, run_id, baseline_id, home)
    n_touched = 0
    if lost_query_ids and documents.doc_ids:
        runs = (run_id, baseline_id)
        n_touched = count_touched(connection, runs, lost_query_ids, documents.doc_ids)
    return Why(
        run_id=run_id,
        baseline_run_id=baseline_id,
        changes=changes,
        documents=documents,
        canaries=canaries,
        judge=find_moves(connection, run_id, [baseline_id]).get(baseline_id),
        n_lost=len(lost_query_ids),
        n_touched=n_touched,
    )


def explain_comparison(
    connection: DuckDBPyConnection, comparison: Comparison, home: Home
) -> Why | None:
    """Why, of a comparison and the newest run of its baseline; None: it has no baseline."""
    if not comparison.baseline.run_ids:
        return None
    return explain(
        connection,
        comparison.run_id,
        max(comparison.baseline.run_ids),
        home,
        lost_query_ids=comparison.lost_query_ids,
    )


def _document_lines(why: Why) -> Iterator[str]:
    documents = why.documents
    if documents.unknown_because:
        yield f"documents differ, but not known in what: {documents.unknown_because}"
        return
    kinds = [
        f"{len(doc_ids)} {kind} ({_named(doc_ids)})"
        for kind in ("added", "removed", "changed")
        if (doc_ids := getattr(documents, kind))
    ]
    if kinds:
        touched = ""
        if why.n_lost:
            touched = f"; {why.n_touched} of {counted(why.n_lost, 'lost query')} touch them"
        yield f"documents: {', '.join(kinds)}{touched}"


def _named(doc_ids: Sequence[str]) -> str:
    more = f" and {len(doc_ids) - SHOWN} more" if doc_ids[SHOWN:] else ""
    return ", ".join(doc_ids[:SHOWN]) + more


def _setting_lines(settings: Sequence[Change]) -> Iterator[str]:
    """The judge and the index on lines of their own, which people ask for first."""
    groups: dict[str, list[Change]] = {}
    for change in settings:
        section = change.name.partition(".")[0]
        group = "judge" if change.name.startswith("summary.") else "index"
        groups.setdefault(group if section in ("summary", "index") else "settings", []).append(
            change
        )
    for name in ("index", "judge", "settings"):
        yield from _listed(name, groups.get(name, ()))


def _listed(name: str, changes: Sequence[Change]) -> Iterator[str]:
    if changes:
        yield f"{name}: {', '.join(_two_values(change) for change in changes)}"


def _two_values(change: Change) -> str:
    """``chunking.size 200 / 600``: the run's value first."""
    return f"{change.name} {_shown(change.value)} / {_shown(change.baseline_value)}"


def _shown(value: Any) -> str:
    if value is None:
        return NONE
    is_plain = isinstance(value, str) and value != "" and value == value.strip()
    text = value if is_plain else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"


def _model(change: Change) -> str:
    """``embedding minilm: weights_digest 1f… / 2c…``: only what differs, after the name."""
    ours, theirs = change.value, change.baseline_value
    if ours is None or theirs is None:
        return f"{change.name} {_name_of(ours)} / {_name_of(theirs)}"
    differing = [
        f"{name} {_shown(ours.get(name))[:DIGITS]} / {_shown(theirs.get(name))[:DIGITS]}"
        for name in dict.fromkeys([*ours, *theirs])
        if name != "name" and ours.get(name) != theirs.get(name)
    ]
    name = _name_of(ours)
    if ours.get("name") != theirs.get("name"):
        name += f" / {_name_of(theirs)}"
    return f"{change.name} {name}" + (f": {', '.join(differing)}" if differing else "")


def _name_of(model: Any) -> str:
    return NONE if model is None else str(model.get("name", NONE))


def _benchmark_lines(benchmark: Change | None) -> Iterator[str]:
    if benchmark is not None:
        ours, theirs = (str(value or NONE) for value in (benchmark.value, benchmark.baseline_value))
        yield f"benchmark: another one, {ours[:DIGITS]} / {theirs[:DIGITS]}"


def _code_lines(changes: RunChanges) -> Iterator[str]:
    names = {
        "rankhouse_version": "version",
        "git_commit": "commit",
        "git_dirty": "changes not committed",
    }
    words = []
    for change in changes.code:
        ours, theirs = change.value, change.baseline_value
        if change.name == "git_commit":
            ours, theirs = (None if value is None else value[:DIGITS] for value in (ours, theirs))
        words.append(_two_values(Change(names[change.name], ours, theirs)))
    stages = [change.stage for change in changes.stages if change.has_other_code]
    if stages:
        words.append(f"of the stages {', '.join(stages)}")
    if words:
        yield f"code: {', '.join(words)}"


def _stage_lines(stages: Sequence[StageChange]) -> Iterator[str]:
    words = [text for change in stages if (text := _stage(change))]
    if words:
        yield f"stages: {'; '.join(words)}"


def _stage(change: StageChange) -> str:
    if change.only_in is not None:
        return f"{change.stage} only in the {change.only_in}"
    if change.is_unexplained:
        return f"{change.stage} made something else of the same"
    reasons = []
    if change.inputs:
        reasons.append(f"other {' and '.join(change.inputs)}")
    if change.has_other_code:
        reasons.append("other code")
    if change.has_other_key:
        reasons.append("other settings, model or libraries")
    if not change.has_other_output:
        reasons.append("the same output")
    return f"{change.stage} ({', '.join(reasons)})"
