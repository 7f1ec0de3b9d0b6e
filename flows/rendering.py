"""A run's report as a person reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from flows.printing import clean, render_table
from flows.remarks import home_of, lowest_queries, remarks
from flows.reporting import Report
from schemas.counting import counted


def render(report: Report, *, prefix: str = "") -> str:
    """The whole report, ready for stdout.

    Args:
        report: of one run.
        prefix: the home folder that suggested commands have to name; empty: the usual one.
    """
    parts = [
        "\n".join(_heading(report)),
        _measures(report),
        _index_loss(report),
        "\n".join(remarks(report, prefix)),
        "\n".join(_stages(report)),
        "\n".join(_next(report, prefix)),
    ]
    return "\n\n".join(part for part in parts if part)


def _heading(report: Report) -> Iterator[str]:
    settings, sizes = report.settings, report.sizes
    chunking, embedding = settings["chunking"], settings["embedding"]
    labelling = settings["labelling"]
    yield clean(f"{report.experiment} · {report.logical_date} · run {report.run_id}")
    corpus = _shortest(settings["corpus"]["path"])
    yield clean(f"  corpus     {corpus}: {counted(sizes['n_documents'], 'document')}")
    benchmark, split = _shortest(settings["benchmark"]["path"]), settings["benchmark"]["split"]
    of_split = "" if split is None else f" of split {split}"
    yield clean(f"  benchmark  {benchmark}: {counted(sizes['n_queries'], 'query')}{of_split}")
    yield f"  chunks     {sizes['n_chunks']}: {_chunking(chunking)}"
    if sizes["dim"] is not None:
        yield clean(f"  model      {_shortest(embedding['model'])}, {sizes['dim']} dimensions")
    latency = ""
    if sizes["latency_p50_ms"] is not None:
        p50, p95 = sizes["latency_p50_ms"], sizes["latency_p95_ms"]
        latency = f"; {p50:.1f} ms a query (p95 {p95:.1f} ms)"
    yield clean(f"  retrieval  {_retrieval(settings)}{latency}")
    coverage = (
        f", min_coverage {labelling['min_coverage']}" if labelling["method"] == "span" else ""
    )
    yield f"  labels     {labelling['method']}{coverage}, level {labelling['level']}"
    if settings["summary"] is not None:
        yield f"  summary    {_summary(settings['summary'])}"


def _shortest(path: str) -> str:
    """A path as seen from here, where that is shorter; anything else as it is."""
    if not path.startswith("/"):
        return path
    return min((os.path.relpath(path), path), key=len)


def _chunking(chunking: dict[str, object]) -> str:
    if chunking["plugin"] is not None:
        return clean(f"plugin {chunking['plugin']}")
    if chunking["method"] == "none":
        return "whole documents"
    return (
        f"{chunking['method']}, {chunking['size']} {chunking['unit']}, "
        f"overlap {chunking['overlap']}"
    )


def _retrieval(settings: dict[str, Any]) -> str:
    retrieval, index = settings["retrieval"], settings["index"]
    if retrieval["plugin"] is not None:
        return f"plug-in {retrieval['plugin']}, depth {retrieval['depth']}"
    if retrieval["http"] is not None:
        return f"{retrieval['http']['url']}, depth {retrieval['depth']}"
    if retrieval["run_file"] is not None:
        return f"run file {_shortest(retrieval['run_file'])}, depth {retrieval['depth']}"
    dense = f"{index['kind']} index, {index['metric']}"
    bm25 = f"BM25, language {retrieval['bm25']['language']}"
    methods = {"dense": dense, "bm25": bm25, "hybrid": f"{dense}, and {bm25}"}
    rerank = retrieval["rerank"]
    reranked = f", {_shortest(rerank['model'])} on the first {rerank['depth']}" if rerank else ""
    return clean(f"{methods[retrieval['method']]}, depth {retrieval['depth']}{reranked}")


def _summary(summary: dict[str, object]) -> str:
    judge = _named(summary["judge"])
    caution = " (no LLM: looks for phrases)" if judge == "lexical" else ""
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


def _index_loss(report: Report) -> str:
    """What of the exact nearest chunks an approximate index found, so its loss is not the model's.

    An exhaustive index finds them all: nothing is said.
    """
    recalls = report.sizes["ann_recall"]
    if not isinstance(recalls, dict) or not recalls:
        return ""
    n = report.sizes["n_ann_queries"]
    over = f" (over {counted(n, 'sampled query')})" if n != report.sizes["n_queries"] else ""
    values = ", ".join(f"{name} {value:.4f}" for name, value in recalls.items())
    return f"{values}: the share of the exact nearest chunks that the index found{over}"


def _stages(report: Report) -> Iterator[str]:
    reused = sum(stage.cached for stage in report.stages)
    yield f"{reused} of {len(report.stages)} stages reused; {report.seconds:.1f} s in all"
    width = max(len(stage.stage) for stage in report.stages)
    for stage in report.stages:
        state = "reused" if stage.cached else f"{stage.seconds:6.2f} s"
        detail = f"  {stage.detail}" if stage.detail and not stage.cached else ""
        yield f"  {stage.stage:<{width}}  {state}{detail}"


def _next(report: Report, prefix: str) -> Iterator[str]:
    if report.landed == "spooled":
        yield "The run is safe in the spool. When that is mended, the next load takes it:"
        yield f"  {home_of(prefix)}rankhouse warehouse load"
        return
    yield f"Next, the queries where {report.measures[0].measure} is lowest:"
    yield f"  {lowest_queries(report, prefix)}"
