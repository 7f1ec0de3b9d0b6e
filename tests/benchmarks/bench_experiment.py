"""What a grid of 12 on docs-qa costs beside its distinct stages alone.

3 chunkings x 2 models x 2 methods of retrieval. The figure is the grid's wall time over the sum of
what its distinct stages took plus 12 empty flows, all measured in this run against the same Prefect
server; the limit is 1.15. Then the same grid again, which must compute nothing.

RANKHOUSE_SHARED_DATA names the folder that holds docs-qa; by default it lies beside the checkout,
as for tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path

import duckdb

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from flows.servers import prefect_server  # noqa: E402
from schemas.home import Home  # noqa: E402

GRID = """
name = "docs-qa"
measures = ["hit@5", "ndcg@10", "rr@10"]
[corpus]
path = "corpus.jsonl"
[benchmark]
path = "benchmark.jsonl"
[retrieval]
depth = 50
[labelling]
method = "document"
[grid]
"chunking.size" = [400, 800, 1600]
"embedding.model" = ["all-MiniLM-L6-v2", "static"]
"retrieval.method" = ["dense", "hybrid"]
"""
EMPTY_FLOWS = """
import time
from prefect import flow
@flow
def empty(): return None
@flow
def twelve():
    for _ in range(12):
        empty()
empty()
started = time.perf_counter()
twelve()
print(time.perf_counter() - started)
"""
SAVE_STATIC = """
import sys
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
weights = load_file(sys.argv[2])["embedding.weight"]
modules = [StaticEmbedding(Tokenizer.from_file(sys.argv[3]), embedding_weights=weights)]
SentenceTransformer(modules=modules, device="cpu").save(sys.argv[1], create_model_card=False)
"""


def write_project(folder: Path) -> Path:
    """docs-qa, a static model from the weights of wordllama, and the grid; returns its file."""
    beside = REPOSITORY.parent / "shared" / "data"
    data = Path(os.environ.get("RANKHOUSE_SHARED_DATA", beside)) / "docs-qa"
    if not data.is_dir():
        sys.exit(f"there is no {data}: set RANKHOUSE_SHARED_DATA to the folder that holds docs-qa")
    sections = json.loads((data / "anthropic_docs.json").read_text())
    questions = json.loads((data / "docs_evaluation_dataset.json").read_text())
    documents = [
        {"doc_id": row["chunk_link"], "title": row["chunk_heading"], "text": row["text"]}
        for row in sections
    ]
    queries = [
        {
            "query_id": row["id"],
            "text": row["question"],
            "qrels": [{"doc_id": link} for link in row["correct_chunks"]],
        }
        for row in questions
    ]
    for name, rows in (("corpus", documents), ("benchmark", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    package = distribution("wordllama")
    files = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")
    paths = [str(package.locate_file(f"wordllama/{name}")) for name in files]
    subprocess.run([sys.executable, "-c", SAVE_STATIC, folder / "static", *paths], check=True)
    file = folder / "grid.toml"
    file.write_text(GRID)
    return file


def run_grid(file: Path, environment: dict[str, str]) -> float:
    """Seconds of the grid's flow."""
    result = subprocess.run(
        [sys.executable, "-m", "flows.cli", "experiment", str(file), "--format", "json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"^grid \S+, ([\d.]+) s: (.*)$", result.stderr, flags=re.MULTILINE)
    if result.returncode != 0 or found is None:
        raise SystemExit(result.stderr)
    print(f"  {found[2]}")
    return float(found[1])


def main() -> None:
    """Print the wall times and their ratio."""
    with tempfile.TemporaryDirectory() as name, prefect_server(Home(Path(name) / "p")) as server:
        folder = Path(name)
        server.wait_until_ready()
        environment = {
            **os.environ,
            "PREFECT_API_URL": str(server.url),
            "PREFECT_LOGGING_LEVEL": "CRITICAL",
            "RANKHOUSE_HOME": str(folder / "home"),
            "PYTHONPATH": str(REPOSITORY),
            "HF_HUB_OFFLINE": "1",
        }
        file = write_project(folder)
        empty = float(
            subprocess.run(
                [sys.executable, "-c", EMPTY_FLOWS],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        cold, again = run_grid(file, environment), run_grid(file, environment)
        with duckdb.connect(str(folder / "home" / "published.duckdb"), read_only=True) as published:
            rows = published.execute(
                "select grid_id, count(*) filter (where not cached), "
                "count(distinct stage_key) filter (where not cached), "
                "sum(stages.seconds) filter (where not cached) "
                "from stages join runs using (run_id) group by 1 order by 1"
            ).fetchall()
    (_, n_computed, n_distinct, seconds), (_, n_again, _, _) = rows
    print(f"stages computed: {n_computed}, of them different: {n_distinct}; again: {n_again}")
    print(f"distinct stages {seconds:.1f} s, 12 empty flows {empty:.1f} s")
    print(f"grid {cold:.1f} s, ratio {cold / (seconds + empty):.2f} (limit 1.15)")
    print(f"grid again {again:.1f} s")


if __name__ == "__main__":
    main()
