"""What other tools call the measures, and the nearest of our names."""

from __future__ import annotations

import re
from difflib import get_close_matches

from schemas.families import FAMILIES

_FOREIGN = {
    "map": "ap",
    "map_cut": "ap",
    "mrr": "rr",
    "recip_rank": "rr",
    "reciprocal_rank": "rr",
    "p": "precision",
    "r": "recall",
    "rprec": "r_precision",
    "ndcg_cut": "ndcg",
    "ndcg_burges": "ndcg_exp",
    "success": "hit",
    "hits": "hit",
    "hit_rate": "hit",
    "set_p": "set_precision",
    "set_f": "set_f1",
    "f": "f1",
    "iou": "span_iou",
}


def nearest(name: str) -> str:
    """Say which family may have been meant, or which there are."""
    lowered = re.sub(r"[_-]?[0-9]+$", "", name.lower()) if name.lower() not in FAMILIES else ""
    candidate = _FOREIGN.get(lowered, lowered or name.lower())
    if candidate in FAMILIES:
        return f"did you mean {candidate!r}?"
    near = get_close_matches(candidate, FAMILIES, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(repr(family) for family in near)}?"
    return f"known: {', '.join(FAMILIES)}"
