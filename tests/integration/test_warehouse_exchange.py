"""Runs go out as TREC, Parquet, ragas rows and sheets, and TREC comes in, to the last digit."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
import pytrec_eval
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flows.cli import command, run
from flows.run_imports import import_trec
from flows.scoring_files import score_files
from schemas.frames import CHUNKS, LABELS
from schemas.home import Home
from schemas.measures import Measure
from tasks.scoring import average_metrics, score_rankings
from tasks.trec_ids import decode_id, encode_id
from tasks.trec_scoring import TrecOptions
from tasks.truth import count_truth
from tests.data.sample_runs import digest, sample_run
from warehouse.load import load_parts
from warehouse.rows import labels_frame, query_metrics_frame, run_metrics_frame
from warehouse.spool import Spool

IDS = [f"01980000-0000-7000-8000-00000000000{i}" for i in range(10)]
MEASURES = ("ndcg@10", "ap@10", "rr@10", "precision@5", "recall@10")
ORACLE = {
    "ndcg@10": "ndcg_cut_10",
    "ap@10": "map_cut_10",
    "precision@5": "P_5",
    "recall@10": "recall_10",
}
Rankhouse = Callable[..., tuple[int, str, str]]


def hostile_run() -> dict[str, pl.DataFrame]:
    """Ids with blanks and %, a tie, lost ground truth, a query that is not scored."""
    frames = sample_run(IDS[0], n_queries=8, measures=MEASURES, is_real=True)
    rename = {f"d{i}": f"d {i}%" for i in range(0, 30, 2)} | {"d1": "é\u00a0x"}
    queries = frames["queries"].with_columns(
        pl.col("query_id").replace({"q00003": "q 3"}),
        *(
            pl.when(pl.col("query_id") == "q00007").then(None).otherwise(name).alias(name)
            for name in ("qrels", "spans")
        ),
    )
    ranked = frames["rankings"].with_columns(
        pl.col("query_id").replace({"q00003": "q 3"}),
        pl.col("item_id", "chunk_id").replace(rename),
        # the second and third item of each query have one score
        retrieval_score=pl.when(pl.col("rank") == 3)
        .then(pl.col("retrieval_score").shift(1))
        .otherwise("retrieval_score"),
    )
    order = ["query_id", "retrieval_score", "item_id"]
    ranked = ranked.sort(order, descending=[False, True, True]).with_columns(
        rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query_id")
    )
    lost = pl.DataFrame(
        [("q00002", "lost", "lost/gone.md", "gone.md", None, None, 2)], schema=LABELS, orient="row"
    )
    labels = pl.concat(
        [
            frames["labels"]
            .drop("labels_digest")
            .filter(pl.col("query_id") != "q00007")
            .with_columns(
                pl.col("query_id").replace({"q00003": "q 3"}),
                pl.col("item_id", "doc_id").replace(rename),
            ),
            lost,
        ]
    )
    has_field = queries.select("query_id", has_field=pl.col("qrels").is_not_null())
    truth = count_truth(labels, has_field, 1)
    values = score_rankings(
        ranked.drop("rankings_digest"),
        labels,
        truth,
        pl.DataFrame(schema=CHUNKS),
        queries.drop("benchmark_digest"),
        measures=[Measure.parse(name) for name in MEASURES],
        label_method="document",
        min_coverage=0.5,
        level=1,
        depth=10,
    )
    means = average_metrics(values, truth)
    keys = {measure: digest(measure) for measure in MEASURES}
    return {
        **frames,
        "queries": queries,
        "rankings": ranked,
        "labels": labels_frame(labels, labels_digest=frames["runs"]["labels_digest"][0]),
        "query_metrics": query_metrics_frame(values, run_id=IDS[0]),
        "run_metrics": run_metrics_frame(means, run_id=IDS[0], comparability_keys=keys),
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("template") / "home").prepare()
    with Spool(home).start(IDS[0], experiment="hand book") as started:
        started.finish(hostile_run())
    load_parts(home)
    return home


@pytest.fixture
def home(template: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "home")
    shutil.copytree(template.path, home.path)
    monkeypatch.setenv("RANKHOUSE_HOME", str(home.path))
    return home


@pytest.fixture
def rankhouse(capsys: pytest.CaptureFixture[str]) -> Rankhouse:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(lambda: command.main(list(arguments), standalone_mode=False))
        return (code, *capsys.readouterr())

    return call


def query(home: Home, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(home.published), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def stored_means(home: Home, run_id: str) -> dict[str, float]:
    return dict(query(home, f"SELECT measure, mean FROM run_metrics WHERE run_id = '{run_id}'"))


def exported(rankhouse: Rankhouse, folder: Path, kind: str) -> str:
    code, out, err = rankhouse("export", "latest", "--format", kind, "--into", str(folder))
    assert (code, out) == (0, "")
    return err


def test_trec_eval_prints_the_means_that_are_stored(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    told = exported(rankhouse, tmp_path / "trec", "trec")
    assert "for lost ground truth: 1 judged item lost/…" in told
    assert "queries that are not scored, left out of the qrels: 1" in told
    assert "tied items" not in told  # encoding moved nobody here
    with (tmp_path / "trec" / f"{IDS[0]}.qrels").open() as file:
        qrels = pytrec_eval.parse_qrel(file)
    with (tmp_path / "trec" / f"{IDS[0]}.run").open() as file:
        ranked = pytrec_eval.parse_run(file)
    assert qrels["q00002"]["lost/gone.md"] == 2
    assert "q%203" in qrels
    scores = pytrec_eval.RelevanceEvaluator(qrels, set(ORACLE.values())).evaluate(ranked)
    means = stored_means(home, IDS[0])
    for measure, name in ORACLE.items():
        ours = sum(values[name] for values in scores.values()) / len(scores)
        assert means[measure] == pytest.approx(ours, abs=1e-12)
    code, out, _ = rankhouse(
        "trec",
        *(str(tmp_path / "trec" / f"{IDS[0]}.{kind}") for kind in ("qrels", "run")),
        *(word for measure in MEASURES for word in ("-m", measure)),
        "--format",
        "json",
    )
    assert code == 0
    assert json.loads(out)["measures"] == pytest.approx(means, abs=0)


def test_what_goes_out_as_trec_comes_back_with_every_value(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    exported(rankhouse, tmp_path / "trec", "trec")
    files = [str(tmp_path / "trec" / f"{IDS[0]}.{kind}") for kind in ("run", "qrels")]
    wanted = [word for measure in MEASURES for word in ("-m", measure)]
    code, out, err = rankhouse("import", *files, "--experiment", "again", *wanted)
    assert code == 0
    assert "1 query is not in the qrels" in err
    again = out.strip()
    assert stored_means(home, again) == stored_means(home, IDS[0])
    for run_id in (again, IDS[0]):
        rows = query(
            home,
            "SELECT query_id, measure, value FROM query_metrics "
            f"WHERE run_id = '{run_id}' AND value IS NOT NULL ORDER BY ALL",
        )
        assert len(rows) == 7 * len(MEASURES)
        assert ("q 3", "ap@10") in {row[:2] for row in rows}
    values = [
        query(
            home,
            "SELECT query_id, measure, value FROM query_metrics "
            f"WHERE run_id = '{run_id}' AND value IS NOT NULL ORDER BY ALL",
        )
        for run_id in (again, IDS[0])
    ]
    assert values[0] == values[1]
    assert query(home, f"SELECT DISTINCT n_lost FROM run_metrics WHERE run_id = '{again}'") == [
        (1,)
    ]
    assert rankhouse("warehouse", "verify")[0] == 0
    assert rankhouse("recompute", "--measure", "ndcg@3")[0] == 0
    twice = rankhouse("import", *files, "--experiment", "twice", *wanted)[1].strip()
    keys = query(
        home,
        "SELECT count(DISTINCT comparability_key) FROM run_metrics "
        f"WHERE run_id IN ('{again}', '{twice}') AND measure = 'ndcg@10'",
    )
    assert keys == [(1,)]  # two imports with one qrels file may be compared


def test_an_order_that_encoding_changes_is_said(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    # "a b" < "a!" bytewise, but "a%20b" > "a!"
    assert "a b" < "a!" < encode_id("a b")
    frames = sample_run(IDS[1], n_queries=1, depth=2, measures=["hit@1"], is_real=True)
    tied = frames["rankings"].with_columns(
        item_id=pl.Series(["a!", "a b"]), retrieval_score=pl.lit(0.5)
    )
    with Spool(home).start(IDS[1], experiment="tied") as started:
        started.finish({**frames, "rankings": tied})
    load_parts(home)
    told = exported(rankhouse, tmp_path / "trec", "trec")
    assert "1 query has tied items whose order differs" in told


def test_parquet_holds_every_table_of_the_run(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    exported(rankhouse, tmp_path / "p", "parquet")
    frames = hostile_run()
    for name in ("query_metrics", "rankings", "labels", "run_metrics", "stages", "queries"):
        assert pl.read_parquet(tmp_path / "p" / f"{name}.parquet").height == frames[name].height
    assert pl.read_parquet(tmp_path / "p" / "runs.parquet")["run_id"].to_list() == [IDS[0]]


def test_a_sheet_has_a_query_a_row_and_defused_cells(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    frames = sample_run(IDS[1], n_queries=2, measures=["hit@1"], is_real=True)
    queries = frames["queries"].with_columns(text=pl.lit("=HYPERLINK(1)"))
    with Spool(home).start(IDS[1], experiment="sheet") as started:
        digest_of_it = "f" * 64
        started.finish(
            {
                **frames,
                "runs": frames["runs"].with_columns(benchmark_digest=pl.lit(digest_of_it)),
                "queries": queries.with_columns(benchmark_digest=pl.lit(digest_of_it)),
            }
        )
    load_parts(home)
    exported(rankhouse, tmp_path, "csv")
    rows = list(csv.DictReader((tmp_path / f"{IDS[1]}.csv").open()))
    assert [row["text"] for row in rows] == ["'=HYPERLINK(1)"] * 2
    assert [float(row["hit@1"]) for row in rows] == frames["query_metrics"]["value"].to_list()


def test_ragas_rows_bring_the_texts_that_were_retrieved(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    frames = sample_run(
        IDS[1], n_queries=2, depth=3, measures=["hit@1"], is_real=True, chunks_digest=digest("c")
    )
    chunk_ids = frames["rankings"]["chunk_id"].unique().to_list()
    folder = home.artifacts / "chunks" / digest("c")[:2]
    folder.mkdir(parents=True)
    pl.DataFrame(
        {
            "chunk_id": chunk_ids,
            "doc_id": chunk_ids,
            "start": 0,
            "end": 4,
            "text": [f"text of {chunk_id}" for chunk_id in chunk_ids],
            "title": pl.Series([None] * len(chunk_ids), dtype=pl.String),
        }
    ).write_parquet(folder / f"{digest('c')}.parquet")
    with Spool(home).start(IDS[1], experiment="ragas") as started:
        started.finish(frames)
    load_parts(home)
    exported(rankhouse, tmp_path, "ragas")
    lines = (tmp_path / f"{IDS[1]}.ragas.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    ranked = frames["rankings"].filter(pl.col("query_id") == "q00000").sort("rank")
    assert first["user_input"] == "What is q00000?"
    assert first["retrieved_contexts"] == [f"text of {c}" for c in ranked["chunk_id"]]
    shutil.rmtree(home.artifacts)
    code, _, err = rankhouse("export", "latest", "--format", "ragas", "--into", str(tmp_path / "x"))
    assert code == 2
    assert "are not in the artifact store any more" in err


def test_an_export_never_replaces_a_file(home: Home, rankhouse: Rankhouse, tmp_path: Path) -> None:
    for kind in ("trec", "csv", "parquet"):
        exported(rankhouse, tmp_path / kind, kind)
        before = {path: path.read_bytes() for path in (tmp_path / kind).iterdir()}
        code, _, err = rankhouse(
            "export", "latest", "--format", kind, "--into", str(tmp_path / kind)
        )
        assert code == 2
        assert "there is such a file already" in err
        assert {path: path.read_bytes() for path in (tmp_path / kind).iterdir()} == before


@pytest.mark.parametrize(
    ("run_text", "qrels_text", "message"),
    [
        ("q1 Q0 d1 1 0.5 x\n", None, "qrels"),
        ("q1 Q0 d1 1 abc x\n", "q1 0 d1 1\n", "a number"),
        ("q1 Q0 d1 1 0.5\n", "q1 0 d1 1\n", "fields"),
        ("", "q1 0 d1 1\n", "the file is empty"),
        ("q1 Q0 d1 1 1 x\nq1 Q0 d2 1 inf x\n", "q1 0 d1 1\n", "x.run:2: the score is infinite"),
        (
            "q1 Q0 d1 1 0.5 x\nq1 Q0 d2 2 0.4 x\nq1 Q0 d1 3 0.3 x\n",
            "q1 0 d1 1\n",
            "x.run:3: document 'd1' stands more than once for query 'q1', first on line 1",
        ),
        (
            "q1 Q0 d1 1 0.5 x\nq1 Q0 d\udcff 2 0.4 x\n",
            "q1 0 d1 1\n",
            "x.run:2: the document id d\\xff is not UTF-8",
        ),
        (
            "q1 Q0 d1 1 0.5 x\n",
            "q1 0 d1 1\nq\udce9 0 d1 1\n",
            "x.qrels:2: the query id q\\xe9 is not UTF-8",
        ),
        (
            "q1 Q0 a 1 0.5 x\nq1 Q0 d%C2%A0 2 0.4 x\n",
            "q1 0 z 1\nq1 0 d\u00a0 1\n",
            "x.run:2: the document ids 'd%C2%A0' and 'd\\xa0'",
        ),
        (
            "q1 Q0 a 1 0.5 x\n",
            "q1 0 z 1\nq%C2%850 0 d 1\nq\u00850 0 d 1\n",
            "x.qrels:3: the query ids 'q\\x850' and 'q%C2%850'",
        ),
        ("q7 Q0 d1 1 0.5 x\n", "q1 0 d1 1\n", "none of its queries"),
        ("q1 0 d1 1\n", "q1 Q0 d1 1 0.5 x\n", "the order of the files is RUN_FILE QRELS"),
    ],
)
def test_bad_files_are_refused_and_nothing_is_stored(
    home: Home,
    rankhouse: Rankhouse,
    tmp_path: Path,
    run_text: str,
    qrels_text: str | None,
    message: str,
) -> None:
    (tmp_path / "x.run").write_text(run_text, errors="surrogateescape")
    if qrels_text is not None:
        (tmp_path / "x.qrels").write_text(qrels_text, errors="surrogateescape")
    code, _, err = rankhouse("import", str(tmp_path / "x.run"), str(tmp_path / "x.qrels"))
    assert code == 2
    assert message in err
    assert list(home.spool.iterdir()) == []
    assert query(home, "SELECT count(*) FROM runs") == [(1,)]


ANY_MEASURE = ("recall@1400", "ap@1400", "bpref", "r_precision", "rbp", "ndcg@3", "rr@2")


def write_trec(
    folder: Path, run: Iterable[tuple[str, str, float]], qrels: Iterable[tuple[str, str, int]]
) -> list[str]:
    """The two files, in the order of import."""
    paths = [folder / "x.run", folder / "x.qrels"]
    paths[0].write_text("".join(f"{q} Q0 {d} 0 {score!r} t\n" for q, d, score in run))
    paths[1].write_text("".join(f"{q} 0 {d} {grade}\n" for q, d, grade in qrels))
    return [str(path) for path in paths]


def means_of_trec(
    run: str, qrels: str, measures: Sequence[str] = ANY_MEASURE, level: int = 1
) -> dict[str, float | None]:
    scored = score_files(
        qrels, [run], measures, TrecOptions(level), is_complete=True, reports_ties=False
    )
    return dict(zip(map(str, scored.measures), scored.runs[0].means, strict=True))


def test_a_run_of_1400_items_a_query_is_scored_whole(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    files = write_trec(
        tmp_path,
        [("q1", f"d{i}", 5000.0 - i) for i in range(1400)] + [("q2", "d1", 1.0)],
        [("q1", f"d{i}", 1 - i % 3 % 2) for i in range(0, 1400, 7)] + [("q2", "d1", 1)],
    )
    wanted = [word for measure in ANY_MEASURE for word in ("-m", measure)]
    code, out, err = rankhouse("import", *files, *wanted)
    assert code == 0
    run_id = out.strip()
    assert stored_means(home, run_id) == {
        str(Measure.parse(name)): mean for name, mean in means_of_trec(*files).items()
    }
    assert stored_means(home, run_id)["recall@1400"] == 1.0
    assert query(home, f"SELECT depth FROM runs WHERE run_id = '{run_id}'") == [(1400,)]
    assert "left out" not in err


def test_a_depth_cuts_is_recorded_and_is_said(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    files = write_trec(
        tmp_path,
        [("q1", f"d{i}", 50.0 - i) for i in range(30)] + [("q2", "d1", 1.0)],
        [("q1", "d9", 1), ("q1", "d10", 1), ("q2", "d1", 1)],
    )
    words = ["import", *files, "--depth", "10"]
    code, out, err = rankhouse(*words, "-m", "recall@10", "-m", "rbp")
    assert code == 0
    assert "--depth 10: 20 items of 1 query left out" in err
    assert query(home, f"SELECT depth FROM runs WHERE run_id = '{out.strip()}'") == [(10,)]
    assert stored_means(home, out.strip())["recall@10"] == (0.5 + 1) / 2
    code, out, err = rankhouse(*words, "-m", "recall@11")
    assert (code, out) == (2, "")
    assert "the cutoff is beyond" in err


def test_the_stored_depth_is_the_deepest_ranking_not_the_largest_cutoff(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    files = write_trec(tmp_path, [("q", "a", 2.0), ("q", "b", 1.0)], [("q", "b", 1)])
    run_id = rankhouse("import", *files)[1].strip()
    assert query(home, f"SELECT depth FROM runs WHERE run_id = '{run_id}'") == [(2,)]
    assert stored_means(home, run_id)["recall@100"] == 1.0


def test_real_documents_called_lost_are_found(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    files = write_trec(
        tmp_path, [("q", "lost/a", 2.0), ("q", "x", 1.0)], [("q", "lost/a", 1), ("q", "lost/b", 1)]
    )
    run_id = rankhouse("import", *files, "-m", "recall@5")[1].strip()
    assert stored_means(home, run_id) == {"recall@5": 0.5}
    assert query(home, "SELECT item_id FROM labels WHERE kind = 'lost' AND query_id = 'q'") == [
        ("lost/b",)
    ]


def test_measures_keep_their_order_and_the_first_is_the_primary_one(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    files = write_trec(tmp_path, [("q", "a", 1.0)], [("q", "a", 1)])
    wanted = ["rr@5", "ap@5", "ndcg@5", "ap@5"]
    run_id = rankhouse("import", *files, *(w for name in wanted for w in ("-m", name)))[1].strip()
    rows = query(home, f"SELECT config -> '$.measures' FROM runs WHERE run_id = '{run_id}'")
    assert json.loads(rows[0][0]) == ["rr@5", "ap@5", "ndcg@5"]
    assert list(stored_means(home, run_id)) == ["rr@5", "ap@5", "ndcg@5"]
    shown = json.loads(rankhouse("runs", "--format", "json")[1])
    assert [row["measures"] for row in shown if row["run_id"] == run_id] == [
        "rr@5 1.0000  ap@5 1.0000  ndcg@5 1.0000"
    ]


def test_queries_with_nothing_relevant_at_the_level_are_said(
    home: Home, rankhouse: Rankhouse, tmp_path: Path
) -> None:
    files = write_trec(tmp_path, [("q", "a", 1.0), ("r", "a", 1.0)], [("q", "a", 1), ("r", "a", 5)])
    for level, told in ((1, ""), (5, "1 query has"), (6, "2 queries have")):
        code, _, err = rankhouse("import", *files, "--level", str(level))
        assert code == 0
        assert (f"{told} nothing relevant at level {level}: not scored" in err) == bool(told)


def test_a_run_without_chunks_is_told_so(home: Home, rankhouse: Rankhouse, tmp_path: Path) -> None:
    files = write_trec(tmp_path, [("q", "a", 1.0)], [("q", "a", 1)])
    run_id = rankhouse("import", *files)[1].strip()
    into = str(tmp_path / "out")
    code, _, err = rankhouse("export", run_id, "--format", "ragas", "--into", into)
    assert code == 2
    assert f"run {run_id} has no chunks" in err


IDS_AS_WRITTEN = ("lost/a", "lost/b", "a", "%61", "a%20b", "a!", "é", "%2562", "%ff", "z")
QUERIES_AS_WRITTEN = ("q", "lost/q", "q%20", "%71")


@settings(max_examples=60, deadline=None)
@given(
    run=st.dictionaries(
        st.tuples(st.sampled_from(QUERIES_AS_WRITTEN), st.sampled_from(IDS_AS_WRITTEN)),
        st.sampled_from([0.0, -0.0, 5e-324, -1.5, 0.1, 3.0]),
        min_size=1,
    ),
    qrels=st.dictionaries(
        st.tuples(st.sampled_from(QUERIES_AS_WRITTEN), st.sampled_from(IDS_AS_WRITTEN)),
        st.integers(-1, 3),
        min_size=1,
    ),
    level=st.integers(1, 2),
)
def test_an_import_has_the_means_of_trec_over_the_queries_that_can_be_scored(
    tmp_path_factory: pytest.TempPathFactory,
    run: dict[tuple[str, str], float],
    qrels: dict[tuple[str, str], int],
    level: int,
) -> None:
    scorable = {query for (query, _), grade in qrels.items() if grade >= level}
    assume(scorable & {query for query, _ in run})
    folder = tmp_path_factory.mktemp("property")
    files = write_trec(
        folder,
        [(*pair, score) for pair, score in run.items()],
        [(*pair, grade) for pair, grade in qrels.items()],
    )
    imported = import_trec(
        *map(Path, files),
        run_id=IDS[5],
        name="x",
        measures=[Measure.parse(name) for name in ANY_MEASURE],
        logical_date=date(2026, 11, 29),
        level=level,
    )
    kept = write_trec(
        folder,
        [(*pair, score) for pair, score in run.items()],
        [(*pair, grade) for pair, grade in qrels.items() if pair[0] in scorable],
    )
    means = dict(imported.frames["run_metrics"].select("measure", "mean").rows())
    assert means == pytest.approx(means_of_trec(*kept, level=level), abs=1e-15)
    assert imported.n_irrelevant == len({query for query, _ in qrels} - scorable)


@given(st.text(st.characters(codec="utf-8")))
def test_a_decoded_id_is_what_was_encoded(text: str) -> None:
    encoded = encode_id(text)
    assert encoded.split() in ([encoded], [])
    assert decode_id(encoded) == text


@pytest.mark.parametrize("text", ["%61", "%ff", "%c2%a0", "%", "%2", "%C2", "%0a", "100%"])
def test_only_what_an_export_writes_is_decoded(text: str) -> None:
    assert decode_id(text) == text
