"""What a run's report says beside its numbers: what is missing, cut off, or not to be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flows.printing import clean
from flows.reporting import NOTES_SHOWN, Report
from schemas.measures import Measure

CHUNK_COUNTING = frozenset(
    {"recall", "ap", "ndcg", "f1", "r_precision", "ap_capped", "recall_capped", "dcg", "ndcg_exp"}
)
FAVOURS_LARGE_CHUNKS = frozenset(
    {"hit", "rr", "precision", "evidence_recall", "precision_returned"}
)
TRUTH_TITLES = {
    "lost": "Ground truth that is lost, counted as never retrieved",
    "located_anew": "Spans located anew: the quote stood elsewhere, exactly once",
    "no_judged": "Queries without ground truth for this label method, not scored",
    "no_relevant": "Queries with nothing relevant by the benchmark's choice, not scored",
}


def remarks(report: Report, prefix: str) -> Iterator[str]:
    """The lines below the table of measures.

    Args:
        report: of one run.
        prefix: the home folder that suggested commands have to name; empty: the usual one.
    """
    if report.status != "completed":
        yield clean(f"{report.status}: {report.status_reason}")
    yield from _truth(report, prefix)
    yield from (clean(f"Retrieved elsewhere: {note}") for note in report.retrieval_notes)
    yield from _coverage(report)
    yield from _cautions(report)


def lowest_queries(report: Report, prefix: str) -> str:
    """A command for the shell: the queries where the first measure is lowest."""
    # Every value in it is ours: the id and a parsed measure.
    query = (
        "select query_id, value, text from query_metrics join runs using (run_id) "  # noqa: S608
        "join queries using (benchmark_digest, query_id) "
        f"where run_id = '{report.run_id}' and measure = '{report.measures[0].measure}' "
        "order by value limit 10"
    )
    return f'{home_of(prefix)}rankhouse sql "{query}"'


def home_of(prefix: str) -> str:
    """What a suggested command has to say of its home."""
    return f"RANKHOUSE_HOME={prefix} " if prefix else ""


def _truth(report: Report, prefix: str) -> Iterator[str]:
    for kind, title in TRUTH_TITLES.items():
        notes = [note for note in report.truth_notes if note.note == kind]
        if not notes:
            continue
        yield f"{title} ({len(notes)}):"
        for note in notes[:NOTES_SHOWN]:
            yield clean(f"  {note.query_id}: {note.reason}")
        if len(notes) > NOTES_SHOWN:
            query = f"select query_id, message from events where run_id = '{report.run_id}'"  # noqa: S608
            yield f'  and {len(notes) - NOTES_SHOWN} more: {home_of(prefix)}rankhouse sql "{query}"'


def _coverage(report: Report) -> Iterator[str]:
    """What was not scored, not embedded or not read."""
    scored = {row.measure: row for row in report.measures}
    if "summary_score" in scored:
        row = scored["summary_score"]
        n_unjudged = row.n_queries - row.n_scored - row.n_failed
        if n_unjudged:
            yield f"Queries without reference contexts, no summary score: {n_unjudged}"
    if report.short_queries:
        yield (
            f"Queries that ended short of the depth: {_listed(report.short_queries)}; "
            "raise retrieval.max_chunks"
        )
    if report.sizes["n_truncated"]:
        yield (
            f"Chunks longer than the {report.sizes['max_tokens']} tokens that the model reads: "
            f"{report.sizes['n_truncated']}; the rest of each was not"
        )
        yield "  embedded. Smaller chunks, chunking.unit = 'tokens' or another model would help."
    if report.sizes["n_pairs_truncated"]:
        yield (
            "Pairs of query and text longer than the reranker reads, cut at its limit: "
            f"{report.sizes['n_pairs_truncated']}"
        )
    if report.sizes["n_filtered"]:
        yield (
            f"Queries with a filter: {report.sizes['n_filtered']}; "
            "ground truth outside of it counts as not found"
        )
    if report.sizes["n_unmatched"]:
        yield f"Queries that share no term with any chunk: {report.sizes['n_unmatched']}"
    ties = report.sizes["ties"]
    if isinstance(ties, dict) and (ties["share_tied"] or ties["share_near"]):
        yield (
            f"Queries whose values depend on the order of tied items: {ties['share_tied']:.1%}; "
            f"of near ties (below 1e-6): {ties['share_near']:.1%}"
        )
    if report.left_out:
        yield (
            "Left out of the corpus folder, since hidden, linked or of a kind that is not read: "
            f"{_listed(report.left_out)}"
        )


def _cautions(report: Report) -> Iterator[str]:
    """What the numbers may not be compared with, said beside them."""
    if report.settings["labelling"]["method"] == "document":
        return
    measures = [Measure.parse(row.measure) for row in report.measures]
    counting = [str(m) for m in measures if m.family in CHUNK_COUNTING]
    favouring = [str(m) for m in measures if m.family in FAVOURS_LARGE_CHUNKS and m.unit == "items"]
    comparable = [str(m) for m in measures if m.unit == "chars"]
    if not counting and not favouring:
        return
    yield "If you compare chunk sizes:"
    if counting:
        yield f"  {', '.join(counting)}: only between runs over the same chunks"
    if favouring:
        yield f"  {', '.join(favouring)}: larger chunks score higher by their size alone"
    if comparable:
        yield f"  {', '.join(comparable)}: fair between chunk sizes"
    else:
        yield "  fair are evidence_recall@Nchars (add it to measures) and document labels"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(clean(name) for name in names[:NOTES_SHOWN])
    return shown if len(names) <= NOTES_SHOWN else f"{shown} and {len(names) - NOTES_SHOWN} more"
