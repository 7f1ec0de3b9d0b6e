"""A changed corpus: what is embedded again, what it costs, and how much memory it takes.

Three evaluations by the command's own flow, each in a process of its own against one home: cold;
with one percent of the chunks changed, each in a document of its own; and again with nothing
changed. Documents are pieces of Python's manual, cut into ten windows each and embedded by
wordllama's static weights. CPU seconds (user and system), since other work shares the machine.
Beside each run a process that only imports every module that the run had imported: the peak above
its peak is compared with the bytes of the vectors. Such a process has not called its libraries,
whose pages count once they are used, so the same run of a few chunks is measured too.

    PYTHONPATH=. python tests/benchmarks/bench_incremental.py [--chunks 100000] [--size 2100]
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
from pydoc_data.topics import topics
from typing import Any

import numpy as np

from flows.servers import prefect_server
from schemas.home import Home

DIM = 256
PIECE = 16  # words
WINDOWS = 10  # of a document
ORIGINAL, MENDED = " as it was", " is mended"
FEW = 200  # chunks: as good as none
IDLE = """
import contextlib, importlib, json, re, sys
for name in json.load(sys.stdin):
    with contextlib.suppress(ImportError):  # what has no file of its own
        importlib.import_module(name)
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
    "modules": sorted(sys.modules),
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
method = "fixed"
size = {size}
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


def write_inputs(folder: Path, n: int, *, size: int, changed: int) -> None:
    """Documents of ten windows of ``size`` characters; ``changed`` of them end anew."""
    rng = random.Random(7)
    words = " ".join(topics.values()).split()

    def piece(n_words: int) -> str:
        start = rng.randrange(len(words) - n_words)
        return " ".join(words[start : start + n_words])

    with (folder / "corpus.jsonl").open("w") as file:
        for i in range(n // WINDOWS):
            text = ""
            while len(text) < WINDOWS * size:
                text += piece(PIECE) + " "
            text = text[: WINDOWS * size - len(MENDED)] + (MENDED if i < changed else ORIGINAL)
            file.write(json.dumps({"doc_id": f"d{i:06}", "text": text}) + "\n")
    with (folder / "benchmark.jsonl").open("w") as file:
        for i in range(200):
            qrels = [{"doc_id": f"d{rng.randrange(n // WINDOWS):06}"}]
            query = {"query_id": f"q{i}", "text": piece(8), "qrels": qrels}
            file.write(json.dumps(query) + "\n")


def child(
    script: str, *arguments: str, environment: dict[str, str], given: str = ""
) -> dict[str, Any]:
    command = [sys.executable, "-c", script, *arguments]
    result = subprocess.run(
        command,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    if result.returncode:
        sys.exit(result.stderr)
    answer: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument(
        "--size", type=int, default=2100, help="characters of a chunk, 2,100: 512 tokens"
    )
    options = parser.parse_args()
    n = options.chunks
    with (
        tempfile.TemporaryDirectory() as name,
        prefect_server(Home(Path(name) / "server")) as server,
    ):
        server.wait_until_ready()
        folder = Path(name)
        environment = {**os.environ, "PREFECT_API_URL": str(server.url), "OMP_NUM_THREADS": "1"}
        environment |= {"POLARS_MAX_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # nor does a user compile in every run
        experiment = folder / "incremental.toml"
        experiment.write_text(
            EXPERIMENT.format(model=str(write_model(folder / "model")), size=options.size)
        )
        runs: dict[str, dict[str, Any]] = {}
        for turn, n_chunks, n_changed in (
            ("a few chunks", FEW, 0),
            ("cold", n, 0),
            ("1 % changed", n, n // 100),
            ("unchanged", n, n // 100),
        ):
            write_inputs(folder, n_chunks, size=options.size, changed=n_changed)
            home = f"{name}/home-{n_chunks}"
            runs[turn] = one = child(
                RUN, str(experiment), environment=environment | {"RANKHOUSE_HOME": home}
            )
            idle = child(IDLE, environment=environment, given=json.dumps(one["modules"]))["peak"]
            model = sorted({"torch", "sentence_transformers"} & set(one["modules"]))
            seconds = {
                stage["stage"]: round(stage["seconds"], 2)
                for stage in one["report"]["stages"]
                if not stage["cached"]
            }
            vectors = 4 * DIM * n
            print(
                f"{turn}: {one['cpu']:.1f} s CPU, peak {one['peak'] / 1e6:.0f} MB, above idle "
                f"{(one['peak'] - idle) / 1e6:.0f} MB ({(one['peak'] - idle) / vectors:.2f} x the "
                f"vectors of {n}), {one['report']['sizes']['n_encoded']} of {n_chunks} encoded, "
                f"model libraries {model or 'not loaded'}, {seconds}",
                flush=True,
            )
        cold, changed, few = (runs[turn] for turn in ("cold", "1 % changed", "a few chunks"))
        print(
            f"1 % changed / cold: {changed['cpu'] / cold['cpu']:.3f} of the CPU; above a few "
            f"chunks {(changed['cpu'] - few['cpu']) / (cold['cpu'] - few['cpu']):.3f}, and "
            f"{(changed['peak'] - few['peak']) / vectors:.2f} x the vectors"
        )


if __name__ == "__main__":
    main()
