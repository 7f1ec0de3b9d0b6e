"""What may leave the artifact store: by age, by size, and never what is needed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from schemas.artifacts import Artifact, StageOutput
from tasks.pruning import Holder, plan_pruning
from tasks.stage_records import StageRecord

NOW = datetime(2026, 11, 30, tzinfo=UTC)
SIZES = {"a/00/a.npy": 100, "b/00/b.npy": 40, "c/00/c.npy": 10, "d/00/d.npy": 7}
A, B, C, D = SIZES


def held(days: int, *names: str, key: str = "stage-1") -> Holder:
    """A stored stage that was used so many days ago."""
    used_at = NOW - timedelta(days=days)
    artifacts = {
        name: Artifact(kind=name[0], suffix=".npy", digest=name[5], size=SIZES[name], n_items=1)
        for name in names
    }
    output = StageOutput(stage="stage", artifacts=artifacts)
    return Holder(used_at, frozenset(names), StageRecord(key, Path(key), used_at, output))


HOLDERS = [
    held(90, A, key="old"),
    held(60, B, C, key="middle"),
    held(0, C, key="new"),
    Holder(NOW - timedelta(days=70), frozenset({D})),  # no stage refers to it
]


def gone(**limits: object) -> dict[str, str]:
    options = {"unused_since": None, "max_bytes": None, "before": NOW - timedelta(hours=1)}
    plan = plan_pruning(HOLDERS, SIZES, **{**options, **limits})  # type: ignore[arg-type]
    assert plan.n_bytes_left == sum(SIZES.values()) - sum(item.n_bytes for item in plan.artifacts)
    return {item.name: item.because for item in plan.artifacts}


def test_without_limits_nothing_goes() -> None:
    assert gone() == {}


def test_what_was_not_used_goes_and_what_a_newer_stage_shares_stays() -> None:
    assert gone(unused_since=NOW - timedelta(days=30)) == {A: "age", B: "age", D: "age"}
    assert gone(unused_since=NOW - timedelta(days=80)) == {A: "age"}


def test_beyond_the_size_the_longest_unused_goes_first_and_no_more_than_must() -> None:
    assert gone(max_bytes=60) == {A: "size"}
    assert gone(max_bytes=50) == {A: "size", D: "size"}
    assert gone(max_bytes=49) == {A: "size", D: "size", B: "size"}
    # C alone was used within the hour, perhaps by a run under way: it stays beyond the limit.
    assert gone(max_bytes=0) == {A: "size", D: "size", B: "size"}


def test_what_kept_runs_need_stays_beyond_age_and_size() -> None:
    limits = {"unused_since": NOW, "max_bytes": 0}
    assert gone(**limits, digests={"a"}) == {B: "age", D: "age"}
    assert gone(**limits, stage_keys={"middle"}) == {A: "age", D: "age"}
    assert gone(**limits, digests={"a", "d"}, stage_keys={"middle"}) == {}


def test_a_stage_is_forgotten_only_with_something_that_it_holds() -> None:
    plan = plan_pruning(
        HOLDERS, SIZES, unused_since=NOW, max_bytes=None, before=NOW, digests={"a", "b"}
    )
    # "old" holds only what stays, so it stays reusable; "middle" holds c, which "new" has too.
    assert [record.key for record in plan.records] == ["middle"]
    assert [item.name for item in plan.artifacts] == [D]
