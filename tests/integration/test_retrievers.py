"""BM25, hybrid retrieval, reranking and filters, through the command and with real parts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigurationError
from schemas.rerankers import Rerank
from tasks.models import resolve_reranker
from tasks.reranking import load_reranker
from tests.data.small_project import Command
from tests.data.tiny_cross_encoder import write_cross_encoder

TEXTS = {
    "en-1": ("en", "Small dogs travel free in a carrier. Large dogs pay 12 euros."),
    "en-2": ("en", "Breakfast is served from 6:30 to 10:00. The bar closes at midnight."),
    "en-3": ("en", "Spring tides occur at new moon and full moon."),
    "fr-1": ("fr", "Les petits chiens voyagent gratuitement. Un grand chien paie 12 euros."),
    "fr-2": ("fr", "Le bar ferme à minuit."),
    "zh-1": ("zh", "儿童票半价。退票须在开船前两小时办理。"),
}
QUERIES: list[dict[str, Any]] = [
    {
        "query_id": "dog",
        "text": "What does a large dog cost? 12 euros",
        "qrels": [{"doc_id": "en-1"}],
    },
    {"query_id": "chien", "text": "12 euros pour un chien ?", "qrels": [{"doc_id": "fr-1"}]}
    | {"filter": {"lang": ["fr", "zh"]}},
    {"query_id": "child", "text": "儿童票多少钱？", "qrels": [{"doc_id": "zh-1"}]},
    {"query_id": "pool", "text": "swimming", "qrels": [{"doc_id": "en-2"}]},
]
EXPERIMENT = """
name = "retrievers"
measures = ["hit@1", "rr@6"]
[corpus]
path = "corpus.jsonl"
[benchmark]
path = "benchmark.jsonl"
[chunking]
method = "none"
[retrieval]
depth = 6
[labelling]
method = "document"
[execution]
threads = 1
"""


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("models") / "tiny")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def project(command: Command) -> Path:
    rows = [{"doc_id": name, "text": text, "lang": lang} for name, (lang, text) in TEXTS.items()]
    write_lines(command.folder / "corpus.jsonl", rows)
    write_lines(command.folder / "benchmark.jsonl", QUERIES)
    file = command.folder / "retrievers.toml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


def rankings(command: Command, report: dict[str, Any]) -> dict[str, list[tuple[str, float]]]:
    rows = command.sql(
        "select query_id, item_id, retrieval_score from rankings join runs using (rankings_digest) "
        f"where run_id = '{report['run_id']}' order by query_id, rank"
    )
    found: dict[str, list[tuple[str, float]]] = {}
    for row in rows:
        found.setdefault(row["query_id"], []).append((row["item_id"], row["retrieval_score"]))
    return found


def figures(command: Command, report: dict[str, Any], stage: str) -> dict[str, Any]:
    (row,) = command.sql(
        f"select figures from stages where run_id = '{report['run_id']}' and stage = '{stage}'"
    )
    found = row["figures"]
    return json.loads(found) if isinstance(found, str) else found


def test_bm25_needs_no_model_keeps_to_filters_and_gives_nothing_for_nothing(
    command: Command, project: Path
) -> None:
    report = command.evaluate(
        project, "--set", "retrieval.method=bm25", "--set", "embedding.model=no/such-model"
    )
    assert [stage["stage"] for stage in report["stages"]][-3:] == [
        "index_terms",
        "retrieve_terms",
        "rank",
    ]
    (run,) = command.sql("select embedding_model, vectors_digest, models from runs")
    assert (run["embedding_model"], run["vectors_digest"]) == (None, None)
    found = rankings(command, report)
    assert found["dog"][0][0] == "en-1"
    assert {item for item, _ in found["chien"]} == {"fr-1"}, "en-1 has the words, but not the lang"
    assert [item for item, _ in found["child"]] == ["zh-1"]
    assert "pool" not in found
    stored = {row["query_id"]: row["filter"] for row in command.sql("select * from queries")}
    assert {name: stored[name] and json.loads(stored[name]) for name in stored} == {
        "dog": None,
        "chien": {"lang": ["fr", "zh"]},
        "child": None,
        "pool": None,
    }
    made = figures(command, report, "retrieve_terms")
    assert made["n_queries"] == 4
    assert made["n_unmatched"] == 1
    assert 0 < made["latency_p50_ms"] <= made["latency_p95_ms"]


def test_hybrid_results_are_reranked_as_the_cross_encoder_called_bare_does(
    command: Command, project: Path, cross_encoder: Path
) -> None:
    import torch
    from sentence_transformers import CrossEncoder

    settings = (
        "--set",
        "retrieval.method=hybrid",
        "--set",
        f"retrieval.rerank.model={cross_encoder}",
    )
    report = command.evaluate(project, *settings, "--set", "retrieval.rerank.depth=6")
    found = rankings(command, report)
    assert {item for item, _ in found["chien"]} == {"fr-1", "fr-2", "zh-1"}
    assert len(found["dog"]) == 6
    bare = CrossEncoder(str(cross_encoder), device="cpu")
    for query in QUERIES:
        items = [item for item, _ in found[query["query_id"]]]
        pairs = [(query["text"], TEXTS[item][1]) for item in items]
        scores = bare.predict(pairs, activation_fn=torch.nn.Identity())
        assert items == [items[i] for i in (-scores).argsort()]
        assert [score for _, score in found[query["query_id"]]] == pytest.approx(scores, abs=1e-5)
    (run,) = command.sql("select models from runs")
    models = json.loads(run["models"]) if isinstance(run["models"], str) else run["models"]
    assert [model["role"] for model in models] == ["embedding", "reranker"]
    whole, fused = figures(command, report, "rerank"), figures(command, report, "fuse")
    assert whole["latency_p50_ms"] > fused["latency_p50_ms"] > 0

    # Fewer items: every pair is known, the tail keeps the fused order.
    fewer = command.evaluate(project, *settings, "--set", "retrieval.rerank.depth=2")
    assert figures(command, fewer, "rerank")["n_scored"] == 0
    assert [s["stage"] for s in fewer["stages"] if not s["cached"]] == ["rerank", "rank"]
    scores = [score for _, score in rankings(command, fewer)["dog"]]
    assert scores == sorted(set(scores), reverse=True)
    assert scores[2:] == pytest.approx([scores[1] - n for n in range(1, 5)])


def test_a_filter_on_what_no_document_has_is_refused_before_anything_is_embedded(
    command: Command, project: Path
) -> None:
    rows = [QUERIES[0] | {"filter": {"language": "fr"}}]
    write_lines(command.folder / "benchmark.jsonl", rows)
    result = command("evaluate", str(project), exit_code=2)
    assert "the filter of query 'dog' asks for language = \"fr\"" in result.stderr
    assert "no document has metadata 'language'; the keys are: lang" in result.stderr
    assert not (command.home / "items" / "embeddings").exists()
    assert not list((command.home / "spool").glob("*/"))


def test_reranking_more_than_is_retrieved_is_refused(command: Command, project: Path) -> None:
    more = ("--set", "retrieval.rerank.model=x", "--set", "retrieval.rerank.depth=7")
    result = command("evaluate", str(project), *more, exit_code=2)
    assert "rerank.depth is 7 and depth is 6" in result.stderr


def test_a_model_without_a_head_for_pairs_is_no_reranker(
    cross_encoder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "headless"
    shutil.copytree(cross_encoder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    with pytest.raises(ConfigurationError, match=r"is no CrossEncoder.*it names BertModel"):
        resolve_reranker(Rerank(model=str(folder)))
    with pytest.raises(ConfigurationError, match=r"retrieval\.rerank\.model: there is no folder"):
        resolve_reranker(Rerank(model=str(tmp_path / "nowhere")))


def test_a_model_that_classifies_pairs_is_no_reranker(tmp_path: Path) -> None:
    config = Rerank(model=str(write_cross_encoder(tmp_path / "classifier", n_labels=3)))
    with pytest.raises(ConfigurationError, match="gives 3 scores a pair; expected one"):
        load_reranker(resolve_reranker(config), config, threads=1, device="cpu")
