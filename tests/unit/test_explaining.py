"""Why two runs differ: hand-made runs, and documents in a small store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from flows.changed_documents import find_changed_documents
from flows.explaining import NOTHING, explain
from schemas.errors import UsageError
from schemas.frames import DOCUMENTS
from schemas.home import Home
from tasks.artifacts import ArtifactStore
from tests.data.sample_runs import digest
from tests.data.stored_runs import add, frames_of, run_id, store
from warehouse.rows import StageRow, stages_frame

Texts = dict[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


def stage(number: int, name: str, **fields: Any) -> StageRow:
    known = {"stage_key": f"{name}-key", "code_digest": digest(name), "output_digest": digest("x")}
    position = fields.pop("position", 1)
    return StageRow(
        run_id=run_id(number), position=position, stage=name, cached=False, **{**known, **fields}
    )


def keep(home: Home, texts: Texts) -> str:
    """Documents into the store; their digest."""
    rows = [(doc_id, None, text, "{}") for doc_id, text in texts.items()]
    frame = pl.DataFrame(rows, schema=DOCUMENTS, orient="row")
    return (
        ArtifactStore(str(home.artifacts), scratch=home.path).put_frame("documents", frame).digest
    )


def two_runs(
    ours: list[StageRow], theirs: list[StageRow], **changes: Any
) -> duckdb.DuckDBPyConnection:
    """Runs 2 (ours, with these changes of its row) and 1, with these stages."""
    frames = []
    for number, stages, more in ((1, theirs, {}), (2, ours, changes)):
        frames.append(frames_of(number, {"hit@1": [1.0, 0.0]}, rankings="r", **more))
        frames[-1]["stages"] = stages_frame(stages)
    return store(*frames)


def corpora(home: Home, ours: Texts, theirs: Texts) -> duckdb.DuckDBPyConnection:
    made = [
        [stage(number, "load_corpus", output_digest=keep(home, texts))]
        for number, texts in ((2, ours), (1, theirs))
    ]
    return two_runs(*made)


def why_lines(connection: duckdb.DuckDBPyConnection, home: Home, **options: Any) -> list[str]:
    return explain(connection, run_id(2), run_id(1), home, **options).lines


def test_equal_runs_have_nothing_to_explain(home: Home) -> None:
    connection = two_runs([stage(2, "load_corpus")], [stage(1, "load_corpus")])
    assert why_lines(connection, home) == [NOTHING]


def test_documents_are_told_apart_by_their_content(home: Home) -> None:
    connection = corpora(
        home,
        {"new": "a", "kept": "b", "edited": "now"},
        {"kept": "b", "edited": "then", "gone": "c", "gone too": "d"},
    )
    found = find_changed_documents(connection, run_id(2), run_id(1), home)
    assert (found.added, found.removed, found.changed) == (
        ("new",),
        ("gone", "gone too"),
        ("edited",),
    )
    (line, *_) = why_lines(connection, home)
    assert line == "documents: 1 added (new), 2 removed (gone, gone too), 1 changed (edited)"


def test_up_to_ten_documents_of_a_kind_are_named(home: Home) -> None:
    connection = corpora(home, {f"d{i:02}": "text" for i in range(13)}, {"d00": "text"})
    (line, *_) = why_lines(connection, home)
    assert line.startswith("documents: 12 added (d01, d02, ")
    assert line.endswith("d10 and 2 more)")


def test_a_corpus_that_is_no_longer_kept_is_said_to_be_gone(home: Home) -> None:
    connection = two_runs(
        [stage(2, "load_corpus", output_digest=keep(home, {"a": "b"}))],
        [stage(1, "load_corpus", output_digest=digest("pruned"))],
    )
    (line, *_) = why_lines(connection, home)
    assert line.startswith("documents differ, but not known in what: artifact documents/")
    assert "no longer in the store" in line


def test_lost_queries_touch_documents_of_their_truth_and_of_either_ranking(home: Home) -> None:
    # q0: its relevant document changed; q1: an added one was retrieved now; q2: one that is gone
    # was retrieved then; q3: judged, but not relevant; q4: nothing; q5: touched, but not lost.
    connection = corpora(home, {"truth": "1", "new": "2"}, {"truth": "0", "gone": "3"})
    connection.execute("DELETE FROM labels; DELETE FROM rankings")
    connection.execute("UPDATE runs SET rankings_digest = run_id")
    (labels,) = connection.execute("SELECT DISTINCT labels_digest FROM runs").fetchall()
    add(
        connection,
        "labels",
        [
            {"labels_digest": labels[0], "query_id": query, "kind": "item", "item_id": "truth"}
            | {"doc_id": doc_id, "gain": gain}
            for query, doc_id, gain in (("q0", "truth", 1), ("q3", "truth", 0), ("q5", None, 1))
        ],
    )
    add(
        connection,
        "rankings",
        [
            {"rankings_digest": run_id(number), "query_id": query, "rank": 1, "item_id": "x"}
            | {"chunk_id": chunk_id, "retrieval_score": 1.0}
            for number, query, chunk_id in (
                (2, "q1", "new#0-4"),
                (1, "q2", "gone#12-40"),
                (1, "q4", "gone#1#0-4"),  # the document "gone#1", which did not change
            )
        ],
    )
    lost = [f"q{number}" for number in range(5)]
    why = explain(connection, run_id(2), run_id(1), home, lost_query_ids=lost)
    assert (why.n_touched, why.n_lost) == (3, 5)
    assert "3 of 5 lost queries touch them" in why.lines[0]


def test_settings_models_code_and_libraries_are_said_with_both_values(home: Home) -> None:
    connection = two_runs(
        [],
        [],
        config={"name": "a", "chunking": {"size": 200}, "index": {"kind": "hnsw"}}
        | {"embedding": {"query_prompt": "Please, "}},
        models=[{"role": "embedding", "name": "minilm", "weights_digest": "b" * 64}],
        libraries={"faiss-cpu": "1.16.0"},
        git_commit="c" * 40,
        git_dirty=False,
    )
    connection.execute(
        "UPDATE runs SET config = ?, models = ? WHERE run_id = ?",
        [
            '{"name": "b", "chunking": {"size": 600}, "index": {"kind": "flat"}, '
            '"embedding": {"query_prompt": ""}, '
            '"summary": {"judge": {"model": "small"}}}',
            '[{"role": "embedding", "name": "minilm", "weights_digest": "' + "a" * 64 + '"}]',
            run_id(1),
        ],
    )
    assert [line for line in why_lines(connection, home) if "documents" not in line] == [
        f"model: embedding minilm: weights_digest {'b' * 12} / {'a' * 12}",
        "index: index.kind hnsw / flat",
        "judge: summary.judge.model – / small",
        'settings: chunking.size 200 / 600, embedding.query_prompt "Please, " / ""',
        f"code: commit {'c' * 12} / –, changes not committed false / –",
        "libraries: faiss-cpu 1.16.0 / 1.15.1",
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"inputs": {"chunks": "a", "queries": "q"}}, "label (other chunks, the same output)"),
        ({"code_digest": digest("new")}, "label (other code, the same output)"),
        (
            {"stage_key": "label-other", "output_digest": digest("y")},
            "label (other settings, model or libraries)",
        ),
        ({"output_digest": digest("y")}, "label made something else of the same"),
    ],
)
def test_a_stage_says_what_of_it_differs(home: Home, fields: dict[str, Any], said: str) -> None:
    inputs = {"chunks": "b", "queries": "q"}
    loaded = [stage(number, "load_corpus") for number in (2, 1)]
    ours = stage(2, "label", position=2, **{"inputs": inputs, **fields})
    theirs = stage(1, "label", position=2, inputs=inputs)
    connection = two_runs([loaded[0], ours], [loaded[1], theirs])
    assert why_lines(connection, home)[-1] == f"stages: {said}"


def test_a_run_that_is_not_there_is_refused(home: Home) -> None:
    connection = two_runs([], [])
    with pytest.raises(UsageError, match="is not in the warehouse"):
        explain(connection, run_id(9), run_id(1), home)
