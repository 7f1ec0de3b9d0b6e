"""Match the ids of rankings with the judged ids of their queries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tasks.graded import Ints

MANY = 200
"""Where rankings and judgements are both longer than this, looking up beats comparing them all."""

_NONE = np.empty(0, dtype=np.int64)


def match_ids(ids: Ints, judged_ids: Ints, first: Ints, n_judged: Ints) -> tuple[Ints, Ints, Ints]:
    """Find each line's judged ids in it.

    Args:
        ids: (n_lines, width), one ranking a line; padding is below 0.
        judged_ids: (n,) 0 or more.
        first: (n_lines,) where the judged ids of each line begin.
        n_judged: (n_lines,) and how many they are.

    Returns:
        Line, column and index of the judged id of every match, in no order.
    """
    is_small = ids.shape[1] <= MANY or n_judged.sum() <= MANY * len(ids)
    match = _match_by_turns if is_small else _match_by_line
    found = list(match(ids, judged_ids, first, n_judged))
    if not found:
        return _NONE, _NONE, _NONE
    line, column, judgement = (np.concatenate(part) for part in zip(*found, strict=True))
    return line, column, judgement


def _match_by_turns(
    ids: Ints, judged_ids: Ints, first: Ints, n_judged: Ints
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Compare every line with its first judged item, then with its second, and so on."""
    for turn in range(int(n_judged.max(initial=0))):
        active = np.flatnonzero(n_judged > turn)
        judgement = first[active] + turn
        candidates = ids if len(active) == len(ids) else ids[active]
        cells = np.flatnonzero(candidates == judged_ids[judgement][:, None])
        line, column = np.divmod(cells, ids.shape[1])
        yield active[line], column, judgement[line]


def _match_by_line(
    ids: Ints, judged_ids: Ints, first: Ints, n_judged: Ints
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Look the judged items of one line up in it, sorted."""
    for line in np.flatnonzero(n_judged):
        judgement = np.arange(first[line], first[line] + n_judged[line])
        order = np.argsort(ids[line])
        wanted = judged_ids[judgement]
        place = np.searchsorted(ids[line], wanted, sorter=order)
        column = order[np.minimum(place, len(order) - 1)]
        is_found = ids[line, column] == wanted
        yield np.full(np.count_nonzero(is_found), line), column[is_found], judgement[is_found]
