"""A grid computes each distinct stage once, and one run that fails stops no other."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import ConfigurationError
from schemas.experiment import read_experiment
from tests.data.llm_server import ScriptedServer, sensible
from tests.data.small_project import EXPERIMENT, Command, write_small_project

GRID = EXPERIMENT.replace("size = 120\n", "") + (
    '[grid]\n"chunking.size" = [80, 120]\n"index.metric" = ["cosine", "l2"]\n'
)


@pytest.fixture
def grid(small: Path) -> Path:
    file = small.with_name("grid.toml")
    file.write_text(GRID, encoding="utf-8")
    return file


def run(command: Command, file: Path, *arguments: str, exit_code: int = 0) -> list[dict[str, Any]]:
    result = command("experiment", str(file), "--format", "json", *arguments, exit_code=exit_code)
    rows: list[dict[str, Any]] = json.loads(result.stdout)["runs"]
    return [row | {name: of["mean"] for name, of in row["measures"].items()} for row in rows]


def stages_computed(command: Command, grid_id: str) -> dict[str, int]:
    """How many times each distinct stage of a grid was computed."""
    rows = command.sql(
        "select stage_key, count(*) filter (where not cached) as n from stages "
        f"join runs using (run_id) where grid_id = '{grid_id}' group by 1"
    )
    return {row["stage_key"]: row["n"] for row in rows}


def grid_ids(command: Command) -> list[str]:
    rows = command.sql("select distinct grid_id from runs where grid_id is not null order by 1")
    return [row["grid_id"] for row in rows]


def ask_prefect(url: str, path: str, **body: Any) -> list[dict[str, Any]]:
    request = urllib.request.Request(  # noqa: S310 - the session's own server
        f"{url}/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        found: list[dict[str, Any]] = json.load(response)
    return found


def check_prefects_records(url: str, run_ids: set[str], n_computed: int, command: Command) -> None:
    """A flow run for each run, tagged; a task run for each distinct stage, and none is missing."""
    flow_ids = [
        row["flow_run_id"]
        for row in command.sql("select run_id, flow_run_id from runs")
        if row["run_id"] in run_ids
    ]
    flows = ask_prefect(url, "flow_runs/filter", flow_runs={"id": {"any_": flow_ids}})
    assert {flow["name"] for flow in flows} == {
        f"small:size={size},metric={metric}" for size in (80, 120) for metric in ("cosine", "l2")
    }
    for flow in flows:
        assert {flow["name"], "dense", "all-MiniLM-L6-v2", "grid"} <= set(flow["tags"])
    tasks = ask_prefect(url, "task_runs/filter", flow_runs={"id": {"any_": flow_ids}})
    # Two tasks of each run are never stored: a span of the project stands there without its quote.
    unstored = ("fill_quotes", "write_results")
    stages = [task for task in tasks if not task["task_key"].startswith(unstored)]
    assert len(stages) == n_computed
    assert len(tasks) - len(stages) == len(unstored) * len(flow_ids)
    assert {task["state_type"] for task in tasks} == {"COMPLETED"}
    assert all({"dense", "all-MiniLM-L6-v2"} <= set(task["tags"]) for task in tasks)


def test_each_distinct_stage_is_computed_once_and_a_rerun_computes_nothing(
    command: Command, grid: Path, prefect_url: str
) -> None:
    first = run(command, grid)
    assert {row["experiment"] for row in first} == {
        f"small:size={size},metric={metric}" for size in (80, 120) for metric in ("cosine", "l2")
    }
    (grid_id,) = grid_ids(command)
    computed = stages_computed(command, grid_id)
    # 2 loads, 1 embedding of queries; 2 x chunk, label, embed; 4 x index, retrieve, rank: but two
    # metrics of unit vectors may rank alike, and then share the stage that measures.
    assert set(computed.values()) == {1}
    assert 2 + 1 + 2 * 3 + 4 * 2 + 2 <= len(computed) <= 2 + 1 + 2 * 3 + 4 * 3

    check_prefects_records(prefect_url, {row["run_id"] for row in first}, len(computed), command)

    second = run(command, grid)
    assert set(stages_computed(command, grid_ids(command)[1]).values()) == {0}
    measures = ("hit@1", "hit@3", "recall@3", "rr@5", "ndcg@5")
    assert {(row["experiment"], *(row[name] for name in measures)) for row in first} == {
        (row["experiment"], *(row[name] for name in measures)) for row in second
    }
    listed = json.loads(command("runs", "--grid", "latest", "--format", "json").stdout)
    assert {row["run_id"] for row in listed} == {row["run_id"] for row in second}
    assert {row["attempt"] for row in listed} == {2}


def test_the_answer_says_what_may_not_be_compared(command: Command, grid: Path) -> None:
    arguments = ("--only", "*metric=cosine", "--set", 'primary_measure="rr@5"')
    text = command("experiment", str(grid), *arguments).stdout
    # Chunk labels: the values of two chunkings mean different things.
    assert "Comparable runs 1 of 2: small:size=120,metric=cosine" in text
    assert "Comparable runs 2 of 2: small:size=80,metric=cosine" in text
    assert "Not to be compared between all of these runs, since chunking.size differs: " in text
    assert "Between chunkings compare evidence_recall@Nchars, or use document labels" in text
    listed = json.loads(command("runs", "--grid", "latest", "--format", "json").stdout)
    names = [row["measures"].split()[::2] for row in listed]
    assert names == [["rr@5", "hit@1", "hit@3"]] * 2


def test_twelve_copies_under_different_names_are_one_set(command: Command, grid: Path) -> None:
    copies = "".join(f'[[variant]]\nname = "copy {i}"\n' for i in range(12))
    grid.write_text(EXPERIMENT + copies, encoding="utf-8")
    text = command("experiment", str(grid)).stdout
    assert "No winner on hit@1: none of the 12 runs can be told from the best" in text
    assert "The cheapest of them: small:copy-" in text
    assert "The fastest of them: small:copy-" in text


def test_the_flows_parameters_are_the_models_that_prefect_makes_a_form_of() -> None:
    from flows.run_experiment import run_experiment

    schema = run_experiment.parameters.model_dump()
    assert schema["properties"]["experiments"]["items"] == {"$ref": "#/definitions/Experiment"}
    assert {"Experiment", "Chunking", "Embedding", "Retrieval"} <= set(schema["definitions"])


def test_a_primary_measure_that_no_run_has_is_refused_by_the_flow(tmp_path: Path) -> None:
    from flows.run_experiment import run_experiment

    experiment = read_experiment(write_small_project(tmp_path))
    with pytest.raises(ConfigurationError, match="primary_measure is 'ndcg@999', which is not"):
        run_experiment.fn([experiment], primary_measure="ndcg@999", home=str(tmp_path / "home"))
    assert not (tmp_path / "home").exists()


def test_a_combination_gives_the_numbers_that_it_gives_alone(command: Command, grid: Path) -> None:
    (row,) = run(command, grid, "--only", "*size=120,metric=l2")
    alone = command.evaluate(
        grid.with_name("small.toml"), "--set", "index.metric=l2", "--set", "name=alone"
    )
    assert {m["measure"]: m["mean"] for m in alone["measures"]}.items() <= row.items()
    assert all(stage["cached"] for stage in alone["stages"])


def test_a_run_that_fails_lands_as_failed_and_stops_no_other(command: Command, grid: Path) -> None:
    plugin = grid.with_name("breaking.py")
    plugin.write_text(
        "def chunk(document, size):\n    raise RuntimeError('cut on purpose')\n", encoding="utf-8"
    )
    variants = (
        '[[variant]]\nname = "good"\n'
        '[[variant]]\nname = "breaking"\n"chunking.plugin" = "breaking:chunk"\n'
    )
    grid.write_text(EXPERIMENT + variants, encoding="utf-8")
    command.environment["PYTHONPATH"] += f":{grid.parent}"
    result = command("experiment", str(grid), exit_code=1)
    assert "1 of 2 runs failed, the others have landed" in result.stderr
    assert "cut on purpose" in result.stderr
    rows = command.sql("select experiment, status, status_reason from runs order by 1")
    assert [(row["experiment"], row["status"]) for row in rows] == [
        ("small:breaking", "failed"),
        ("small:good", "completed"),
    ]
    assert rows[0]["status_reason"].startswith("chunk_corpus: ")


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("", ["--limit", "3"], "the grid has 4 runs, more than --limit 3"),
        ('"index.kind" = []', [], 'grid."index.kind": the list is empty'),
        ('"chunking.sise" = [3]', [], "did you mean chunking.size?"),
        ('"corpus.path" = ["docs", "none"]', [], "none: there is no such file or folder"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(
    offline_command: Command, text: str, arguments: list[str], expected: str
) -> None:
    file = write_small_project(offline_command.folder).with_name("grid.toml")
    file.write_text(GRID + text, encoding="utf-8")
    result = offline_command("experiment", str(file), *arguments, exit_code=2)
    assert expected in result.stderr
    assert not list((offline_command.home / "spool").glob("*"))


def plan(command: Command, file: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    result = command("experiment", str(file), "--dry-run", "--format", "json", *arguments)
    rows = json.loads(result.stdout)
    return {row["experiment"].partition(":")[2]: row for row in rows}


def test_a_dry_run_tells_new_shared_and_stored_stages_and_computes_none(
    command: Command, grid: Path
) -> None:
    fresh = plan(command, grid)
    assert (
        fresh["size=80,metric=cosine"]["cached"] == fresh["size=80,metric=cosine"]["shared"] == []
    )
    assert fresh["size=80,metric=cosine"]["texts_to_embed"] is None  # it depends on the chunks
    assert fresh["size=80,metric=l2"]["new"] == ["build_index", "retrieve", "rank"]
    assert not (command.home / "warehouse.duckdb").exists()
    assert not list((command.home / "artifacts").rglob("*.parquet"))

    run(command, grid, "--only", "*size=120,metric=cosine")
    known = plan(command, grid, "--set", "embedding.normalize=false", "--set", "chunking.size=120")
    first, second = known["size=120,metric=cosine"], known["size=120,metric=l2"]
    assert first["cached"] == ["load_corpus", "load_benchmark", "chunk_corpus", "label"]
    assert first["texts_to_embed"] == 5 + 5  # a chunk each, but tides.md: two; zh in one; queries
    assert second["texts_to_embed"] == 0  # the first will have encoded them
    everything = plan(command, grid)
    assert everything["size=120,metric=cosine"]["new"] == []
    # What follows a new stage is new, whatever it makes.
    assert everything["size=80,metric=cosine"]["new"][0] == "chunk_corpus"
    assert everything["size=80,metric=cosine"]["new"][-1] == "rank"


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_there_twice_when_a_grid_is_killed(command: Command, grid: Path) -> None:
    process = command.start("experiment", str(grid), "--at-once", "1")
    deadline = time.monotonic() + 240
    while not list((command.home / "spool").glob("*/ready")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    n_finished = len(list((command.home / "spool").glob("*/ready")))
    assert n_finished >= 1
    run(command, grid)
    runs = command.sql("select run_id, experiment, grid_id, status from runs")
    assert len(runs) == n_finished + 4
    assert {row["status"] for row in runs} == {"completed"}
    assert len({row["experiment"] for row in runs}) == 4
    computed = command.sql(
        "select stage_key, count(*) filter (where not cached) as n from stages group by 1 having "
        "n > 1"
    )
    assert computed == []
    assert list((command.home / "spool").glob("*/ready")) == []


@pytest.mark.timeout(600)
def test_ctrl_c_ends_a_grid_at_once_and_without_a_trace(command: Command, grid: Path) -> None:
    plugin = grid.with_name("sleeping.py")
    plugin.write_text(
        "import time\ndef chunk(document, size):\n    time.sleep(500)\n    return []\n"
    )
    grid.write_text(GRID.replace("[chunking]", '[chunking]\nplugin = "sleeping:chunk"'))
    environment = {"PYTHONPATH": f"{command.environment['PYTHONPATH']}:{grid.parent}"}
    process = command.start("experiment", str(grid), **environment)
    deadline = time.monotonic() + 240
    spool = command.home / "spool"
    while time.monotonic() < deadline and not any(
        json.loads(path.read_text())["stage"] == "chunk_corpus"
        for path in spool.glob("*/started.json")
    ):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped" in stderr
    assert list(spool.glob("*")) == []


def test_a_dry_run_counts_the_calls_that_runs_share_once(command: Command, grid: Path) -> None:
    path = grid.with_name("benchmark.jsonl")
    queries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for number, query in enumerate(queries):
        query |= {"reference_contexts": [f"text {number}"], "response": f"summary {number}"}
    path.write_text("".join(json.dumps(query) + "\n" for query in queries), encoding="utf-8")
    metrics = '[grid]\n"index.metric" = ["cosine", "inner_product"]\n'
    grid.write_text(EXPERIMENT + metrics, encoding="utf-8")
    run(command, grid)
    with ScriptedServer() as server:
        server.script = lambda body, n: sensible(body)
        price = '[[summary.prices]]\nmodel = "m"\nsince = 2020-01-01\ninput = 1.0\noutput = 2.0\n'
        judge = f'[summary]\n[summary.judge]\nmodel = "m"\nbase_url = "{server.url}"\n{price}'
        grid.write_text(EXPERIMENT + judge + metrics, encoding="utf-8")
        known = plan(command, grid)
        assert len(server.bodies) == 1  # the probe
    # Key phrases, questions and answers of each of five queries, for the first run; the second asks
    # the same of the same contexts.
    assert known["metric=cosine"]["llm_calls"] == 3 * 5
    assert known["metric=cosine"]["cost"] > 0
    assert known["metric=inner_product"]["llm_calls"] == 0
