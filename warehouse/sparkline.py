"""A line of blocks that shows how values went."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
MISSING = " "
BREAK = "│"


def sparkline(values: Sequence[float | None], breaks: Sequence[bool] | None = None) -> str:
    """Draw one block a value, from the lowest to the highest of them.

    Args:
        values: in order of time; None leaves a gap.
        breaks: where True, a bar stands before the value: it must not be compared with the one
            before it.

    Returns:
        Blocks; equal values all stand in the middle.
    """
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    drawn = []
    for i, value in enumerate(values):
        if breaks is not None and i > 0 and breaks[i]:
            drawn.append(BREAK)
        drawn.append(MISSING if value is None else _block(value, low, high))
    return "".join(drawn)


def _block(value: float, low: float, high: float) -> str:
    if high == low:
        return BLOCKS[len(BLOCKS) // 2 - 1]
    return BLOCKS[min(int((value - low) / (high - low) * len(BLOCKS)), len(BLOCKS) - 1)]
