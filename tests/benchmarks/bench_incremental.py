"""A changed corpus: what is embedded again, what it costs, and how much memory it takes.

Three evaluations by the command's own flow, each in a process of its own against one home: cold;
with one percent of the documents changed; and again with nothing changed. A document is a chunk,
embedded by wordllama's static weights. Beside them a process that only imports what a run imports
(no model library, unless the run loaded one): the peaks above it are compared with the bytes of the
vectors. CPU seconds (user and system), since other work shares the machine; also above what a run
costs that has nothing to compute.

    PYTHONPATH=. python tests/benchmarks/bench_incremental.py [--chunks 100000] [--words 60]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np

from flows.servers import prefect_server
from schemas.home import Home

DIM = 256
IDLE = """
import json, re, sys
import faiss, duckdb, pandera.polars, safetensors, tokenizers
import flows.evaluate_retrieval, flows.evaluating, flows.rendering, flows.preflight
import tasks.embedding, tasks.retrieving, tasks.indexing, tasks.scoring, tasks.labelling
for name in sys.argv[1:]:
    __import__(name)
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(json.dumps({"peak": int(peak) * 1024}))
"""
RUN = """
import contextlib, io, json, re, resource, sys
from flows.cli import command, run
out = io.StringIO()
with contextlib.redirect_stdout(out):
    arguments = ["evaluate", sys.argv[1], "--format", "json"]
    code = run(lambda: command.main(arguments, standalone_mode=False))
usage = resource.getrusage(resource.RUSAGE_SELF)
# Not ru_maxrss: it begins with the peak of whoever started the process.
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(json.dumps({
    "code": code,
    "cpu": usage.ru_utime + usage.ru_stime,
    "peak": int(peak) * 1024,
    "model": sorted({"torch", "sentence_transformers"} & set(sys.modules)),
    "report": json.loads(out.getvalue()),
}))
"""
EXPERIMENT = """
name = "incremental"
measures = ["hit@1", "rr@10"]
[corpus]
path = "corpus.jsonl"
[benchmark]
path = "benchmark.jsonl"
[chunking]
method = "none"
[embedding]
model = {model!r}
[retrieval]
depth = 100
[labelling]
method = "document"
[execution]
threads = 1
"""


def write_model(folder: Path) -> Path:
    """Wordllama's static weights as a sentence-transformers folder."""
    from safetensors.numpy import load_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    package = distribution("wordllama")
    weights = package.locate_file("wordllama/weights/l2_supercat_256.safetensors")
    tokenizer = package.locate_file("wordllama/tokenizers/l2_supercat_tokenizer_config.json")
    table = load_file(str(weights))["embedding.weight"]
    static = StaticEmbedding(
        Tokenizer.from_file(str(tokenizer)), embedding_weights=table.astype(np.float32)
    )
    SentenceTransformer(modules=[static], device="cpu").save(str(folder), create_model_card=False)
    return folder


def write_inputs(folder: Path, n: int, *, n_words: int, changed: int) -> None:
    """A document a line, of words out of 5,000; the first ``changed`` of them end anew."""
    rng = random.Random(7)
    words = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9)))
        for _ in range(5_000)
    ]
    with (folder / "corpus.jsonl").open("w") as file:
        for i in range(n):
            text = " ".join(rng.choices(words, k=n_words)) + (" mended" if i < changed else "")
            file.write(json.dumps({"doc_id": f"d{i:06}", "text": text}) + "\n")
    with (folder / "benchmark.jsonl").open("w") as file:
        for i in range(200):
            qrels = [{"doc_id": f"d{rng.randrange(n):06}"}]
            query = {"query_id": f"q{i}", "text": " ".join(rng.choices(words, k=8)), "qrels": qrels}
            file.write(json.dumps(query) + "\n")


def child(script: str, *arguments: str, environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-c", script, *arguments]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=1200
    )
    if result.returncode:
        sys.exit(result.stderr)
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=60, help="of a document")
    options = parser.parse_args()
    n, n_changed = options.chunks, options.chunks // 100
    with (
        tempfile.TemporaryDirectory() as name,
        prefect_server(Home(Path(name) / "server")) as server,
    ):
        server.wait_until_ready()
        folder = Path(name)
        environment = {**os.environ, "PREFECT_API_URL": str(server.url), "OMP_NUM_THREADS": "1"}
        environment |= {"RANKHOUSE_HOME": f"{name}/home", "POLARS_MAX_THREADS": "1"}
        environment["TOKENIZERS_PARALLELISM"] = "false"
        experiment = folder / "incremental.toml"
        experiment.write_text(EXPERIMENT.format(model=str(write_model(folder / "model"))))
        runs = {}
        for turn, changed in (("cold", 0), ("1 % changed", n_changed), ("unchanged", n_changed)):
            write_inputs(folder, n, n_words=options.words, changed=changed)
            runs[turn] = one = child(RUN, str(experiment), environment=environment)
            idle = child(IDLE, *one["model"], environment=environment)["peak"]
            stages = {stage["stage"]: stage for stage in one["report"]["stages"]}
            seconds = {
                stage: round(line["seconds"], 2)
                for stage, line in stages.items()
                if not line["cached"]
            }
            print(
                f"{turn}: {one['cpu']:.1f} s CPU ({one['cpu'] / runs['cold']['cpu']:.3f} of cold), "
                f"peak above idle {(one['peak'] - idle) / 1e6:.0f} MB "
                f"({(one['peak'] - idle) / (4 * DIM * n):.2f} x the vectors), "
                f"{one['report']['sizes']['n_encoded']} of {n} texts encoded, "
                f"model libraries {one['model'] or 'not loaded'}, {seconds}",
                flush=True,
            )

        nothing = runs["unchanged"]["cpu"]
        share = (runs["1 % changed"]["cpu"] - nothing) / (runs["cold"]["cpu"] - nothing)
        print(f"above a run with nothing to compute: 1 % changed costs {share:.3f} of cold")


if __name__ == "__main__":
    main()
