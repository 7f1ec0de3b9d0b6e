"""The families of measures, each with its contract."""

from __future__ import annotations

from typing import Literal

from schemas.contracts import (
    ANY,
    CHUNKS,
    DOCUMENTS,
    SPANS,
    Contract,
    Family,
    LabelMethod,
    Parameter,
)


def _family(
    cutoff: Literal["required", "optional", "none"],
    formula: str,
    edge: str,
    source: str,
    *,
    highest: float | None = 1.0,
    labels: frozenset[LabelMethod] = ANY,
    scope: Literal["both", "trec", "experiment", "summary"] = "both",
    parameters: tuple[tuple[str, Parameter], ...] = (),
    takes_characters: bool = False,
) -> Family:
    contract = Contract(formula, 0.0, highest, edge, source)
    return Family(contract, cutoff, labels, scope, parameters, takes_characters)


_NOTHING = "nothing relevant: NULL no_relevant (rankhouse trec: 0, counted)"
_SHORT = f"{_NOTHING}; a rank that was not returned is not relevant"
_ROUNDED = f"{_SHORT}; rounding never lifts it above 1"
_SPAN_EDGE = "nothing relevant: NULL no_relevant; lost spans stay in the denominator"
_TREC = "trec_eval 10"
_CHUNKING = (
    "Smith & Troynikov (2024), Evaluating Chunking Strategies for Retrieval, over characters, "
    "each counted once"
)

FAMILIES: dict[str, Family] = {
    "hit": _family(
        "required", "1 if any of the first k is relevant, else 0", _SHORT, f"{_TREC} success"
    ),
    "precision": _family("required", "hits in the first k / k", _SHORT, f"{_TREC} P"),
    "precision_returned": _family(
        "required",
        "hits in the first k / min(k, n), n returned",
        f"{_NOTHING}; nothing returned: 0",
        "Manning, Raghavan & Schütze (2008), 8.3: precision of the returned set, cut at k",
    ),
    "recall": _family("required", "hits in the first k / R", _SHORT, f"{_TREC} recall"),
    "recall_capped": _family(
        "required", "hits in the first k / min(R, k)", _SHORT, "BEIR, Thakur et al. (2021), 4.1"
    ),
    "f1": _family(
        "required",
        "2PR / (P + R), P = hits / k, R = hits / relevant",
        f"{_SHORT}; no hit: 0",
        "van Rijsbergen (1979), chapter 7, beta 1",
    ),
    "rr": _family(
        "optional",
        "1 / rank of the first relevant item, 0 if none is in the first k",
        _SHORT,
        f"{_TREC} recip_rank",
    ),
    "ap": _family(
        "optional",
        "sum over hits in the first k of (hits so far / rank), / R",
        _SHORT,
        f"{_TREC} map, map_cut",
    ),
    "ap_hits": _family(
        "optional",
        "sum over hits in the first k of (hits so far / rank), / hits in the first k",
        f"{_SHORT}; no hit: 0",
        "the mean precision over what was found, which several RAG libraries call AP",
    ),
    "ap_capped": _family(
        "required",
        "sum over hits in the first k of (hits so far / rank), / min(R, k)",
        _SHORT,
        "AP@k of the Kaggle and RecSys challenges",
    ),
    "ndcg": _family(
        "optional",
        "DCG / ideal DCG; DCG = sum of gain / log2(rank + 1) over the first k; ideal: all judged",
        _ROUNDED,
        f"{_TREC} ndcg, ndcg_cut; Järvelin & Kekäläinen (2002), doi:10.1145/582415.582418",
    ),
    "ndcg_exp": _family(
        "optional",
        "as ndcg with gain 2^grade - 1",
        _ROUNDED,
        "Burges et al. (2005), doi:10.1145/1102351.1102363",
    ),
    "dcg": _family(
        "optional",
        "sum of gain / log2(rank + 1) over the first k",
        _SHORT,
        "Järvelin & Kekäläinen (2002), doi:10.1145/582415.582418, log2(rank + 1) form",
        highest=None,
    ),
    "r_precision": _family("none", "hits in the first R / R", _SHORT, f"{_TREC} Rprec"),
    "bpref": _family(
        "none",
        "sum over hits of (1 - min(judged non-relevant above, R) / min(N, R)), / R; "
        "N judged non-relevant",
        f"{_NOTHING}; grades below 0 count as unjudged",
        f"{_TREC} bpref; Buckley & Voorhees (2004), doi:10.1145/1008992.1009000",
        labels=DOCUMENTS,
    ),
    "err": _family(
        "optional",
        "sum over the first k of (1 / rank) s(g) * product above of (1 - s(g)), "
        "s(g) = (2^min(g, max_grade) - 1) / 2^max_grade",
        _ROUNDED,
        "gdeval; Chapelle et al. (2009), doi:10.1145/1645953.1646033",
        parameters=(("max_grade", Parameter(4, 1, 1000, is_whole=True)),),
    ),
    "rbp": _family(
        "none",
        "(1 - p) * sum over hits of p^(rank - 1)",
        _ROUNDED,
        "Moffat & Zobel (2008), doi:10.1145/1416950.1416952, binary",
        parameters=(("p", Parameter(0.8, 0, 1)),),
    ),
    "judged": _family(
        "required",
        "items of the first k with a grade of 0 or more / k",
        "nothing relevant: NULL no_relevant (rankhouse trec: counted as it is); "
        "grades below 0 count as unjudged",
        "ir_measures Judged@k",
        labels=DOCUMENTS,
    ),
    "set_precision": _family(
        "none",
        "hits / returned",
        f"{_NOTHING}; nothing returned: 0",
        f"{_TREC} set_P",
        scope="trec",
    ),
    "set_recall": _family("none", "hits / R", _NOTHING, f"{_TREC} set_recall", scope="trec"),
    "set_f1": _family(
        "none",
        "2PR / (P + R) of set_precision and set_recall",
        f"{_NOTHING}; no hit: 0",
        f"{_TREC} set_F",
        scope="trec",
    ),
    "span_recall": _family(
        "required",
        "characters in the first k chunks and in a gold span / characters in gold spans",
        _SPAN_EDGE,
        _CHUNKING,
        labels=SPANS,
        scope="experiment",
    ),
    "span_precision": _family(
        "required",
        "characters in the first k chunks and in a gold span / characters in the first k chunks",
        f"{_SPAN_EDGE}; nothing returned: 0",
        _CHUNKING,
        labels=SPANS,
        scope="experiment",
    ),
    "span_iou": _family(
        "required",
        "characters in the first k chunks and in a gold span / characters in either",
        _SPAN_EDGE,
        _CHUNKING,
        labels=SPANS,
        scope="experiment",
    ),
    "evidence_recall": _family(
        "required",
        "share of the gold spans (answer_text: 1 if any answer) that a chunk of the first k, or "
        "of the first N characters of chunk text, satisfies; a chunk that crosses N counts by "
        "its part before N",
        "nothing relevant: NULL no_relevant; lost spans are in the denominator",
        "Rankhouse; the answer recall of DPR, Karpukhin et al. (2020), over gold spans",
        labels=CHUNKS,
        scope="experiment",
        takes_characters=True,
    ),
    "summary_score": _family(
        "none",
        "qa (1 - coeff) + conciseness coeff with length_penalty, else qa",
        "any status but scored: NULL failed",
        "Rankhouse",
        scope="summary",
    ),
    "qa": _family(
        "none",
        'answers that are "1" / answers',
        "any status but scored: NULL failed",
        "QAGS style, Wang et al. (2020)",
        scope="summary",
    ),
    "conciseness": _family(
        "none",
        "1 - min(len(summary), len(contexts)) / (len(contexts) + 1e-10), in characters",
        "any status but scored: NULL failed",
        "Rankhouse",
        scope="summary",
    ),
}
