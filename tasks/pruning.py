"""What may leave the artifact store by age and size, when nothing that is kept needs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.stage_records import StageRecord

if TYPE_CHECKING:
    from tasks.artifacts import ArtifactStore

AGE, SIZE = "age", "size"


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps artifacts: a stage that is stored, or nothing but their own youth."""

    used_at: datetime
    names: frozenset[str]
    record: StageRecord | None = None  # None: no stored stage refers to them


@dataclass(frozen=True, slots=True)
class Doomed:
    """An artifact that goes."""

    name: str
    n_bytes: int
    used_at: datetime
    because: str  # AGE or SIZE


@dataclass(frozen=True, slots=True)
class PruningPlan:
    """What goes, and what stays."""

    records: tuple[StageRecord, ...]
    artifacts: tuple[Doomed, ...]
    n_bytes_left: int

    def carry_out(self, store: ArtifactStore) -> None:
        """Delete; records first, so that none is left that names an artifact which is gone."""
        for record in self.records:
            record.path.unlink(missing_ok=True)
        for artifact in self.artifacts:
            store.forget(artifact.name)


def find_holders(
    records: Iterable[StageRecord], store: ArtifactStore, stored: Mapping[str, int]
) -> list[Holder]:
    """The stored stages with artifacts in this store, and its artifacts that no stage refers to."""
    holders: list[Holder] = []
    held: set[str] = set()
    for record in records:
        if record.output is None:
            continue
        names = frozenset(a.name for a in record.output.artifacts.values() if a.name in stored)
        if names:
            holders.append(Holder(record.used_at, names, record))
            held |= names
    now = datetime.now(UTC)
    for name in sorted(stored.keys() - held):
        age = min(store.age(name), 1e9)  # infinite where the store does not say
        holders.append(Holder(now - timedelta(seconds=age), frozenset({name})))
    return holders


def plan_pruning(
    holders: Sequence[Holder],
    stored: Mapping[str, int],
    *,
    unused_since: datetime | None,
    max_bytes: int | None,
    before: datetime,
    stage_keys: Collection[str] = (),
    digests: Collection[str] = (),
) -> PruningPlan:
    """Plan what goes: first what was not used for long, then the longest unused beyond the size.

    Args:
        holders: of ``find_holders``.
        stored: name of each artifact to its bytes.
        unused_since: what was used since stays, unless the size says otherwise; None: no age.
        max_bytes: how much may stay; None: no limit. What is needed stays beyond it.
        before: what was used since, perhaps by a run that is under way, stays whatever the limits.
        stage_keys: stages that stay.
        digests: artifacts that stay.
    """
    needed = {name for name in stored if Path(name).stem in digests}
    counts = dict.fromkeys(stored, 0)
    for holder in holders:
        for name in holder.names:
            counts[name] += 1
    records: list[StageRecord] = []
    artifacts: list[Doomed] = []
    left = sum(stored.values())
    for holder in sorted(holders, key=lambda holder: (holder.used_at, sorted(holder.names))):
        is_old = unused_since is not None and holder.used_at < unused_since
        is_kept = holder.record is not None and holder.record.key in stage_keys
        if is_kept or holder.used_at >= before or holder.names <= needed:
            continue
        if not is_old and (max_bytes is None or left <= max_bytes):
            continue
        if holder.record is not None:
            records.append(holder.record)
        for name in sorted(holder.names):
            counts[name] -= 1
            if counts[name] == 0 and name not in needed:
                because = AGE if is_old else SIZE
                artifacts.append(Doomed(name, stored[name], holder.used_at, because))
                left -= stored[name]
    return PruningPlan(tuple(records), tuple(artifacts), left)
