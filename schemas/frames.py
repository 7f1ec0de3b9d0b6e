"""The columns of every artifact that is a frame, as Polars schemas.

Ids are strings, always. Offsets are characters (code points), half open.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl


def _schema(columns: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.Schema:
    """A schema with nested columns; ``pl.Schema``'s own signature does not infer them."""
    return pl.Schema(columns)


SPAN = pl.Struct(
    {
        "doc_id": pl.String,
        "start": pl.Int64,
        "end": pl.Int64,
        "quote": pl.String,
        "grade": pl.Int64,
    }
)
JUDGEMENT = pl.Struct({"doc_id": pl.String, "grade": pl.Int64})

DOCUMENTS = pl.Schema(
    {
        "doc_id": pl.String,
        "title": pl.String,  # NULL: none
        "text": pl.String,
        "metadata": pl.String,  # JSON object
    }
)
CHUNKS = pl.Schema(
    {
        "chunk_id": pl.String,  # doc_id#start-end
        "doc_id": pl.String,
        "start": pl.Int64,
        "end": pl.Int64,
        "text": pl.String,
        "title": pl.String,  # stands before the text for the model; NULL: not used
    }
)
QUERIES = _schema(
    {
        "query_id": pl.String,
        "text": pl.String,
        "tags": pl.List(pl.String),
        "split": pl.String,
        "answers": pl.List(pl.String),  # NULL: absent; []: given but empty. Likewise below.
        "spans": pl.List(SPAN),
        "qrels": pl.List(JUDGEMENT),
        "response": pl.String,
        "reference_contexts": pl.List(pl.String),
    }
)
BENCHMARK = _schema(  # QUERIES as they are evaluated
    {
        **QUERIES,
        "filter": pl.String,  # JSON object: metadata that a document must have; NULL: none
    }
)
LATENCIES = pl.Schema({"query_id": pl.String, "milliseconds": pl.Float64})
RANKINGS = pl.Schema(
    {
        "query_id": pl.String,
        "rank": pl.Int64,  # from 1
        "item_id": pl.String,  # chunk_id, or doc_id with document labels
        "chunk_id": pl.String,  # with document labels: the document's best chunk
        "retrieval_score": pl.Float64,
    }
)
FAILED_QUERIES = pl.Schema(
    {
        "query_id": pl.String,  # its values are `failed`; it has no ranking
        "reason": pl.String,  # for people
    }
)
UNMATCHED = pl.Schema(
    {
        "query_id": pl.String,
        "item_id": pl.String,  # under which it stands in the ranking
        "given": pl.String,  # what the retriever named it by, as JSON
    }
)
LABELS = pl.Schema(
    {
        "query_id": pl.String,
        # item: a chunk or document. lost: lost ground truth. span (method span only): every gold
        # span, also those that no chunk satisfies, so the relevant ones are the denominator of
        # evidence_recall. A span that could not be located keeps its length, in a document
        # `lost/…` that no chunk is of.
        "kind": pl.String,
        "item_id": pl.String,  # unique among a query's rows of one kind
        "doc_id": pl.String,  # NULL: answer_text's lost item
        "start": pl.Int64,  # NULL: a document, or a lost span that was a quote alone
        "end": pl.Int64,
        "gain": pl.Int64,  # the grade as given; below 0: gain 0, counts as unjudged
    }
)
TRUTH = pl.Schema(
    {
        "query_id": pl.String,
        "null_reason": pl.String,  # no_relevant, no_judged, or NULL: the query is scored
        "n_relevant": pl.Int64,  # R: items with gain >= level, lost ones included
        "n_lost": pl.Int64,  # of which lost
    }
)
TRUTH_NOTES = pl.Schema(
    {
        "query_id": pl.String,
        "note": pl.String,  # lost, located_anew, no_judged, no_relevant
        # of lost: answer_absent, document_gone, quote_absent, quote_ambiguous, out_of_range,
        # no_chunk; else NULL
        "cause": pl.String,
        "doc_id": pl.String,
        "start": pl.Int64,
        "end": pl.Int64,
        "quote": pl.String,
        "reason": pl.String,  # a sentence for people
    }
)
QUERY_METRICS = pl.Schema(
    {
        "query_id": pl.String,
        "measure": pl.String,
        "contract_version": pl.Int64,
        "value": pl.Float64,  # finite, or NULL with a reason
        "null_reason": pl.String,  # no_relevant, no_judged, failed
    }
)
RUN_METRICS = pl.Schema(
    {
        "measure": pl.String,
        "contract_version": pl.Int64,
        "mean": pl.Float64,  # NULL when nothing was scored
        "n_scored": pl.Int64,
        "n_queries": pl.Int64,
        "n_lost": pl.Int64,  # queries with lost ground truth
        "n_failed": pl.Int64,
        "low": pl.Float64,  # the mean, had every failed value been the contract's lowest
        "high": pl.Float64,
    }
)
SUMMARY_CONTEXTS = _schema(
    {
        "query_id": pl.String,  # only queries that are judged: those with contexts of this kind
        "source": pl.String,  # reference or retrieved
        "contexts": pl.List(pl.String),
        "contexts_digest": pl.String,  # sha256 of the contexts joined by newlines
    }
)
SUMMARY_RESPONSES = pl.Schema(
    {
        "query_id": pl.String,
        "response": pl.String,  # NULL: see status
        "response_source": pl.String,  # benchmark, or the generator's name
        "status": pl.String,  # NULL: there is a response; else why not
        "message": pl.String,
        # of the generator's contexts, for want of room; NULL: the response was not generated
        "n_characters_cut": pl.Int64,
    }
)
QUESTION = pl.Struct({"key_phrase": pl.String, "question": pl.String})
QUESTION_BANK = _schema(
    {
        "contexts_digest": pl.String,  # unique
        "judge": pl.String,
        "questions": pl.List(QUESTION),
        "status": pl.String,  # NULL: there are questions; else why not
        "message": pl.String,
    }
)
SUMMARY_SCORES = pl.Schema(
    {
        "query_id": pl.String,
        "status": pl.String,  # scored, or why not
        "message": pl.String,  # for people; NULL when scored
        "summary_score": pl.Float64,
        "qa": pl.Float64,
        "conciseness": pl.Float64,
        "n_questions": pl.Int64,  # each as often as it was asked
        "n_answered": pl.Int64,  # answers that are "1", over all repeats
        "response": pl.String,
        "response_source": pl.String,  # benchmark, or the generator's name
        "n_characters_response": pl.Int64,
        "n_characters_contexts": pl.Int64,
        "contexts_digest": pl.String,
        "generator": pl.String,
        "judge": pl.String,
        "n_repeats": pl.Int64,
        "spread": pl.Float64,  # highest minus lowest of the repeats; NULL: asked once
        "n_characters_cut": pl.Int64,
    }
)
SUMMARY_QUESTIONS = pl.Schema(
    {
        "query_id": pl.String,
        "question_index": pl.Int64,  # from 0
        "key_phrase": pl.String,
        "question": pl.String,
        "answer": pl.String,  # "1" or "0", of the first repeat; NULL when it was not answered
        "reason": pl.String,  # why this answer
        "answers": pl.String,  # of all repeats, such as 101
    }
)
LLM_CALLS = _schema(
    {
        "call_key": pl.String,
        "subject": pl.String,  # sha256 of the text that it is about
        "query_id": pl.String,  # the first query that it was made for
        "purpose": pl.String,  # summary, key_phrases, questions, answers
        "endpoint": pl.String,
        "model": pl.String,
        "parameters": pl.String,  # JSON object
        "prompt_version": pl.String,
        "sample": pl.String,
        "is_reused": pl.Boolean,
        "status": pl.String,  # answered, or why not
        "message": pl.String,  # NULL when answered
        "n_tries": pl.Int64,  # 0: reused, or never sent
        "prompt_tokens": pl.Int64,
        "completion_tokens": pl.Int64,
        "cost": pl.Float64,  # NULL: price or tokens are not known
        "currency": pl.String,
        "prices_of": pl.Date,
        "started_at": pl.Datetime("us", "UTC"),
        "seconds": pl.Float64,
    }
)
