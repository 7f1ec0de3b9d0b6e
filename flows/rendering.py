"""A run's report as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator

from flows.printing import clean, render_table
from flows.reporting import NOTES_SHOWN, Report
from schemas.measures import Measure

CHUNK_COUNTING = frozenset(
    {"recall", "ap", "ndcg", "f1", "r_precision", "ap_capped", "recall_capped", "dcg", "ndcg_exp"}
)
FAVOURS_LARGE_CHUNKS = frozenset(
    {"hit", "rr", "precision", "evidence_recall", "precision_returned"}
)


def render(report: Report, *, prefix: str = "") -> str:
    """The whole report, ready for stdout.

    Args:
        report: of one run.
        prefix: the home folder that suggested commands have to name; empty: the usual one.
    """
    parts = [
        "\n".join(_heading(report)),
        _measures(report),
        "\n".join(_remarks(report, prefix)),
        "\n".join(_stages(report)),
        "\n".join(_next(report, prefix)),
    ]
    return "\n\n".join(part for part in parts if part)


def _heading(report: Report) -> Iterator[str]:
    settings, sizes = report.settings, report.sizes
    chunking, embedding = settings["chunking"], settings["embedding"]
    labelling, retrieval, index = settings["labelling"], settings["retrieval"], settings["index"]
    yield clean(f"{report.experiment} · {report.logical_date} · run {report.run_id}")
    yield clean(f"  corpus     {settings['corpus']['path']}: {sizes['n_documents']} documents")
    benchmark, split = settings["benchmark"]["path"], settings["benchmark"]["split"]
    of_split = "" if split is None else f" of split {split}"
    yield clean(f"  benchmark  {benchmark}: {sizes['n_queries']} queries{of_split}")
    yield f"  chunks     {sizes['n_chunks']}: {_chunking(chunking)}"
    yield clean(
        f"  model      {embedding['model']}, {sizes['dim']} dimensions; "
        f"{index['kind']} index, {index['metric']}; depth {retrieval['depth']}; "
        f"query p50 {sizes['latency_p50_ms']:.1f} ms, p95 {sizes['latency_p95_ms']:.1f} ms"
    )
    coverage = (
        f", min_coverage {labelling['min_coverage']}" if labelling["method"] == "span" else ""
    )
    yield f"  labels     {labelling['method']}{coverage}, level {labelling['level']}"
    if settings["summary"] is not None:
        yield f"  summary    {_summary(settings['summary'])}"


def _chunking(chunking: dict[str, object]) -> str:
    if chunking["plugin"] is not None:
        return clean(f"plugin {chunking['plugin']}")
    if chunking["method"] == "none":
        return "whole documents"
    return (
        f"{chunking['method']}, {chunking['size']} {chunking['unit']}, "
        f"overlap {chunking['overlap']}"
    )


def _summary(summary: dict[str, object]) -> str:
    judge = _named(summary["judge"])
    caution = " (no LLM: it only looks for phrases)" if judge == "lexical" else ""
    return f"generator {_named(summary['generator'])}; judge {judge}{caution}"


def _named(who: object) -> str:
    """A built-in by its name, an endpoint by its model and URL."""
    if isinstance(who, dict):
        return clean(f"{who['model']} at {who['base_url']}")
    return str(who)


def _measures(report: Report) -> str:
    columns = ["measure", "mean", "scored", "queries", "lost truth", "failed"]
    rows: list[list[object]] = [
        [row.measure, row.mean, row.n_scored, row.n_queries, row.n_lost, row.n_failed]
        for row in report.measures
    ]
    if any(row.n_failed for row in report.measures):
        columns += ["low", "high"]
        rows = [
            [*cells, row.low, row.high] for cells, row in zip(rows, report.measures, strict=True)
        ]
    return render_table(rows, columns)


def _remarks(report: Report, prefix: str) -> Iterator[str]:
    if report.status != "completed":
        yield clean(f"{report.status}: {report.status_reason}")
    yield from _truth(report, prefix)
    if report.short_queries:
        shown = ", ".join(clean(name) for name in report.short_queries[:NOTES_SHOWN])
        yield (
            f"{_count(len(report.short_queries), 'query')} ended short of the depth: {shown}"
            f"{_more(len(report.short_queries))}; raise retrieval.max_chunks"
        )
    if report.sizes["n_truncated"]:
        yield (
            f"{_count(report.sizes['n_truncated'], 'chunk')} longer than the model reads "
            f"({report.sizes['max_tokens']} tokens): the rest of each was not embedded"
        )
    if report.left_out:
        shown = ", ".join(clean(name) for name in report.left_out[:NOTES_SHOWN])
        yield (
            f"{_count(len(report.left_out), 'path')} in the corpus folder left out (hidden, linked "
            f"or of a kind that is not read): {shown}{_more(len(report.left_out))}"
        )
    yield from _cautions(report)


def _truth(report: Report, prefix: str) -> Iterator[str]:
    titles = {
        "lost": "lost ground truth, counted as never retrieved",
        "located_anew": "located anew: the document changed around the quote",
        "no_judged": "without ground truth for this label method, not scored",
        "no_relevant": "with nothing relevant by the benchmark's choice, not scored",
    }
    for kind, title in titles.items():
        notes = [note for note in report.truth_notes if note.note == kind]
        if not notes:
            continue
        noun = "item" if kind in ("lost", "located_anew") else "query"
        yield f"{_count(len(notes), noun)} {title}:"
        for note in notes[:NOTES_SHOWN]:
            yield clean(f"  {note.query_id}: {note.reason}")
        if len(notes) > NOTES_SHOWN:
            yield f"  and {len(notes) - NOTES_SHOWN} more: {_sql(report, 'events', prefix)}"


def _cautions(report: Report) -> Iterator[str]:
    """What the numbers may not be compared with, said beside them."""
    if report.settings["labelling"]["method"] == "document":
        return
    measures = [Measure.parse(row.measure) for row in report.measures]
    counting = [str(m) for m in measures if m.family in CHUNK_COUNTING]
    favouring = [str(m) for m in measures if m.family in FAVOURS_LARGE_CHUNKS and m.unit == "items"]
    if counting:
        yield f"Only over the same chunks can be compared: {', '.join(counting)}"
    if favouring:
        yield f"Larger chunks raise by themselves: {', '.join(favouring)}"
    if counting or favouring:
        yield "Between chunkings compare evidence_recall@Nchars, or use document labels."


def _stages(report: Report) -> Iterator[str]:
    reused = sum(stage.cached for stage in report.stages)
    yield (f"{reused} of {len(report.stages)} stages reused; {report.seconds:.1f} s in all")
    width = max(len(stage.stage) for stage in report.stages)
    for stage in report.stages:
        state = "reused" if stage.cached else f"{stage.seconds:6.2f} s"
        yield f"  {stage.stage:<{width}}  {state}"


def _next(report: Report, prefix: str) -> Iterator[str]:
    if report.landed == "spooled":
        yield "The run is safe in the spool. When that is mended, the next load takes it:"
        yield f"  {_home(prefix)}rankhouse warehouse load"
        return
    yield "Next, the queries where the first measure is lowest:"
    yield f"  {_sql(report, 'query_metrics', prefix)}"


def _sql(report: Report, table: str, prefix: str) -> str:
    """A command for the shell that asks for more; its values are ours, not the user's."""
    of_run = f"where run_id = '{report.run_id}'"
    if table == "events":
        query = f"select query_id, message from events {of_run}"  # noqa: S608
    else:
        of_measure = f"and measure = '{report.measures[0].measure}'"
        query = (
            f"select query_id, value from query_metrics {of_run} {of_measure} "  # noqa: S608
            "order by value limit 10"
        )
    return f'{_home(prefix)}rankhouse sql "{query}"'


def _home(prefix: str) -> str:
    return f"RANKHOUSE_HOME={prefix} " if prefix else ""


def _count(number: object, noun: str) -> str:
    plural = {"query": "queries"}.get(noun, f"{noun}s")
    return f"{number} {noun if number == 1 else plural}"


def _more(number: int) -> str:
    return f" and {number - NOTES_SHOWN} more" if number > NOTES_SHOWN else ""
