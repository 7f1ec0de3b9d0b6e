"""Which chunks or documents are relevant to which query, and what ground truth is lost.

Labels do not depend on rankings: they hold every item with a gain or judgement. Lost ground
truth counts as one relevant item, with its grade, that is never retrieved.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from schemas.counting import counted
from schemas.errors import InputError
from schemas.experiment import Labelling
from schemas.frames import LABELS
from tasks.covering import label_by_spans
from tasks.grounding import Quotes
from tasks.matching import find_answers
from tasks.truth import TruthRows, count_truth, note_unscored

ANSWER_GAIN = 1
"""What a chunk that contains an answer is worth."""

N_EXAMPLES = 10
"""Examples of each kind of lost ground truth that a strict run names."""

_CAUSES = {
    "answer_absent": "none of a query's answers is in any chunk",
    "document_gone": "a document is not in the corpus",
    "quote_absent": "a quote is not in its document",
    "quote_ambiguous": "a quote stands in its document more than once",
    "out_of_range": "offsets are out of range",
    "no_chunk": "no chunk covers enough of a span",
}
COLUMNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "answer_text": (("doc_id",), ("chunk_id", "doc_id", "start", "end", "text")),
    "span": (("doc_id", "text"), ("chunk_id", "doc_id", "start", "end")),
    "document": (("doc_id",), ("chunk_id",)),
}
"""What each method reads of DOCUMENTS and of CHUNKS."""

_FIELDS = {"answer_text": "answers", "span": "spans", "document": "qrels and spans"}


@dataclass(frozen=True, slots=True)
class Labelled:
    """The labels of one corpus for one benchmark, by one method."""

    labels: pl.DataFrame  # LABELS, in the order of the queries, then kind, then item_id
    truth: pl.DataFrame  # TRUTH, one row a query
    notes: pl.DataFrame  # TRUTH_NOTES, in the order of the queries
    quotes: dict[tuple[str, str, int, int], str]  # new ones, of spans that had none
    figures: dict[str, int]


def label_corpus(
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    queries: pl.DataFrame,
    *,
    config: Labelling,
    known_quotes: Quotes,
) -> Labelled:
    """Label every item that has a gain or a judgement, retrieved or not.

    Args:
        documents: DOCUMENTS, of which the method's ``COLUMNS`` are read.
        chunks: CHUNKS, likewise; what is labelled by ``answer_text`` and ``span``.
        queries: QUERIES.
        config: the method, and from which grade on an item is relevant.
        known_quotes: of spans that were written without one.
    """
    quotes: dict[tuple[str, str, int, int], str] = {}
    if config.method == "answer_text":
        labels, rows = _label_by_answers(chunks, queries, config.level)
        has_field = pl.col("answers").is_not_null()
    elif config.method == "span":
        rows, quotes = label_by_spans(documents, chunks, queries, config, known_quotes)
        labels, has_field = rows.labels, pl.col("spans").is_not_null()
    else:
        rows = _label_documents(documents, queries, config.level)
        labels = rows.labels
        has_field = pl.col("qrels").is_not_null() | pl.col("spans").is_not_null()
    labels = _in_order(labels, queries, "kind", "item_id")
    truth = count_truth(labels, queries.select("query_id", has_field=has_field), config.level)
    unscored = note_unscored(truth, field=_FIELDS[config.method], level=config.level)
    notes = _in_order(pl.concat([rows.notes, unscored]), queries)
    return Labelled(labels, truth, notes, quotes, _figures(labels, truth, notes))


def _label_by_answers(
    chunks: pl.DataFrame, queries: pl.DataFrame, level: int
) -> tuple[pl.DataFrame, TruthRows]:
    """Chunks that contain an answer; queries whose answers are in none of them lost one item."""
    rows = TruthRows(chunks["chunk_id"])
    asked = queries.select("query_id", answer="answers").filter(pl.col("answer").list.len() > 0)
    pairs = asked.explode("answer")
    answers = pairs["answer"].unique(maintain_order=True)
    matches = find_answers(chunks["text"].to_list(), answers.to_list()).join(
        answers.to_frame().with_row_index("answer_index"), on="answer_index"
    )
    relevant = matches.select("text_index", "answer").join(pairs, on="answer")
    labels = (
        relevant.select("query_id", "text_index")
        .unique()
        .join(chunks.with_row_index("text_index"), on="text_index")
        .with_columns(
            kind=pl.lit("item"), item_id="chunk_id", gain=pl.lit(ANSWER_GAIN, dtype=pl.Int64)
        )
        .select(LABELS.names())
    )
    lost = asked.join(labels, on="query_id", how="anti", maintain_order="left")
    for query_id, given in lost.iter_rows() if level <= ANSWER_GAIN else ():
        named = ", ".join(
            repr(answer if len(answer) <= 80 else answer[:79] + "…") for answer in given[:3]
        )
        reason = f"none of its {counted(len(given), 'answer')} is in any chunk: {named}"
        rows.add_lost(
            query_id, "answer", ANSWER_GAIN, doc_id=None, cause="answer_absent", reason=reason
        )
    return pl.concat([labels, rows.labels]), rows


def _label_documents(documents: pl.DataFrame, queries: pl.DataFrame, level: int) -> TruthRows:
    """Judged documents with their best grade; relevant ones that left the corpus are lost."""
    present = set(documents["doc_id"])
    rows = TruthRows(present)
    for query_id, qrels, spans in queries.select("query_id", "qrels", "spans").iter_rows():
        grades: dict[str, int] = {}
        for judged in [*(qrels or ()), *(spans or ())]:
            doc_id, grade = judged["doc_id"], judged["grade"]
            grades[doc_id] = max(grade, grades.get(doc_id, grade))
        for doc_id, grade in grades.items():
            if doc_id in present or grade < level:
                rows.add_item(query_id, doc_id, grade, (doc_id, None, None))
            else:
                reason = "the document is not in the corpus"
                rows.add_lost(
                    query_id, doc_id, grade, doc_id=doc_id, cause="document_gone", reason=reason
                )
    return rows


def _in_order(rows: pl.DataFrame, queries: pl.DataFrame, *by: str) -> pl.DataFrame:
    """In the order of the queries, then by the columns, else as they were."""
    positions = queries.select("query_id").with_row_index("position")
    joined = rows.join(positions, on="query_id", maintain_order="left")
    return joined.sort("position", *by, maintain_order=True).select(rows.columns)


def _figures(labels: pl.DataFrame, truth: pl.DataFrame, notes: pl.DataFrame) -> dict[str, int]:
    kinds = labels["kind"].value_counts()
    n_of = dict(kinds.iter_rows())
    n_noted = dict(notes["note"].value_counts().iter_rows())
    return {
        "n_items": n_of.get("item", 0),
        "n_lost": n_of.get("lost", 0),
        "n_queries": truth.height,
        "n_scored": truth["null_reason"].null_count(),
        "n_located_anew": n_noted.get("located_anew", 0),
        "n_no_judged": n_noted.get("no_judged", 0),
        "n_no_relevant": n_noted.get("no_relevant", 0),
    }


def list_lost(notes: pl.DataFrame) -> list[str]:
    """What is lost, for people: each kind with its number and up to ten examples.

    Args:
        notes: TRUTH_NOTES; what was located anew is not lost.
    """
    lost = notes.filter(pl.col("note") == "lost")
    lines = []
    for cause, text in _CAUSES.items():
        rows = lost.filter(pl.col("cause") == cause)
        if rows.is_empty():
            continue
        lines.append(f"  {text} ({rows.height}):")
        lines.extend(f"    {_example(row)}" for row in rows.head(N_EXAMPLES).iter_rows(named=True))
        if rows.height > N_EXAMPLES:
            lines.append(f"    … and {rows.height - N_EXAMPLES} more")
    return lines


def check_strict(notes: pl.DataFrame) -> None:
    """Refuse a benchmark with lost ground truth.

    Args:
        notes: TRUTH_NOTES.

    Raises:
        InputError: ground truth is lost; see ``list_lost``.
    """
    n_queries = notes.filter(pl.col("note") == "lost")["query_id"].n_unique()
    if n_queries:
        raise InputError(
            f"the ground truth of {n_queries} quer{'y' if n_queries == 1 else 'ies'} is lost, "
            "and benchmark.strict is on:\n"
            + "\n".join(list_lost(notes))
            + "\nCorrect the benchmark or the corpus, or set benchmark.strict = false."
        )


def _example(note: dict[str, object]) -> str:
    where = "" if note["doc_id"] is None else f" {note['doc_id']}"
    if note["start"] is not None:
        where += f" {note['start']}-{note['end']}"
    return f"query {note['query_id']}{where}: {note['reason']}"
