"""Values are those of trec_eval, bit for bit: pytrec-eval-terrier is the oracle."""

from collections.abc import Mapping

import numpy as np
import pytrec_eval
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.measures import Measure
from tasks.trec_files import parse_trec
from tasks.trec_qrels import prepare_qrels
from tasks.trec_scoring import TrecOptions, score_run

Run = Mapping[str, Mapping[str, float]]
Judged = Mapping[str, Mapping[str, int]]

CUTOFFS = (1, 3, 10, 1500)
NAMES = {
    "ap": "map",
    "ndcg": "ndcg",
    "rr": "recip_rank",
    "bpref": "bpref",
    "r_precision": "Rprec",
    "set_precision": "set_P",
    "set_recall": "set_recall",
    "set_f1": "set_F",
    **{f"ap@{k}": f"map_cut_{k}" for k in CUTOFFS},
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    **{f"precision@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"recall_{k}" for k in CUTOFFS},
    **{f"hit@{k}": f"success_{k}" for k in CUTOFFS},
}

# Numeric-looking ids, spaces that are not ASCII, and ids whose order by bytes, by code points
# in UTF-16 and by number all differ.
IDS = st.sampled_from(
    "7 07 10 9 1e1 NA nan -1 a A Z é e\u0301 北京 \uffee \U0001f600 a#0-10 %20 \" '".split(" ")
    + "d\u00a0x d\u3000x d\u2028x d\u0085x".split(" ")
)
FINITE = [0.0, -0.0, 1.0, 1.0 + 2**-30, 1e300, -1e300, 1e-300, 3.4e38, 3.5e38, 16777217.0]
SCORES = st.one_of(
    st.sampled_from([*FINITE, float("inf"), float("-inf")]),
    st.integers(-3, 3).map(float),
    st.floats(allow_nan=False, width=64),
)
GRADES = st.one_of(st.integers(-2, 3), st.integers(0, 1000))


def ours(
    run: Run, qrels: Judged, options: TrecOptions
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Score through the file formats; gives values by query, and the queries that are missing."""
    run_lines = [f"{q} Q0 {d} 0 {s!r} t" for q, docs in run.items() for d, s in docs.items()]
    qrels_lines = [f"{q} 0 {d} {g}" for q, docs in qrels.items() for d, g in docs.items()]
    judged = prepare_qrels(
        parse_trec("\n".join(qrels_lines).encode(), "qrels", source="qrels"), level=options.level
    )
    lines = parse_trec("\n".join(run_lines).encode(), "run", source="run")
    scores = score_run(lines, judged, [Measure.parse(name) for name in NAMES], options)
    queries = [query_id.decode() for query_id in judged.query_ids]
    values = {
        query: dict(zip(NAMES, scores.values[:, index].tolist(), strict=True))
        for index, query in enumerate(queries)
        if not scores.is_missing[index]
    }
    return values, [query for query, gone in zip(queries, scores.is_missing, strict=True) if gone]


def theirs(
    run: Run, qrels: Judged, *, level: int, judged_only: bool
) -> dict[str, dict[str, float]]:
    measures = {"map", "ndcg", "recip_rank", "bpref", "Rprec", "set_P", "set_recall", "set_F"}
    cut = ",".join(map(str, CUTOFFS))
    measures |= {f"{name}.{cut}" for name in ("map_cut", "ndcg_cut", "P", "recall", "success")}
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, measures, relevance_level=level, judged_docs_only_flag=judged_only
    )
    return evaluator.evaluate(run)


def check(run: Run, qrels: Judged, *, level: int = 1, judged_only: bool = False) -> None:
    options = TrecOptions(level=level, judged_only=judged_only, score_dtype="float32")
    values, missing = ours(run, qrels, options)
    expected = theirs(run, qrels, level=level, judged_only=judged_only)
    assert set(values) == set(expected)
    assert set(missing) == set(qrels) - set(run)
    for query, row in values.items():
        for name, value in row.items():
            assert value == expected[query][NAMES[name]], (query, name)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Run, Judged]:
    queries = draw(st.lists(IDS, min_size=1, max_size=4, unique=True))
    rankings = st.dictionaries(IDS, SCORES, min_size=1, max_size=20)
    run = {query: draw(rankings) for query in queries}
    # trec_eval reads memory that it never wrote for a query whose grades are all negative.
    judgements = st.dictionaries(IDS, GRADES, min_size=1, max_size=20).filter(
        lambda grades: max(grades.values()) >= 0
    )
    judged = draw(st.lists(IDS, max_size=3, unique=True))
    return run, {query: draw(judgements) for query in dict.fromkeys([queries[0], *judged])}


@given(case=cases())
@settings(max_examples=150, deadline=None)
@example(case=({"q": {"a": 1e300, "b": 1e301, "c": float("inf")}}, {"q": {"a": 1}}))
def test_every_shared_measure_equals_trec_eval_to_the_last_bit(case: tuple[Run, Judged]) -> None:
    check(*case)


@given(case=cases(), level=st.integers(2, 4))
@settings(max_examples=50, deadline=None)
def test_a_relevance_level_means_what_trec_eval_means(case: tuple[Run, Judged], level: int) -> None:
    # Below its level trec_eval reads past its table of grades: every query has a grade at it.
    run, qrels = case
    check(run, {q: {**grades, "top": level} for q, grades in qrels.items()}, level=level)


@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_judged_only_means_what_trec_eval_means(case: tuple[Run, Judged]) -> None:
    run, qrels = case
    first = next(iter(qrels))
    check(
        {**run, first: {**run[first], **dict.fromkeys(qrels[first], 0.5)}}, qrels, judged_only=True
    )


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_deep_rankings_equal_trec_eval_to_the_last_bit(seed: int) -> None:
    generator = np.random.default_rng(seed)
    docs = [f"d{index}" for index in range(3000)]
    run, qrels = {}, {}
    for query in ("q1", "q2", "10", "9"):
        depth, n_judged = (int(size) for size in generator.integers(1, 1001, 2))
        scores = generator.normal(size=depth).round(int(generator.integers(1, 8)))
        run[query] = dict(
            zip(generator.permutation(docs)[:depth].tolist(), scores.tolist(), strict=True)
        )
        grades = generator.choice([-1, 0, 0, 0, 1, 1, 2, 3, 900, 1000], n_judged)
        qrels[query] = dict(
            zip(generator.permutation(docs)[:n_judged].tolist(), grades.tolist(), strict=True)
        )
        qrels[query]["extra"] = 0
    check(run, qrels)
