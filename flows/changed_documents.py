"""Which documents were added, removed and changed between two runs, from what the store kept."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from schemas.artifacts import Artifact
from schemas.errors import ArtifactDamagedError, RankhouseError
from schemas.home import Home

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN = 10  # documents of a kind that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChanges:
    """The documents that two runs do not share, the run's corpus against its baseline's."""

    added: tuple[str, ...] = ()  # doc_ids, sorted
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # another text, title or metadata
    unknown_because: str | None = None  # why they could not be compared

    @property
    def doc_ids(self) -> frozenset[str]:
        """All of them."""
        return frozenset((*self.added, *self.removed, *self.changed))


@dataclass(frozen=True, slots=True)
class _Documents:
    """Of one run."""

    digest: str | None
    n_documents: int
    store: str | None = field(repr=False)


def find_changed_documents(
    connection: DuckDBPyConnection, run_id: str, baseline_id: str, home: Home
) -> DocumentChanges:
    """Compare the documents of two runs; nothing is read where their digests are equal.

    Only digests of 64 bits a document are held beside one corpus at a time.
    """
    ours, theirs = (_find(connection, name) for name in (run_id, baseline_id))
    if ours is None or theirs is None:
        missing = run_id if ours is None else baseline_id
        return DocumentChanges(unknown_because=f"run {missing} has read none")
    if ours.digest == theirs.digest:
        return DocumentChanges()
    try:
        now, then = (_hashes(documents, home) for documents in (ours, theirs))
    except ArtifactDamagedError as error:
        return DocumentChanges(unknown_because=f"{error}, which held them")
    except (RankhouseError, OSError) as error:  # an object store that is away, for one
        return DocumentChanges(unknown_because=str(error))
    both = now.join(then, on="doc_id", how="inner")
    return DocumentChanges(
        added=_ids(now.join(then, on="doc_id", how="anti")),
        removed=_ids(then.join(now, on="doc_id", how="anti")),
        changed=_ids(both.filter(pl.col("content") != pl.col("content_right"))),
    )


def _find(connection: DuckDBPyConnection, run_id: str) -> _Documents | None:
    row = connection.execute(
        "SELECT stage.output_digest, run.n_documents, run.config "
        "FROM runs AS run JOIN stages AS stage ON stage.run_id = run.run_id "
        "WHERE run.run_id = ? AND stage.stage = 'load_corpus' AND stage.status = 'completed'",
        [run_id],
    ).fetchone()
    if row is None:
        return None
    store = json.loads(row[2]).get("execution", {}).get("store")
    return _Documents(row[0], row[1] or 0, store)


def _hashes(documents: _Documents, home: Home) -> pl.DataFrame:
    """(doc_id, content) of each document."""
    from tasks.artifacts import ArtifactStore

    url = documents.store or str(home.artifacts)
    store = ArtifactStore(url, scratch=home.path / "downloads")
    artifact = Artifact(
        kind="documents",
        suffix=".parquet",
        digest=documents.digest or "",
        size=0,
        n_items=documents.n_documents,
    )
    size = store.size_of(artifact.name)
    if size is None:
        name = artifact.name
        raise ArtifactDamagedError(f"artifact {name} is no longer in the store", name=name)
    frame = store.frame(artifact.model_copy(update={"size": size}))
    content = pl.struct("title", "text", "metadata").hash(seed=0)
    return frame.select("doc_id", content=content)


def _ids(frame: pl.DataFrame) -> tuple[str, ...]:
    return tuple(frame["doc_id"].sort().to_list())
