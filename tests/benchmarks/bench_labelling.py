"""What labelling costs: 20,000 chunks, 2,000 queries, one thread.

Run: POLARS_MAX_THREADS=1 python tests/benchmarks/bench_labelling.py
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[2]))

import polars as pl

from schemas.experiment import Labelling
from schemas.frames import CHUNKS, DOCUMENTS, QUERIES
from tasks.labelling import label_corpus
from tasks.matching import AnswerMatcher, normalise

N_CHUNKS, N_QUERIES, N_WORDS = 20_000, 2_000, 130
N_ONE_BY_ONE = 20  # queries that the plain loop is timed on


def make_corpus(rng: random.Random) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Words with Zipf's frequencies, a chunk in twenty with Chinese; 20 chunks a document."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    documents, chunks = [], []
    for number in range(N_CHUNKS // 20):
        texts = [" ".join(rng.choices(words, weights, k=N_WORDS)) + " " for _ in range(20)]
        texts[0] += "北京是中国的首都。"
        doc_id, start = f"d{number}", 0
        for text in texts:
            end = start + len(text)
            chunks.append((f"{doc_id}#{start}-{end}", doc_id, start, end, text, None))
            start = end
        documents.append((doc_id, None, "".join(texts), "{}"))
    queries = []
    for number in range(N_QUERIES):
        doc_id, _, text, _ = rng.choice(documents)
        start = rng.randrange(len(text) - 100)
        span = {"doc_id": doc_id, "start": start, "end": start + 100, "grade": 1}
        answer = " ".join(rng.choices(words, k=rng.randint(1, 2)))
        row = {"query_id": f"q{number}", "text": "?", "answers": [answer], "spans": [span]}
        queries.append(dict.fromkeys(QUERIES) | row)
    return (
        pl.DataFrame(documents, schema=DOCUMENTS, orient="row"),
        pl.DataFrame(chunks, schema=CHUNKS, orient="row"),
        pl.DataFrame(queries, schema=QUERIES),
    )


def seconds(action: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    action()
    return time.process_time() - start


def main() -> None:
    """Print CPU seconds of each method, and of the plain loop over normalised chunks."""
    documents, chunks, queries = make_corpus(random.Random(1))
    for method in ("answer_text", "span", "document"):
        config = Labelling.model_validate({"method": method})

        def label(config: Labelling = config) -> object:
            return label_corpus(documents, chunks, queries, config=config, known_quotes={})

        print(f"{method:12} {seconds(label):6.2f} s of CPU")
    normalised = [normalise(text) for text in chunks["text"]]
    matchers = [AnswerMatcher(given) for given in queries["answers"].head(N_ONE_BY_ONE).to_list()]
    plain = seconds(lambda: [m.matches_normalised(text) for m in matchers for text in normalised])
    print(f"one by one   {plain * N_QUERIES / N_ONE_BY_ONE:6.2f} s of CPU for answer_text")


if __name__ == "__main__":
    main()
