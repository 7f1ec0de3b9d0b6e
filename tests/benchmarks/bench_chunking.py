"""Chunking of lines without structure: linear, where the splitters alone take the square.

python tests/benchmarks/bench_chunking.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from schemas.experiment import Chunking
from schemas.records import Document
from tasks.chunking import chunk_document

SIZE, OVERLAP = 800, 100
LINES = {"words": "lorem ipsum dolor ", "Chinese": "你好世界", "sentences": "This is a sentence. "}
SHORT, LONG = 100_000, 5_000_000


def cpu_seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def seconds(method: str, text: str) -> float:
    config = Chunking.model_validate({"method": method, "size": SIZE, "overlap": OVERLAP})
    return cpu_seconds(lambda: chunk_document(Document("d", text), config))


def main() -> None:
    print(f"CPU seconds; size {SIZE}, overlap {OVERLAP}, one line")
    libraries = {"recursive": TextSplitter, "markdown": MarkdownSplitter}
    for name, unit in LINES.items():
        short, long = (unit * (n // len(unit) + 1) for n in (SHORT, LONG))
        for method in ("fixed", "recursive", "sentences", "markdown"):
            ours = seconds(method, short)
            row = f"{name:10}{method:11}100 kB {ours:6.2f}   5 MB {seconds(method, long):6.2f}"
            if method in libraries:
                splitter = libraries[method](SIZE, OVERLAP)
                alone = cpu_seconds(lambda s=splitter, t=short: s.chunk_indices(t))  # type: ignore[misc]
                twice = cpu_seconds(lambda s=splitter, t=short: s.chunk_indices(t * 2))  # type: ignore[misc]
                row += f"   library alone: 100 kB {alone:6.2f}, 200 kB {twice / alone:.1f} x that"
            print(row)


if __name__ == "__main__":
    main()
