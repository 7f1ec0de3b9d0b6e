"""Which columns a line holds, and how wide each is; and which of them say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

GAP = 2  # spaces between columns
LEAST_TEXT = 24  # free text is cut to this before another column is left out


def fit_columns(
    widths: Sequence[int], least_widths: Sequence[int | None], room: int
) -> dict[int, int]:
    """Leave columns out, from the right, until the rest fits with its free text cut short.

    Args:
        widths: of each column uncut, in characters.
        least_widths: how far a column of free text may be cut; None: not at all.
        room: the width of a line.

    Returns:
        Index of each column that is kept to its width, in order. The first column is always
        kept, and is wider than the line when it may not be cut.
    """
    least = [
        width if least_width is None else min(width, least_width)
        for width, least_width in zip(widths, least_widths, strict=True)
    ]
    kept = len(widths)
    while kept > 1 and sum(least[:kept]) + GAP * (kept - 1) > room:
        kept -= 1
    fitted = dict(enumerate(least[:kept]))
    spare = room - sum(fitted.values()) - GAP * (kept - 1)
    # The shortest first: what it does not need is left to the longer ones.
    longer = sorted((i for i in fitted if widths[i] > fitted[i]), key=lambda i: widths[i])
    for n_done, i in enumerate(longer):
        grown = min(widths[i] - fitted[i], max(spare, 0) // (len(longer) - n_done))
        fitted[i] += grown
        spare -= grown
    return fitted


def dull_last(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], dull: Mapping[str, object]
) -> list[str]:
    """Move columns that say nothing to the right, where a narrow terminal leaves them out.

    Args:
        rows: what is printed.
        columns: in order of importance.
        dull: column to the value that says nothing, such as ``completed`` of a status.
    """
    last = [
        name
        for name in columns
        if name in dull and all(row.get(name) in (dull[name], None) for row in rows)
    ]
    return [name for name in columns if name not in last] + last
