"""``rankhouse trec``: score run files against qrels, with no Prefect and no database."""

from __future__ import annotations

import click

from flows.printing import format_option

DEFAULT_MEASURES = ("ap", "ndcg@10", "rr", "precision@10", "recall@100")


@click.command()
@click.argument("qrels")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-m",
    "--measure",
    "measures",
    multiple=True,
    default=DEFAULT_MEASURES,
    metavar="MEASURE",
    help="A measure, such as ndcg@10 or rbp(p=0.8); `rankhouse measures` lists them. Results "
    "bear its whole name: rbp is rbp(p=0.8), err@3 is err@3(max_grade=4). Repeatable.  "
    f"[default: {', '.join(DEFAULT_MEASURES)}]",
)
@click.option("--per-query", is_flag=True, help="Print the values of every query too.")
@click.option(
    "--complete/--intersection",
    "is_complete",
    default=True,
    help="A query that a run misses counts as 0, or is left out.  [default: complete]",
)
@click.option(
    "--level",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="From this grade on a document is relevant.",
)
@click.option("--judged-only", is_flag=True, help="Take unjudged documents out of the runs first.")
@click.option(
    "--score-dtype",
    type=click.Choice(["float64", "float32"]),
    default="float64",
    show_default=True,
    help="Compare scores as trec_eval 10 does, or as trec_eval 9 and pytrec_eval.",
)
@click.option(
    "--ties",
    type=click.Choice(["trec", "input"]),
    default="trec",
    show_default=True,
    help="Order equal scores by document id, descending, or as they come in the file.",
)
@click.option(
    "--tie-report",
    is_flag=True,
    help="Also say how many queries depend on ties, and between what each mean could lie.",
)
@format_option
def command(
    qrels: str,
    runs: tuple[str, ...],
    measures: tuple[str, ...],
    per_query: bool,
    is_complete: bool,
    level: int,
    judged_only: bool,
    score_dtype: str,
    ties: str,
    tie_report: bool,
    format: str,
) -> None:
    """Score TREC run files against a qrels file, as trec_eval does.

    Files may be plain, gzip or zstd; - is standard input. Every query of QRELS counts. With
    several runs there is a row for each, with p values against the first: paired randomisation,
    10,000 resamples, two-sided, corrected after Holm over all of them, over the n_pairs queries
    that both runs count; empty where there is none. With --per-query, the row without a query is
    the mean. The files of the example are yours.

    Example: rankhouse trec qrels.txt bm25.run -m ndcg@10 -m "rbp(p=0.8)"
    """
    from flows.printing_scores import print_scores
    from flows.scoring_files import score_files
    from tasks.trec_scoring import TrecOptions

    options = TrecOptions(level, judged_only, score_dtype, ties)  # type: ignore[arg-type]
    scored = score_files(
        qrels, runs, measures, options, is_complete=is_complete, reports_ties=tie_report
    )
    print_scores(scored, per_query=per_query, is_complete=is_complete, format=format)
