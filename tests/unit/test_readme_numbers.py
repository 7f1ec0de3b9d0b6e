"""The README's table of what other libraries print for one ranking is computed, not remembered."""

import math
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from sklearn.metrics import ndcg_score

from schemas.measures import Measure
from tasks.ranking import score_gains

README = (Path(__file__).parents[2] / "README.md").read_text()
GOLD, RETRIEVED, K = "abcd", "axb", 5

HITS = [doc in GOLD for doc in RETRIEVED]
PRECISIONS = [sum(HITS[: rank + 1]) / (rank + 1) for rank, hit in enumerate(HITS) if hit]
DISCOUNTS = [1 / math.log2(rank + 2) for rank in range(K)]
DCG = sum(discount for discount, hit in zip(DISCOUNTS, HITS, strict=False) if hit)

RULES = {
    "hits / k": sum(HITS) / K,
    "hits / what was returned": sum(HITS) / len(RETRIEVED),
    "the ideal is all four gold documents": DCG / sum(DISCOUNTS[: len(GOLD)]),
    "the ideal is cut at the three that were returned": DCG / sum(DISCOUNTS[: len(RETRIEVED)]),
    "the ideal is the best order of what was retrieved": DCG / sum(DISCOUNTS[: sum(HITS)]),
    "sum of precisions / R": sum(PRECISIONS) / len(GOLD),
    "the same sum / hits found": sum(PRECISIONS) / sum(HITS),
    "the same sum / k": sum(PRECISIONS) / K,
}


def rows() -> list[list[str]]:
    """The cells of the table's rows."""
    table = README.partition("### One ranking, many numbers")[2].partition("\n#")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_rule_of_the_table_gives_the_number_beside_it() -> None:
    assert {rule: value for _, value, rule, *_ in rows()} == {
        rule: f"{value:.4f}" for rule, value in RULES.items()
    }


def test_our_measures_print_the_number_of_their_row() -> None:
    ours = {name.strip("`"): value for _, value, *_, name in rows() if name != "–"}
    assert len(ours) == 5
    gains = np.array([[int(hit) for hit in HITS]])
    values = score_gains(
        gains,
        np.array([len(GOLD)]),
        np.ones((1, len(GOLD)), dtype=np.int64),
        [Measure.parse(name) for name in ours],
        n_returned=np.array([len(RETRIEVED)]),
    )
    assert [f"{value:.4f}" for value in values[:, 0]] == list(ours.values())


def test_libraries_that_are_installed_print_what_the_table_says() -> None:
    printed = {rule: by for _, _, rule, by, _ in rows()}
    run = {"q": {doc: float(-rank) for rank, doc in enumerate(RETRIEVED)}}
    names = {"P.5", "ndcg_cut.5", "map_cut.5"}
    trec = pytrec_eval.RelevanceEvaluator({"q": dict.fromkeys(GOLD, 1)}, names).evaluate(run)["q"]
    for name, rule in (
        ("P_5", "hits / k"),
        ("ndcg_cut_5", "the ideal is all four gold documents"),
        ("map_cut_5", "sum of precisions / R"),
    ):
        assert trec[name] == pytest.approx(RULES[rule], abs=1e-15)
        assert "pytrec_eval" in printed[rule]
    rule = "the ideal is the best order of what was retrieved"
    assert ndcg_score([[1, 0, 1]], [[3, 2, 1]], k=K) == pytest.approx(RULES[rule], abs=1e-15)
    assert "scikit-learn" in printed[rule]
