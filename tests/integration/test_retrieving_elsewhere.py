"""Somebody else's retrievers with real parts: a server with faults, a plug-in, a TREC run."""

from __future__ import annotations

import gzip
import json
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from schemas.errors import ConfigurationError, InputError, StageError
from schemas.frames import BENCHMARK, CHUNKS, DOCUMENTS
from schemas.retrievers import Retrieval
from tasks.elsewhere import Elsewhere
from tasks.http_retrieving import check_retriever, retrieve_by_http
from tasks.plugin_retrieving import retrieve_by_plugin
from tests.data.llm_server import Reply, ScriptedServer, error
from tests.data.small_project import DOCUMENTS as SMALL_DOCUMENTS
from tests.data.small_project import Command

N_QUERIES = 12
IDS = [f"q{number:02}" for number in range(N_QUERIES)]
CHUNK_IDS = [f"d{number}#0-6" for number in range(8)]


def frames() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Eight documents that are a chunk each, and twelve queries."""
    names = [f"d{number}" for number in range(8)]
    documents = pl.DataFrame(
        {"doc_id": names, "title": None, "text": [f"text {n[1]}" for n in names], "metadata": "{}"},
        schema=DOCUMENTS,
    )
    chunks = documents.select(
        pl.format("{}#0-6", "doc_id").alias("chunk_id"),
        "doc_id",
        pl.lit(0).alias("start"),
        pl.lit(6).alias("end"),
        "text",
        "title",
    ).cast(CHUNKS)
    given = {"query_id": IDS, "text": [f"query {name}" for name in IDS]}
    given["filter"] = [json.dumps({"lang": "fr"}) if name == "q00" else None for name in IDS]
    queries = pl.DataFrame({name: given.get(name) for name in BENCHMARK}, schema=BENCHMARK)
    return documents, chunks, queries


def good(body: dict[str, Any]) -> Reply:
    """The k chunks after the one with the query's number."""
    first = int(body["query"][-2:]) if body["query"] != "Are you there?" else 0
    hits = [
        {"chunk_id": CHUNK_IDS[(first + place) % 8], "score": 1 / (place + 1), "extra": place}
        for place in range(min(body["k"], 8))
    ]
    return Reply(raw={"results": hits})


def results(*hits: Any) -> Reply:
    return Reply(raw={"results": list(hits)})


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.troubles.FIRST_WAIT", 0.02)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda body, n: good(body), path="/retrieve") as running:
        yield running


def url(server: ScriptedServer) -> str:
    return f"http://127.0.0.1:{server.port}/retrieve"


def ask(
    server: ScriptedServer, items: Path, *, depth: int = 3, asked: str = "night 1", **http: Any
) -> Elsewhere:
    table = {"url": url(server), "timeout": 5.0, "attempts": 3} | http
    retrieval = Retrieval.model_validate({"depth": depth, "http": table})
    return retrieve_by_http(
        *frames(),
        retrieval,
        are_documents=False,
        identity={"url": table["url"], "asked": asked},
        items=items,
        say=None,
    )


def failing(
    fault: Reply, *names: str, times: int = 10**9
) -> Callable[[dict[str, Any], int], Reply]:
    """This for these queries, so many times each; else good answers."""
    left = dict.fromkeys(names, times)

    def script(body: dict[str, Any], number: int) -> Reply:
        if left.get(body["query_id"], 0) > 0:
            left[body["query_id"]] -= 1
            return fault
        return good(body)

    return script


# HTTP


def test_a_server_is_sent_query_k_and_filter_and_its_ranking_is_kept(
    server: ScriptedServer, tmp_path: Path
) -> None:
    found = ask(server, tmp_path)
    assert found.rankings.height == 3 * N_QUERIES
    assert found.rankings.filter(pl.col("query_id") == "q05").rows() == [
        ("q05", 1, "d5#0-6", "d5#0-6", 1.0),
        ("q05", 2, "d6#0-6", "d6#0-6", 0.5),
        ("q05", 3, "d7#0-6", "d7#0-6", 1 / 3),
    ]
    bodies = {body["query_id"]: body for body in server.bodies}
    assert bodies["q00"] == {
        "query": "query q00",
        "query_id": "q00",
        "k": 3,
        "filter": {"lang": "fr"},
    }
    assert bodies["q01"] == {"query": "query q01", "query_id": "q01", "k": 3}
    assert 0 < found.figures["latency_p50_ms"] <= found.figures["latency_p95_ms"]
    assert (found.figures["n_latency"], found.figures["n_requests"]) == (N_QUERIES, N_QUERIES)


def test_queries_are_asked_side_by_side_and_never_more_than_allowed(
    server: ScriptedServer, tmp_path: Path
) -> None:
    def slow(body: dict[str, Any], number: int) -> Reply:
        reply = good(body)
        reply.delay = 0.1
        return reply

    server.script = slow
    ask(server, tmp_path, max_concurrency=3)
    assert server.most_in_flight == 3


@pytest.mark.parametrize(
    "fault",
    [
        error(500),
        error(429, retry_after="0.05"),
        Reply(is_cut=True),
        Reply(raw=b"<html>sign in</html>"),
        results({"chunk_id": "d1#0-6", "score": float("nan")}),
        results({"chunk_id": "d1#0-6", "score": 1}, {"chunk_id": "d1#0-6", "score": 1}),
    ],
    ids=["500", "429", "cut", "html", "nan", "twice"],
)
def test_a_fault_that_passes_changes_no_ranking(
    server: ScriptedServer, tmp_path: Path, fault: Reply
) -> None:
    untroubled = ask(server, tmp_path / "1")
    server.script = failing(fault, "q00", "q04", "q07", times=1)
    troubled = ask(server, tmp_path / "2")
    assert troubled.rankings.equals(untroubled.rankings)
    assert troubled.failed.is_empty()
    assert troubled.figures["n_requests"] == N_QUERIES + 3


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (error(500, "broken"), "500: broken"),
        (Reply(is_cut=True), "no connection"),
        (Reply(raw=b"<html>sign in</html>"), 'not JSON like {"results": […]}: <html>sign in'),
        (Reply(is_hung=True), "no answer within 0.5 s"),
        (results({"chunk_id": "d1#0-6", "score": float("nan")}), "result 1: the score is nan"),
        (
            results({"chunk_id": "d1#0-6", "score": 1}, {"chunk_id": "d1#0-6", "score": 0}),
            "result 2 comes a second time: chunk_id 'd1#0-6'",
        ),
        (results({"chunk_id": "d1#0-6", "score": None}, {"score": 1}), "result 2"),
    ],
    ids=["500", "cut", "html", "slow", "nan", "twice", "nameless"],
)
def test_a_query_that_stays_without_an_answer_has_failed_and_the_others_are_ranked(
    server: ScriptedServer, tmp_path: Path, fault: Reply, words: str
) -> None:
    server.script = failing(fault, "q03")
    found = ask(server, tmp_path, timeout=0.5)
    assert found.failed["query_id"].to_list() == ["q03"]
    assert words in found.failed["reason"][0]
    assert found.rankings["query_id"].n_unique() == N_QUERIES - 1
    # The answers are kept: the next try of this night asks for the failed query alone.
    n_asked = len(server.bodies)
    server.script = lambda body, n: good(body)
    again = ask(server, tmp_path)
    assert [body["query_id"] for body in server.bodies[n_asked:]] == ["q03"]
    assert again.failed.is_empty()
    assert again.figures["n_reused"] == N_QUERIES - 1
    # Another night does not know what the server holds by then.
    assert ask(server, tmp_path, asked="night 2").figures["n_reused"] == 0


def test_a_server_that_dies_ends_the_stage_and_is_not_hammered(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = lambda body, n: good(body) if n < 2 else Reply(is_cut=True)
    with pytest.raises(StageError, match=r"10 of 12 queries were not answered.*max_failed"):
        ask(server, tmp_path, attempts=1)
    assert len(server.bodies) <= 12
    server.script = lambda body, n: good(body)
    assert ask(server, tmp_path).figures["n_reused"] == 2


def test_a_server_that_is_too_slow_ends_the_stage_at_its_deadline(
    server: ScriptedServer, tmp_path: Path
) -> None:
    def slow(body: dict[str, Any], number: int) -> Reply:
        reply = good(body)
        reply.delay = 0.3
        return reply

    server.script = slow
    with pytest.raises(StageError, match=r"the stage's 1 s \(retrieval.http.deadline\) were over"):
        ask(server, tmp_path, max_concurrency=1, deadline=1.0, max_failed=0.1)
    assert len(server.bodies) < N_QUERIES


def test_without_a_server_one_query_is_tried_and_no_more(
    server: ScriptedServer, tmp_path: Path
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}/retrieve"
    with pytest.raises(StageError, match=r"No query was answered; start the server"):
        ask(server, tmp_path, url=nobody)
    retrieval = Retrieval.model_validate({"http": {"url": nobody}})
    with pytest.raises(ConfigurationError, match=r"running, and is retrieval\.http\.url right\?$"):
        check_retriever(retrieval, tmp_path)


@pytest.mark.parametrize(
    ("code", "headers", "hint"),
    [
        (401, {}, "as retrieval.http.api_key_env or in retrieval.http.headers_env"),
        (403, {"X-Team": "A_TEAM"}, "check the key in the environment variable A_TEAM"),
        (404, {}, "check retrieval.http.url"),
        (422, {}, "check retrieval.http.url"),
        (500, {}, "check retrieval.http.url"),
    ],
)
def test_what_to_check_is_a_setting_of_the_retriever_which_has_no_model(
    server: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    headers: dict[str, str],
    hint: str,
) -> None:
    monkeypatch.setenv("A_TEAM", "secret")
    server.script = lambda body, n: error(code, "no")
    http = {"url": url(server), "headers_env": headers}
    with pytest.raises(ConfigurationError) as caught:
        check_retriever(Retrieval.model_validate({"http": http}), tmp_path)
    assert str(caught.value).endswith(hint)
    assert "model" not in str(caught.value)


def test_the_first_use_of_a_server_that_does_not_answer_names_its_url(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = lambda body, n: Reply(raw={"results": []}, delay=0.5)
    retrieval = Retrieval.model_validate({"http": {"url": url(server), "timeout": 0.1}})
    with pytest.raises(
        ConfigurationError, match=r"within 0\.1 s; .* is retrieval\.http\.url right"
    ):
        check_retriever(retrieval, tmp_path)


def test_the_first_use_asks_once_with_secrets_from_the_environment_that_no_message_holds(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"url": url(server), "api_key_env": "A_KEY", "headers_env": {"X-Team": "A_TEAM"}}
    retrieval = Retrieval.model_validate({"http": table})
    with pytest.raises(ConfigurationError, match="environment variable A_KEY is not set"):
        check_retriever(retrieval, tmp_path)
    monkeypatch.setenv("A_KEY", "secret-1")
    monkeypatch.setenv("A_TEAM", "secret-2")
    server.script = lambda body, n: error(403, "secret-1 of secret-2 may not")
    with pytest.raises(
        ConfigurationError,
        match=r"403: \[key\] of \[key\] may not; check the keys in "
        "the environment variables A_KEY and A_TEAM",
    ):
        check_retriever(retrieval, tmp_path)
    server.script = lambda body, n: Reply(raw=["d1"])
    with pytest.raises(ConfigurationError, match="the answer is not JSON like"):
        check_retriever(retrieval, tmp_path)
    server.script = lambda body, n: good(body)
    n_before = len(server.bodies)
    check_retriever(retrieval, tmp_path)
    check_retriever(retrieval, tmp_path)
    assert len(server.bodies) == n_before + 1
    head = server.headers[-1].lower()
    assert "authorization: bearer secret-1" in head
    assert "x-team: secret-2" in head


def test_results_that_are_nowhere_in_the_corpus_are_counted_listed_and_keep_their_rank(
    server: ScriptedServer, tmp_path: Path
) -> None:
    stranger = {"doc_id": "elsewhere.txt", "start": 0, "end": 9, "score": 9}
    by_text = {"text": "text 2", "score": 1}
    server.script = lambda body, n: results(stranger, by_text)
    found = ask(server, tmp_path)
    ranked = found.rankings.filter(pl.col("query_id") == "q00")
    assert ranked["item_id"].to_list() == ["elsewhere.txt#0-9", "d2#0-6"]
    assert found.figures["n_unmatched"] == found.unmatched.height == N_QUERIES
    assert json.loads(found.unmatched["given"][0]) == {
        name: stranger[name] for name in ("doc_id", "start", "end")
    }
    assert "12 of 24 results are nowhere in the corpus" in found.notes[0]
    server.script = lambda body, n: results({"doc_id": "d1", "score": 1})
    assert ask(server, tmp_path, asked="2").rankings["item_id"].unique().to_list() == ["d1#0-6"]


def test_an_evaluation_with_a_failed_query_is_degraded_and_its_values_are_failed(
    server: ScriptedServer, command: Command, small: Path
) -> None:
    def script(body: dict[str, Any], number: int) -> Reply:
        if "large dog" in body["query"] and is_broken[0]:
            return error(500, "broken")
        if "tides" in body["query"]:
            return results({"doc_id": "tides.md", "start": 9, "end": 53, "score": 0.5})
        return results({"text": SMALL_DOCUMENTS["fr/bagages.txt"], "score": 2})

    is_broken = [True]
    server.script = script
    text = small.read_text().replace(
        "[labelling]", f'[retrieval.http]\nurl = "{url(server)}"\nattempts = 1\n[labelling]'
    )
    small.write_text(text)
    report = command.evaluate(small)
    assert report["status"] == "degraded"
    assert "not answered: 1, such as 'q2': the endpoint answered 500" in report["status_reason"]
    values = {
        row["query_id"]: (row["value"], row["null_reason"])
        for row in command.sql(
            "select query_id, value, null_reason from query_metrics where measure = 'hit@3' "
            f"and run_id = '{report['run_id']}'"
        )
    }
    assert values == {
        "q1": (1.0, None),
        "q2": (None, "failed"),
        "q3": (1.0, None),
        "q4": (0.0, None),
        "q5": (None, "no_relevant"),
    }
    (hit,) = [row for row in report["measures"] if row["measure"] == "hit@3"]
    # two of three; had the failed one been 0 or 1, two or three of four
    assert (hit["mean"], hit["low"], hit["high"], hit["n_failed"]) == (2 / 3, 2 / 4, 3 / 4, 1)
    events = command.sql("select query_id, message from events where stage = 'retrieve_elsewhere'")
    assert [event["query_id"] for event in events] == ["q2"]
    command("recompute", "--measure", "precision@3")  # a failed query stays failed
    failed = command.sql(
        "select query_id from query_metrics "
        "where measure = 'precision@3' and null_reason = 'failed'"
    )
    assert failed == [{"query_id": "q2"}]
    command("export", report["run_id"], "--format", "trec", "--into", "exported")
    (qrels,) = (command.folder / "exported").glob("*qrels*")
    assert {line.split()[0] for line in qrels.read_text().splitlines()} == {"q1", "q3", "q4"}
    # The stage is not reused while a query is missing; its answers are.
    is_broken[0] = False
    n_asked = len(server.bodies)
    mended = command.evaluate(small)
    assert (mended["status"], len(server.bodies) - n_asked) == ("completed", 1)
    third = command.evaluate(small)
    assert all(stage["cached"] for stage in third["stages"])
    assert command.evaluate(small, "--date", "2026-01-02")["status"] == "completed"
    assert len(server.bodies) - n_asked == 1 + 5


# a plug-in

PLUGIN = """
from schemas.hits import Hit

class Overlap:
    def __init__(self, corpus, options):
        self.chunks, self.least = corpus.chunks, options.get("least", 1)

    def retrieve(self, query, k, *, filter=None):
        words = set(query.lower().split())
        scored = [(len(words & set(c.text.lower().split())), c.chunk_id) for c in self.chunks]
        best = sorted((pair for pair in scored if pair[0] >= self.least), reverse=True)[:k]
        return [Hit(score, chunk_id) for score, chunk_id in best]
"""


def by_plugin(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    name = f"plugin_{abs(hash(source))}"
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    retrieval = Retrieval.model_validate({"depth": 3, "plugin": f"{name}:make"})
    return retrieve_by_plugin(*frames(), retrieval, are_documents=False)


def returning(expression: str) -> str:
    return (
        "def make(corpus, options):\n    class R:\n"
        f"        def retrieve(self, query, k, *, filter=None):\n            return {expression}\n"
        "    return R()\n"
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import no_such_library", "importing 'plugin_.*' failed with ModuleNotFoundError"),
        ("make = 3", "'make' is not a function"),
        ("def make(corpus, options): return 3", "the factory returned 3; expected an object"),
        ("def make(corpus, options): raise KeyError('x')", "the factory raised KeyError: 'x'"),
        (returning("1 / 0"), r"on the query 'q00': ZeroDivisionError: division by zero"),
        (returning("None"), "on the query 'q00': the results are None; expected a list"),
        (returning("['d1#0-6']"), "result 1 is 'd1#0-6'; expected a Hit or a table"),
        (returning("[{'chunk_id': 'd1#0-6', 'score': float('nan')}]"), "the score is nan"),
        (returning("[{'chunk_id': 'd1#0-6', 'score': 1}] * 2"), "comes a second time"),
    ],
)
def test_a_plugin_that_does_not_import_or_breaks_the_protocol_is_told_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    with pytest.raises((ConfigurationError, StageError), match=words):
        by_plugin(tmp_path, source, monkeypatch)


def test_more_results_than_asked_for_are_cut_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = returning("({'text': c.text} for c in corpus.chunks)")
    found = by_plugin(tmp_path, source, monkeypatch)
    assert found.rankings.height == 3 * N_QUERIES
    assert found.rankings["item_id"].head(3).to_list() == CHUNK_IDS[:3]  # in the order they came
    assert found.figures["n_cut"] == 5 * N_QUERIES
    assert found.figures["n_latency"] == N_QUERIES


def test_an_evaluation_by_a_plugin_runs_anew_when_its_source_or_options_change(
    command: Command, small: Path
) -> None:
    module = command.folder / "overlapping.py"
    module.write_text(
        PLUGIN + "\ndef make(corpus, options):\n    return Overlap(corpus, options)\n"
    )
    small.write_text(
        small.read_text().replace("[labelling]", 'plugin = "overlapping:make"\n[labelling]')
    )
    path = f"{command.environment['PYTHONPATH']}:{command.folder}"
    report = command.evaluate(small, PYTHONPATH=path)
    # "large dogs pay" shares "large" with q2, as no other chunk does
    rows = command.sql(
        "select query_id, chunk_id from rankings join runs using (rankings_digest) where rank = 1 "
        f"and run_id = '{report['run_id']}' and query_id = 'q2'"
    )
    assert rows == [{"query_id": "q2", "chunk_id": "pets.txt#0-79"}]
    assert "embed_chunks" not in [stage["stage"] for stage in report["stages"]]
    module.write_text(module.read_text().replace('"least", 1', '"least", 2'))
    computed = [
        stage["stage"]
        for stage in command.evaluate(small, PYTHONPATH=path)["stages"]
        if not stage["cached"]
    ]
    assert computed[0] == "retrieve_elsewhere"
    options = command.evaluate(small, "--set", "retrieval.options.least=3", PYTHONPATH=path)
    assert "retrieve_elsewhere" in [s["stage"] for s in options["stages"] if not s["cached"]]
    refused = command("evaluate", str(small), "--set", "retrieval.plugin=gone:make", exit_code=2)
    assert "retrieval.plugin = 'gone:make': there is no module 'gone'" in refused.stderr


# a run file


def write_trec_project(folder: Path) -> tuple[Path, Path, Path]:
    """Documents, a benchmark with qrels, and a run with ties, strangers and a missing query."""
    dice = random.Random(7)
    names = [f"doc {number}%x" if number % 9 == 0 else f"doc-{number}" for number in range(60)]
    lines = [json.dumps({"doc_id": name, "text": f"the text of {name}"}) for name in names]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    encoded = {name: name.replace("%", "%25").replace(" ", "%20") for name in names}
    queries, qrels, run = [], [], []
    for number in range(20):
        query_id = f"q{number}"
        judged = dice.sample(names, 9)
        grades = [3, 2, 1, 1, 1, 0, 0, -1, 2]
        truth = [{"doc_id": d, "grade": g} for d, g in zip(judged, grades, strict=True)]
        queries.append(
            json.dumps({"query_id": query_id, "text": f"query {number}", "qrels": truth})
        )
        qrels += [f"{query_id} 0 {encoded[d]} {g}" for d, g in zip(judged, grades, strict=True)]
        if number == 13:
            continue  # missing from the run
        found = [*dice.sample(names, 40), "a stranger", "zz-stranger"]
        for rank, name in enumerate(found, start=1):
            score = dice.choice([0.25, 0.5, 0.75, dice.random()])  # many ties
            run.append(f"{query_id} Q0 {encoded.get(name, 'zz%20' + name[:1])} {rank} {score!r} x")
        run = [line for line in dict.fromkeys(run)]
    run.append("q99 Q0 doc-1 1 1.0 x")  # not in the benchmark
    (folder / "benchmark.jsonl").write_text("\n".join(queries) + "\n")
    (folder / "qrels.txt").write_text("\n".join(qrels) + "\n")
    with gzip.open(folder / "some.run.gz", "wt") as stream:
        stream.write("\n".join(run) + "\n")
    experiment = folder / "by-run.toml"
    experiment.write_text(
        'measures = ["ndcg@10", "ap@100", "rr@1000", "precision@5", "bpref", "recall@20", '
        '"judged@10", "rbp(p=0.8)"]\n'
        '[corpus]\npath = "corpus.jsonl"\n[benchmark]\npath = "benchmark.jsonl"\n'
        '[retrieval]\nrun_file = "some.run.gz"\ndepth = 1000\n[labelling]\nmethod = "document"\n'
    )
    return experiment, folder / "qrels.txt", folder / "some.run.gz"


def test_measures_of_a_run_file_equal_those_of_rankhouse_trec_on_the_same_files(
    command: Command,
) -> None:
    experiment, qrels, run = write_trec_project(command.folder)
    report = command.evaluate(experiment)
    names = [row["measure"] for row in report["measures"]]
    options = [word for name in names for word in ("-m", name)]
    printed = command("trec", str(qrels), str(run), "--per-query", "--format", "json", *options)
    trec = json.loads(printed.stdout)
    assert {row["measure"]: row["mean"] for row in report["measures"]} == trec["measures"]
    values: dict[str, dict[str, float]] = {}
    for row in command.sql(
        f"select query_id, measure, value from query_metrics where run_id = '{report['run_id']}'"
    ):
        values.setdefault(row["query_id"], {})[row["measure"]] = row["value"]
    assert values == trec["queries"]
    assert values["q13"]["ndcg@10"] == 0
    assert 0.05 < trec["measures"]["ndcg@10"] < 0.9
    notes = " ".join(report["retrieval_notes"])
    assert "1 query is missing from the run, which counts as 0: q13" in notes
    assert "1 query is in the run and not in the benchmark: ignored" in notes
    assert "results are nowhere in the corpus" in notes
    run.write_bytes(gzip.compress(gzip.decompress(run.read_bytes()).replace(b"0.75", b"0.1")))
    again = command.evaluate(experiment)
    assert [stage["stage"] for stage in again["stages"] if not stage["cached"]] == [
        "retrieve_elsewhere",
        "rank",
    ]
    refused = command(
        "evaluate", str(experiment), "--set", "retrieval.run_file=gone.run", exit_code=2
    )
    assert "gone.run: there is no such file" in refused.stderr


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "q00 Q0 d1 1 0.5 x\nq00 Q0 d1 2 0.4 x\n",
            "run.txt:2: document 'd1' stands more than once",
        ),
        ("q00 Q0 d1 1 nan x\n", "run.txt:1: the score is NaN"),
        ("q00 Q0 d1 1 inf x\n", "run.txt:1: the score is infinite"),
        ("q00 d1 0.5\n", "run.txt:1: the line has 3 fields"),
        ("q77 Q0 d1 1 0.5 x\n", r"none of its queries is in the benchmark: it has 'q77'"),
        ("q00 Q0 d1 1 0.5 x\n", r"they are documents': set labelling.method = 'document'"),
        ("", "the file is empty"),
    ],
)
def test_a_run_file_that_cannot_be_used_is_refused_with_its_line(
    tmp_path: Path, lines: str, words: str
) -> None:
    from tasks.run_file_retrieving import read_run_file

    path = tmp_path / "run.txt"
    path.write_text(lines)
    with pytest.raises(InputError, match=words):
        read_run_file(str(path), *frames(), are_documents=False, depth=10)


def test_a_run_of_chunk_ids_ranks_chunks_or_their_documents(tmp_path: Path) -> None:
    from tasks.run_file_retrieving import read_run_file

    path = tmp_path / "run.txt"
    path.write_text("q00 Q0 d1#0-6 1 0.5 x\nq00 Q0 d2#0-6 2 0.7 x\nq00 Q0 gone 3 0.6 x\n")
    of_chunks = read_run_file(str(path), *frames(), are_documents=False, depth=10)
    assert of_chunks.rankings["item_id"].to_list() == ["d2#0-6", "gone", "d1#0-6"]
    of_documents = read_run_file(str(path), *frames(), are_documents=True, depth=2)
    assert of_documents.rankings.select("item_id", "chunk_id").rows() == [
        ("d2", "d2#0-6"),
        ("gone", "gone"),
    ]
    assert (of_documents.figures["n_cut"], of_documents.figures["n_unmatched"]) == (1, 1)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"plugin": "a:b", "run_file": "x"}, "plugin and run_file are given; name one"),
        ({"plugin": "a:b", "method": "bm25"}, "method is 'bm25' and plugin is given"),
        ({"options": {"x": 1}}, "none is named"),
        ({"plugin": "a:b", "options": {"x": float("nan")}}, "options hold NaN"),
        ({"plugin": "no_colon"}, "String should match pattern"),
        ({"http": {"url": "ftp://x"}}, "url must begin with http"),
        ({"http": {"url": "http://me:secret@x/r"}}, "holds a user name or password"),
        ({"http": {"url": "http://x/r?key=1"}}, "url holds a query"),
        ({"http": {"url": "http://x", "headers_env": {"X-Key": "s3cret"}}}, "headers_env names"),
    ],
)
def test_a_section_that_names_no_one_retriever_is_refused(
    table: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Retrieval.model_validate(table)
