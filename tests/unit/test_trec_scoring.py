"""What the options and edges of scoring a run mean, each by name."""

import numpy as np
import pytest

from schemas.errors import InputError
from schemas.measures import Measure
from tasks.trec_files import parse_trec
from tasks.trec_qrels import prepare_qrels
from tasks.trec_scoring import RunScores, TrecOptions, score_run


def scored(run: str, qrels: str, measures: str, options: TrecOptions | None = None) -> RunScores:
    """Lines are separated by semicolons: ``query document score`` and ``query document grade``."""
    options = options or TrecOptions()
    run_lines, qrels_lines = [], []
    for line in run.split(";"):
        query, doc, number = line.split()
        run_lines.append(f"{query} Q0 {doc} 1 {number} t")
    for line in qrels.split(";"):
        query, doc, number = line.split()
        qrels_lines.append(f"{query} 0 {doc} {number}")
    judged = prepare_qrels(
        parse_trec("\n".join(qrels_lines).encode(), "qrels", source="qrels"), level=options.level
    )
    lines = parse_trec("\n".join(run_lines).encode(), "run", source="run")
    return score_run(lines, judged, [Measure.parse(name) for name in measures.split()], options)


def values(
    run: str, qrels: str, measures: str, options: TrecOptions | None = None
) -> list[list[float]]:
    return scored(run, qrels, measures, options).values.tolist()


def test_order_is_by_score_then_by_id_descending_bytewise() -> None:
    # Bytes: 10 < 9 < é < 北; "é" stands above "9" among equal scores, "x" has the best score.
    run = "q 10 1;q 9 1;q é 1;q 北 1;q x 2"
    for rank, doc in enumerate(["x", "北", "é", "9", "10"], 1):
        assert values(run, f"q {doc} 1", "rr") == [[1 / rank]]


def test_ties_in_input_order_stand_as_in_the_file() -> None:
    run = "q a 1;p z 1;q c 1;q b 1;q top 2"  # the lines of q are scattered
    for rank, doc in enumerate(["top", "a", "c", "b"], 1):
        assert values(run, f"q {doc} 1", "rr", TrecOptions(ties="input")) == [[1 / rank]]


def test_zero_and_minus_zero_tie() -> None:
    assert values("q a 0.0;q b -0.0", "q b 1", "rr") == [[1.0]]
    assert values("q b 0.0;q a -0.0", "q a 1", "rr") == [[0.5]]


def test_float32_scores_tie_where_trec_eval_9_sees_them_tie() -> None:
    run = "q a 16777217;q b 16777216"  # 2^24 + 1 is no float32
    assert values(run, "q a 1", "rr") == [[1.0]]
    assert values(run, "q a 1", "rr", TrecOptions(score_dtype="float32")) == [[0.5]]
    beyond = "q a 1e300;q b 1e301;q c 1e39"  # all infinite as float32
    assert values(beyond, "q c 1", "rr") == [[1 / 3]]
    assert values(beyond, "q c 1", "rr", TrecOptions(score_dtype="float32")) == [[1.0]]


def test_level_decides_what_is_relevant_and_leaves_gains_alone() -> None:
    run, qrels = "q a 3;q b 2", "q a 1;q b 2"
    assert values(run, qrels, "precision@1 recall@2 dcg@1") == [[1.0], [1.0], [1.0]]
    options = TrecOptions(level=2)
    assert values(run, qrels, "precision@1 recall@2 dcg@1", options) == [[0.0], [1.0], [1.0]]


def test_judged_only_takes_unjudged_documents_out_before_ranks_are_counted() -> None:
    run, qrels = "q x 5;q n 4;q m 3;q a 2", "q a 1;q m 0;q n -1"
    assert values(run, qrels, "rr set_precision") == [[1 / 4], [1 / 4]]
    assert values(run, qrels, "rr set_precision", TrecOptions(judged_only=True)) == [
        [1 / 2],  # m is judged, n is not
        [1 / 2],
    ]


def test_a_negative_grade_has_no_gain_and_is_not_judged_non_relevant() -> None:
    names = "ndcg bpref judged@2"
    assert values("q n 2;q a 1", "q a 1;q n -1;q m 0", names) == values(
        "q x 2;q a 1", "q a 1;q m 0", names
    )
    assert values("q n 2;q a 1", "q a 1;q n -1;q m 0", "judged@2") == [[0.5]]
    assert values("q m 2;q a 1", "q a 1;q m 0", "judged@2") == [[1.0]]


def test_fewer_results_than_the_cutoff_count_as_not_relevant() -> None:
    run, qrels = "q a 2;q x 1", "q a 1;q b 1"
    assert values(run, qrels, "precision@10 precision_returned@10 ndcg@1") == [[0.1], [0.5], [1.0]]


def test_more_results_than_judged_documents_are_ranked_all_the_same() -> None:
    run = ";".join(f"q d{index:04} {-index}" for index in range(2000))
    assert values(run, "q d1999 1", "rr ap@1000 recall@2000") == [[1 / 2000], [0.0], [1.0]]


def test_a_query_without_relevant_documents_is_0_and_counted() -> None:
    scores = scored("q a 2;z a 1", "q a 1;z a 0", "ap recall@5 ndcg rr")
    assert scores.values.tolist() == [[1.0, 0.0]] * 4
    assert scores.is_missing.tolist() == [False, False]


def test_a_query_missing_from_the_run_is_0_and_known_to_be_missing() -> None:
    scores = scored("q a 2", "p a 1;q a 1", "ap")
    assert scores.values.tolist() == [[0.0, 1.0]]
    assert scores.is_missing.tolist() == [True, False]


def test_a_query_that_is_not_in_the_qrels_is_ignored_and_counted() -> None:
    scores = scored("x a 9;q a 2;x b 8;y a 1", "q a 1", "ap")
    assert scores.values.tolist() == [[1.0]]
    assert scores.n_ignored == 2


def test_queries_stand_in_bytewise_order_of_their_ids() -> None:
    scores = scored("10 a 1;9 a 1;é a 1", "9 a 1;é b 1;10 b 1", "rr")
    assert scores.values.tolist() == [[0.0, 1.0, 0.0]]  # 10, 9, é


@pytest.mark.parametrize("spoil", ["scattered", "by score"])
def test_the_order_of_lines_does_not_matter(spoil: str) -> None:
    generator = np.random.default_rng(7)
    lines = [
        f"q{query} d{doc} {score}"
        for query in range(30)
        for doc, score in enumerate(generator.integers(0, 9, generator.integers(1, 40)).tolist())
    ]
    qrels = ";".join(f"q{query} d{doc} {doc % 3}" for query in range(30) for doc in range(0, 40, 3))
    names = "ap ndcg@10 bpref err@20 judged@5"
    expected = values(";".join(lines), qrels, names)
    if spoil == "scattered":
        spoilt = [lines[index] for index in generator.permutation(len(lines))]
    else:
        spoilt = sorted(lines, key=lambda line: (line.split()[0], -int(line.split()[2])))
    assert values(";".join(spoilt), qrels, names) == expected


def test_a_document_twice_in_a_ranking_is_refused_with_both_lines() -> None:
    with pytest.raises(
        InputError,
        match=r"run:4: document 'a' is ranked twice for query 'q', "
        r"first on line 1",
    ):
        scored("q a 3;p a 2;q b 2;q a 1", "q a 1;p a 1", "ap")
    scored("q a 3;x a 2;x a 2", "q a 1", "ap")  # a query that is ignored is not looked at


def test_a_document_twice_in_the_qrels_is_refused_with_both_lines() -> None:
    with pytest.raises(
        InputError,
        match=r"qrels:3: document 'a' is judged twice for query 'q', "
        r"first on line 1",
    ):
        scored("q a 3", "q a 1;p a 1;q a 0", "ap")


def test_a_run_that_shares_no_query_with_the_qrels_is_refused() -> None:
    with pytest.raises(InputError, match=r"none of its queries \(1, 2\) is in qrels \(q1\)"):
        scored("1 a 3;2 a 3", "q1 a 1", "ap")
