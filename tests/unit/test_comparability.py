"""Values with equal keys are compared; what is being compared is never in the key."""

from typing import Any

import pytest

from schemas.comparability import comparability_key
from schemas.experiment import Experiment


def experiment(**changes: Any) -> Experiment:
    table: dict[str, Any] = {
        "name": "x",
        "corpus": {"path": "c"},
        "benchmark": {"path": "b"},
        "labelling": {"method": "span"},
        "summary": {},
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        table.setdefault(section, {})
        if name:
            table[section][name] = value
        else:
            table[section] = value
    return Experiment.model_validate(table)


def key(measure: str = "ndcg@10", digest: str = "d", **changes: Any) -> str:
    return comparability_key(experiment(**changes), benchmark_digest=digest, measure=measure)


@pytest.mark.parametrize(
    "changes",
    [
        {"corpus__path": "other"},
        {"name": "other"},
        {"embedding__model": "other"},
        {"index__metric": "l2"},
        {"retrieval__depth": 50},
        {"benchmark__path": "moved"},
        {"execution__threads": 1},
    ],
)
def test_what_is_compared_is_not_in_the_key(changes: dict[str, Any]) -> None:
    assert key(**changes) == key()


@pytest.mark.parametrize(
    "changes",
    [
        {"benchmark__split": "test"},
        {"labelling__method": "answer_text"},
        {"labelling__min_coverage": 0.6},
        {"labelling__level": 2},
        {"chunking__size": 300},
        {"digest": "other"},
        {"measure": "ndcg@20"},
    ],
)
def test_what_decides_the_meaning_is_in_the_key(changes: dict[str, Any]) -> None:
    assert key(**changes) != key()


def test_evidence_within_characters_compares_chunkings() -> None:
    measure = "evidence_recall@2000chars"
    assert key(measure, chunking__size=300) == key(measure)
    assert key("evidence_recall@5", chunking__size=300) != key("evidence_recall@5")


def test_document_labels_compare_chunkings() -> None:
    assert key(labelling__method="document", chunking__size=300) == key(
        labelling__method="document"
    )


def test_summary_scores_depend_on_the_judge_and_not_on_the_generator_or_chunks() -> None:
    assert key("qa", chunking__size=300) == key("qa")
    assert key("qa", summary__coeff=0.4) != key("qa")
    assert key("qa", summary__n_contexts=4) != key("qa")
    prompts = comparability_key(
        experiment(), benchmark_digest="d", measure="qa", judge_version="prompts 2"
    )
    assert prompts != key("qa")
