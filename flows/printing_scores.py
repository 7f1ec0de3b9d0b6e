"""Print what ``rankhouse trec`` computed: rows, or the JSON objects that its help describes."""

from __future__ import annotations

from collections.abc import Iterator

from flows.printing import print_json, print_rows, say
from flows.scoring_files import ScoredFiles, ScoredRun
from schemas.counting import counted

N_NAMED = 5
"""Missing queries that are named on stderr; JSON names them all."""


def print_scores(scored: ScoredFiles, *, per_query: bool, is_complete: bool, format: str) -> None:
    """Print results to stdout, and what was missing or ignored to stderr."""
    if scored.highest_grade < scored.level:
        say(
            f"{scored.qrels}: nothing is relevant at level {scored.level}: the highest grade is "
            f"{scored.highest_grade}"
        )
    for run in scored.runs:
        _say_missing(scored, run, is_complete)
    if format == "json":
        objects = [_object(scored, index, per_query) for index in range(len(scored.runs))]
        print_json(objects[0] if len(objects) == 1 else objects)
        return
    names = [str(measure) for measure in scored.measures]
    columns = ["run", *(["query"] if per_query else ["n_queries", "n_missing"]), *names]
    if scored.p_values:
        columns += ["n_pairs", *(f"p {name}" for name in names)]
    print_rows(_rows(scored, per_query), columns, format=format)
    for run in scored.runs:
        _say_ties(run)


def _say_missing(scored: ScoredFiles, run: ScoredRun, is_complete: bool) -> None:
    missing = _missing(scored, run)
    if missing:
        named = ", ".join(missing[:N_NAMED]) + (", …" if len(missing) > N_NAMED else "")
        what = "count as 0 (--intersection leaves them out)" if is_complete else "are left out"
        queries = counted(len(scored.query_ids), "query")
        say(f"{run.name}: {len(missing)} of {queries} not in the run {what}: {named}")
    if run.n_ignored:
        say(f"{run.name}: {run.n_ignored} of its queries not in {scored.qrels}: ignored")


def _say_ties(run: ScoredRun) -> None:
    if run.ties is None:
        return
    ties = run.ties
    say(
        f"{run.name}: {ties.n_tied} of {counted(ties.n_queries, 'query')} depend on the order of "
        f"tied documents, {ties.n_near} on that of scores less than 1e-6 apart"
    )
    for name, (low, high) in ties.bounds.items():
        if low != high:
            say(f"{run.name}: {name} is between {low} and {high} over the orders of ties")


def _missing(scored: ScoredFiles, run: ScoredRun) -> list[str]:
    return [name for name, gone in zip(scored.query_ids, run.is_missing, strict=True) if gone]


def _rows(scored: ScoredFiles, per_query: bool) -> Iterator[dict[str, object]]:
    names = [str(measure) for measure in scored.measures]
    for index, run in enumerate(scored.runs):
        if per_query:
            for query_id, values in _query_values(scored, run):
                yield {"run": run.name, "query": query_id, **values}
        yield {
            "run": run.name,
            "n_queries": int(run.is_counted.sum()),
            "n_missing": int(run.is_missing.sum()),
            **dict(zip(names, run.means, strict=True)),
            "n_pairs": run.n_pairs if index else None,
            **{f"p {name}": p for name, p in _p_values(scored, index).items()},
        }


def _query_values(scored: ScoredFiles, run: ScoredRun) -> Iterator[tuple[str, dict[str, float]]]:
    names = [str(measure) for measure in scored.measures]
    for index, query_id in enumerate(scored.query_ids):
        if run.is_counted[index]:
            yield query_id, dict(zip(names, run.values[:, index].tolist(), strict=True))


def _p_values(scored: ScoredFiles, index: int) -> dict[str, float | None]:
    """By measure; None: the run and the first have no query in common."""
    if index == 0:
        return {}
    names = [str(measure) for measure in scored.measures]
    p = scored.p_values[index - 1]
    return dict(zip(names, [None] * len(names) if p is None else p.tolist(), strict=True))


def _object(scored: ScoredFiles, index: int, per_query: bool) -> dict[str, object]:
    run = scored.runs[index]
    result: dict[str, object] = {"run": run.name} if len(scored.runs) > 1 else {}
    names = [str(measure) for measure in scored.measures]
    result["measures"] = dict(zip(names, run.means, strict=True))
    if per_query:
        result["queries"] = dict(_query_values(scored, run))
    result["n_queries"] = int(run.is_counted.sum())
    result["missing"] = _missing(scored, run)
    result["n_ignored"] = run.n_ignored
    if index:
        result["n_pairs"] = run.n_pairs
        result["p_values"] = _p_values(scored, index)
    if run.ties is not None:
        result["ties"] = run.ties.figures()
    return result
