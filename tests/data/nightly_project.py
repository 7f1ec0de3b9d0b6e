"""A suite whose effects are large enough to be told: sixty boats, a question about each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

COLOURS = ("amber", "black", "copper", "green", "ivory", "purple", "silver", "yellow")
ANIMALS = ("beaver", "camel", "eagle", "frog", "horse", "lion", "spider", "whale")
BOATS = [f"{colour} {animal}" for colour in COLOURS for animal in ANIMALS][:60]
HARBOURS = ("Antwerp", "Bergen", "Cork", "Dover", "Emden")

EXPERIMENT = """
measures = ["hit@1", "ndcg@10"]
[corpus]
path = "{corpus}"
format = "folder"
[benchmark]
path = "benchmark.jsonl"
[chunking]
method = "none"
[retrieval]
method = "bm25"
depth = 10
[labelling]
method = "document"
[execution]
threads = 1
"""
SUITE = """
[[experiment]]
path = "boats.toml"
[[gate]]
measure = "ndcg@10"
delta = 0.05
"""


def write_boats(folder: Path, boats: Iterable[str] = BOATS) -> None:
    """One document a boat."""
    folder.mkdir(parents=True, exist_ok=True)
    for boat in boats:
        number = BOATS.index(boat)
        harbour = HARBOURS[number % len(HARBOURS)]
        text = f"The {boat} sails from {harbour} and takes {number + 20} cars. Its crew is small."
        (folder / f"{number:02}.txt").write_text(text, encoding="utf-8")


def write_benchmark(folder: Path, *, question: str = "Where does the {boat} sail from?") -> None:
    """One query a boat, of which its document is relevant."""
    rows = [
        {"query_id": f"q{number:02}", "text": question.format(boat=boat)}
        | {"qrels": [{"doc_id": f"{number:02}.txt"}]}
        for number, boat in enumerate(BOATS)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "benchmark.jsonl").write_text(text, encoding="utf-8")


def write_suite(folder: Path, *, corpus: str = "docs", suite: str = SUITE) -> Path:
    """The boats, their benchmark, an experiment without any model, and a suite of it."""
    write_boats(folder / "docs")
    write_benchmark(folder)
    (folder / "boats.toml").write_text(EXPERIMENT.format(corpus=corpus), encoding="utf-8")
    file = folder / "nightly.toml"
    file.write_text(suite, encoding="utf-8")
    return file
