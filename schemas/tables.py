"""Every table's model: strict, keyed, and the reason beside each rule.

Importing this module loads pandera (half a second): only what validates does so.
"""

from __future__ import annotations

import pandera.polars as pa

from schemas.comparison_tables import Baselines, Comparisons
from schemas.llm_tables import LlmCalls
from schemas.result_tables import (
    Labels,
    Measures,
    Queries,
    QueryMetrics,
    Rankings,
    RunMetrics,
    SummaryQuestions,
    SummaryScores,
)
from schemas.run_tables import Events, Runs, Stages

MODELS: dict[str, type[pa.DataFrameModel]] = {
    "runs": Runs,
    "stages": Stages,
    "queries": Queries,
    "rankings": Rankings,
    "labels": Labels,
    "measures": Measures,
    "query_metrics": QueryMetrics,
    "run_metrics": RunMetrics,
    "summary_scores": SummaryScores,
    "summary_questions": SummaryQuestions,
    "llm_calls": LlmCalls,
    "events": Events,
    "comparisons": Comparisons,
    "baselines": Baselines,
}
"""Table name to model, in the order in which a part is written and loaded."""
