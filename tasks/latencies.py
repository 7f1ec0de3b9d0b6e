"""How long single queries took, and what that comes to where several stages follow each other."""

from __future__ import annotations

import numpy as np
import polars as pl


def latency_figures(milliseconds: pl.Series) -> dict[str, float | int]:
    """Percentiles (linear interpolation) of (n,) times, n at least 1."""
    p50, p95 = np.percentile(milliseconds.to_numpy(), (50, 95))
    return {
        "latency_p50_ms": round(float(p50), 3),
        "latency_p95_ms": round(float(p95), 3),
        "n_latency": milliseconds.len(),
    }


def add_latencies(paths: list[pl.DataFrame]) -> pl.DataFrame:
    """The sum of each query's times, over the queries that every frame has.

    Args:
        paths: LATENCIES of stages that a query passes one after the other, at least one.
    """
    total = paths[0]
    for path in paths[1:]:
        total = total.join(path, on="query_id", suffix="_next", maintain_order="left").select(
            "query_id", pl.col("milliseconds") + pl.col("milliseconds_next")
        )
    return total
