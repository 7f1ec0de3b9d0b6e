"""The text of an experiment file and a benchmark for somebody's own documents."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schemas.errors import UsageError
from schemas.experiment import LabelMethod
from schemas.records import Document, Query
from tasks.matching import find_answers

EXPERIMENT_FILE = "experiment.toml"
BENCHMARK_FILE = "benchmark.jsonl"

_METHODS: dict[LabelMethod, str] = {
    "document": "a document is relevant when the query's qrels name it",
    "answer_text": "a chunk is relevant when one of the query's answers stands in it",
    "span": "a chunk is relevant when it covers enough of a gold span",
}
_MEASURES: dict[LabelMethod, tuple[str, ...]] = {
    "document": ("hit@1", "hit@5", "recall@5", "rr@10", "ndcg@10"),
    "answer_text": ("hit@1", "hit@5", "recall@5", "rr@10", "ndcg@10", "evidence_recall@2000chars"),
    "span": ("hit@1", "hit@5", "recall@5", "rr@10", "ndcg@10", "evidence_recall@2000chars"),
}

_TEMPLATE = """\
# One experiment of Rankhouse. Run it: rankhouse evaluate {file}
# Change a setting for one run:       rankhouse evaluate {file} --set chunking.size=400
{name}

# What is measured; `rankhouse measures` defines each.
measures = [{measures}]

[corpus]
{corpus}

[benchmark]
{benchmark}

[chunking]                      # how documents are cut into what is indexed
method = "recursive"            # or "none", "fixed", "sentences", "markdown"
unit = "characters"             # or "tokens" of the embedding model
size = 800                      # at most
overlap = 0

[embedding]                     # any sentence-transformers model, by name or path; this one reads
model = "all-MiniLM-L6-v2"      # English; many languages: "paraphrase-multilingual-MiniLM-L12-v2"

[retrieval]
depth = 50                      # how much is retrieved for each query; no cutoff may be deeper

[labelling]
{method}
"""


def experiment_text(
    *, name: str, corpus: str, benchmark: str, method: LabelMethod, file: str = EXPERIMENT_FILE
) -> str:
    """A commented experiment file.

    Args:
        name: of the experiment; see ``experiment_name``.
        corpus: path of the documents, relative to the file.
        benchmark: path of the benchmark, relative to the file.
        method: how labels are given.
        file: the file's own name, for its first lines.

    Raises:
        UsageError: a path that TOML cannot hold.
    """
    return _TEMPLATE.format(
        file=file,
        name=_setting("name", name, "its runs are compared with those of this name"),
        measures=", ".join(toml_string(measure) for measure in _MEASURES[method]),
        corpus=_setting("path", corpus, "the documents; paths are relative to this file"),
        benchmark=_setting("path", benchmark, "queries and what is relevant to them, one a line"),
        method=_setting("method", method, _METHODS[method]),
    )


def _setting(key: str, value: str, comment: str) -> str:
    return f"{key} = {toml_string(value)}".ljust(31) + f" # {comment}"


def toml_string(text: str) -> str:
    """A TOML basic string.

    Raises:
        UsageError: the text is a file name that is not UTF-8 and that TOML therefore cannot hold.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{text!r}: the name is not UTF-8, and a TOML file cannot hold it; rename it"
        ) from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def experiment_name(folder: Path) -> str:
    """The folder's name, as far as an experiment may bear it; else ``experiment``."""
    name = re.sub(r"[/\\\x00-\x1f\x7f\ud800-\udfff]+", "-", folder.name).strip()
    return name[:100].rstrip() or "experiment"


def path_from(folder: Path, to: Path) -> str:
    """The path that, written into a file in ``folder``, names ``to``.

    Relative where it can be; absolute across drives, and where a leading ``~`` would be read as
    somebody's home.
    """
    try:
        relative = os.path.relpath(to.resolve(), folder.resolve())
    except ValueError:
        return str(to.resolve())
    return str(to.resolve()) if relative.startswith("~") else Path(relative).as_posix()


def benchmark_text(queries: Iterable[Query]) -> str:
    """JSONL, a query a line; what is absent is left out."""
    return "".join(json.dumps(_record(query), ensure_ascii=False) + "\n" for query in queries)


def _record(query: Query) -> dict[str, Any]:
    record = {key: value for key, value in asdict(query).items() if value is not None}
    if not query.tags:
        del record["tags"]
    return record


def lost_answers(documents: Sequence[Document], queries: Sequence[Query]) -> list[str]:
    """Ids of the queries none of whose answers stands in any document."""
    answers = [(query.query_id, answer) for query in queries for answer in query.answers or ()]
    found = find_answers([doc.text for doc in documents], [answer for _, answer in answers])
    hits = {answers[index][0] for index in found["answer_index"].unique()}
    return [query.query_id for query in queries if query.answers and query.query_id not in hits]
