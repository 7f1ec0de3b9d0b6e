"""Which values may be compared: equal keys, per run and measure.

Corpus, index, model and code are never in the key: they are what is being compared.
"""

from __future__ import annotations

from typing import Any

from schemas.endpoints import Endpoint
from schemas.experiment import Experiment, Summary, digest_of
from schemas.measures import Measure

SUMMARY_MEASURES = ("summary_score", "qa", "conciseness")


def comparability_key(
    experiment: Experiment, *, benchmark_digest: str, measure: str, judge_version: str = ""
) -> str:
    """The digest of what decides a measure's meaning in a run; see ``comparability_parts``."""
    return digest_of(
        comparability_parts(
            experiment,
            benchmark_digest=benchmark_digest,
            measure=measure,
            judge_version=judge_version,
        )
    )


def comparability_parts(
    experiment: Experiment, *, benchmark_digest: str, measure: str, judge_version: str = ""
) -> dict[str, Any]:
    """What decides a measure's meaning in a run, by name.

    Args:
        experiment: the configuration of the run.
        benchmark_digest: of the benchmark's files as written.
        measure: its canonical name.
        judge_version: for summary scores, what identifies the judge beside the configuration:
            the digest of its prompts.

    Raises:
        ValueError: a summary score, and the experiment has none.
    """
    parsed = Measure.parse(measure)
    ingredients: dict[str, Any] = {
        "benchmark": benchmark_digest,
        "split": experiment.benchmark.split,
        "measure": measure,
        "contract_version": parsed.contract.version,
    }
    if measure in SUMMARY_MEASURES:
        if experiment.summary is None:
            raise ValueError(f"{measure} needs a [summary] section")
        ingredients["judge"] = _judge(experiment.summary)
        ingredients["judge_version"] = judge_version
        for name in ("contexts", "n_contexts", "coeff", "length_penalty"):
            ingredients[name] = getattr(experiment.summary, name)
        return ingredients
    ingredients["labelling"] = experiment.labelling.model_dump(mode="json")
    counts_chunks = experiment.labelling.method != "document"
    is_by_characters = parsed.family == "evidence_recall" and parsed.unit == "chars"
    if counts_chunks and not is_by_characters:
        ingredients["chunking"] = experiment.chunking.model_dump(mode="json")
    return ingredients


def _judge(summary: Summary) -> Any:
    """Endpoint, model and parameters, and the language of its prompts."""
    if isinstance(summary.judge, Endpoint):
        return summary.judge.identity | {"prompts": summary.prompts}
    return summary.judge
