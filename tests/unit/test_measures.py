"""A measure parses, prints, sorts and hashes; what cannot be is refused with a way out."""

import re

import pytest

from schemas.errors import UsageError
from schemas.families import FAMILIES
from schemas.measures import MEASURE_PATTERN, Measure, MeasureError


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("ndcg@10", "ndcg@10"),
        (" ndcg@010 ", "ndcg@10"),
        ("ap", "ap"),
        ("rbp", "rbp(p=0.8)"),
        ("rbp(p=.8)", "rbp(p=0.8)"),
        ("rbp( p = 8e-1 )", "rbp(p=0.8)"),
        ("err@20", "err@20(max_grade=4)"),
        ("err@20(max_grade=4)", "err@20(max_grade=4)"),
        ("evidence_recall@2000chars", "evidence_recall@2000chars"),
        ("evidence_recall@5", "evidence_recall@5"),
        ("summary_score", "summary_score"),
    ],
)
def test_a_measure_prints_the_name_under_which_it_is_stored(written: str, canonical: str) -> None:
    measure = Measure.parse(written)
    assert str(measure) == canonical
    assert Measure.parse(canonical) == measure
    assert hash(Measure.parse(canonical)) == hash(measure)
    assert re.fullmatch(MEASURE_PATTERN, canonical)


def test_measures_sort_by_family_then_cutoff_as_numbers() -> None:
    names = ["ndcg@10", "ndcg@9", "ap@5", "ndcg", "evidence_recall@5chars", "evidence_recall@10"]
    assert [str(measure) for measure in sorted(map(Measure.parse, names))] == [
        "ap@5",
        "evidence_recall@5chars",
        "evidence_recall@10",
        "ndcg",
        "ndcg@9",
        "ndcg@10",
    ]


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("ndgc@10", "did you mean 'ndcg'"),
        ("nDCG@10", "did you mean 'ndcg'?"),
        ("MAP@100", "did you mean 'ap'?"),
        ("mrr", "did you mean 'rr'?"),
        ("P_10", "did you mean 'precision'?"),
        ("ndcg_cut_10", "did you mean 'ndcg'?"),
        ("xyz", "known: hit, precision"),
        ("ndcg@0", "the cutoff is '0'; expected a whole number from 1 to"),
        ("ndcg@-1", "the cutoff is '-1'"),
        ("ndcg@1.5", "the cutoff is '1.5'"),
        ("ndcg@", "the cutoff is ''"),
        ("ndcg@10chars", "the cutoff is '10chars'"),
        ("ndcg@" + "9" * 5000, "expected a whole number from 1 to 1000000000"),
        ("ndcg@１０", "expected a whole number"),
        ("recall", "recall needs a cutoff, such as recall@10"),
        ("evidence_recall", "such as evidence_recall@2000chars or evidence_recall@10"),
        ("rbp@10", "rbp takes no cutoff"),
        ("hit@5(p=1)", "hit takes no parameters"),
        ("rbp(q=0.5)", "expected rbp(p=…), each once"),
        ("rbp(p=0.5,p=0.6)", "expected rbp(p=…), each once"),
        ("rbp(p=1)", "a number between 0 and 1, both excluded"),
        ("rbp(p=nan)", "p is 'nan'"),
        ("err@5(max_grade=2.5)", "a whole number from 1 to 1000"),
        ("err@5(max_grade=0)", "a whole number from 1 to 1000"),
        ("", "expected family@cutoff"),
        ("err(max_grade=4)@20", "expected family@cutoff(parameter=number)"),
    ],
)
def test_what_is_no_measure_is_refused_with_a_way_out(written: str, complaint: str) -> None:
    with pytest.raises(MeasureError, match=re.escape(complaint)) as caught:
        Measure.parse(written)
    assert isinstance(caught.value, UsageError)  # exit code 2
    assert isinstance(caught.value, ValueError)  # what pydantic reports as a fault of the file


@pytest.mark.parametrize(
    ("name", "method", "complaint"),
    [
        ("ap", "document", "an experiment needs a cutoff, such as ap@100"),
        ("ndcg@101", "document", "beyond retrieval.depth, which is 100"),
        ("bpref", "span", "needs labelling.method = 'document', but the method is 'span'"),
        ("judged@5", "answer_text", "needs labelling.method = 'document'"),
        ("span_recall@5", "answer_text", "needs labelling.method = 'span'"),
        ("evidence_recall@5", "document", "'answer_text' or 'span'"),
        ("evidence_recall@500chars", "document", "'answer_text' or 'span'"),
        ("set_precision", "document", "write precision_returned@100"),
        ("set_f1", "document", "write f1@100"),
        ("qa", "document", "a [summary] section gives it"),
    ],
)
def test_an_experiment_refuses_what_it_cannot_compute(
    name: str, method: str, complaint: str
) -> None:
    with pytest.raises(MeasureError, match=re.escape(complaint)):
        Measure.parse(name).check_fits(depth=100, label_method=method)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("ndcg@100", "document"),
        ("rbp", "answer_text"),
        ("r_precision", "span"),
        ("bpref", "document"),
        ("span_iou@100", "span"),
        ("evidence_recall@100", "answer_text"),
        ("evidence_recall@50000chars", "span"),  # characters are not ranks
    ],
)
def test_an_experiment_takes_what_it_can_compute(name: str, method: str) -> None:
    Measure.parse(name).check_fits(depth=100, label_method=method)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["evidence_recall@5", "span_iou@5", "summary_score"])
def test_files_refuse_what_needs_texts(name: str) -> None:
    with pytest.raises(MeasureError, match="cannot be computed from a qrels and a run file"):
        Measure.parse(name).check_files()


def test_every_contract_says_what_a_value_means() -> None:
    for name, family in FAMILIES.items():
        contract = family.contract
        for text in (contract.formula, contract.edge_policy, contract.source):
            assert len(text) >= 8, name
        assert contract.lowest == 0.0, name
        assert contract.highest == (None if name == "dcg" else 1.0), name
        assert contract.version >= 1, name
