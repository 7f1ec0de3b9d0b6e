"""``rankhouse init``: an experiment file and a benchmark for somebody's own documents."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.printing import format_option, print_rows, say
from schemas.counting import counted

if TYPE_CHECKING:
    from schemas.records import Document, Query

EXAMPLES_NAMED = 10


@click.command(name="init")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--questions",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="Your questions: a CSV file with the columns question, answer and, if you like, query_id.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where to write the two files; by default here.",
)
@format_option
def command(folder: Path, questions: Path | None, into: Path, format: str) -> None:
    """Write experiment.toml and benchmark.jsonl for the documents in FOLDER.

    Nothing is overwritten. With --questions a chunk is relevant when it contains the answer.
    Without, the benchmark holds example queries made from headings: replace them by your own.
    In the example docs is your folder, and questions.csv has the columns question and answer.

    Example: rankhouse init docs --questions questions.csv
    """
    from tasks import scaffolding
    from tasks.headings import example_queries
    from tasks.new_files import refuse_existing, write_new_files

    paths = [into / scaffolding.BENCHMARK_FILE, into / scaffolding.EXPERIMENT_FILE]
    refuse_existing(paths)
    documents = _documents(folder)
    queries = example_queries(documents) if questions is None else _questions(questions)
    experiment = scaffolding.experiment_text(
        name=scaffolding.experiment_name(folder.resolve()),
        corpus=scaffolding.path_from(into, folder),
        benchmark=scaffolding.BENCHMARK_FILE,
        method="document" if questions is None else "answer_text",
    )
    benchmark = scaffolding.benchmark_text(queries)
    write_new_files(
        into, {scaffolding.BENCHMARK_FILE: benchmark, scaffolding.EXPERIMENT_FILE: experiment}
    )

    kind = "example queries" if questions is None else "queries with answers"
    rows = [
        {
            "file": str(paths[1]),
            "holds": f"an experiment over {counted(len(documents), 'document')}",
        },
        {"file": str(paths[0]), "holds": f"{len(queries)} {kind}"},
    ]
    print_rows(rows, ["file", "holds"], format=format)
    say(_remark(documents, queries, is_example=questions is None))
    say(f"next: rankhouse evaluate {shlex.quote(str(paths[1]))}")


def _documents(folder: Path) -> list[Document]:
    """Read the corpus as an evaluation would, with the same errors."""
    from schemas.experiment import Corpus
    from tasks.loading import load_corpus, survey_corpus

    return list(load_corpus(survey_corpus(Corpus(path=str(folder)))))


def _questions(path: Path) -> list[Query]:
    from schemas.experiment import Benchmark
    from tasks.loading import load_benchmark, survey_benchmark

    source = survey_benchmark(Benchmark(path=str(path), format="csv"))
    return load_benchmark(source, split=None)


def _remark(documents: list[Document], queries: list[Query], *, is_example: bool) -> str:
    """What the reader should know about the benchmark before believing a number."""
    from tasks.scaffolding import lost_answers

    if is_example:
        return (
            'the queries are examples (tags: ["example"]): a heading stands word for word in its '
            "document, so they show that the set-up works, not how good it is; put yours in"
        )
    lost = lost_answers(documents, queries)
    if not lost:
        n_queries = counted(len(queries), "query")
        return f"every query has an answer that stands in a document ({n_queries})"
    shown = ", ".join(lost[:EXAMPLES_NAMED]) + (", …" if len(lost) > EXAMPLES_NAMED else "")
    return (
        "queries whose answer stands in no document word for word, and which count as not found: "
        f"{len(lost)} of {len(queries)}: {shown}"
    )
