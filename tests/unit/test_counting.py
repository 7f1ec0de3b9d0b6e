"""A number and its noun agree."""

from __future__ import annotations

import pytest

from schemas.counting import counted


@pytest.mark.parametrize(
    ("n", "noun", "expected"),
    [
        (0, "run", "0 runs"),
        (1, "run", "1 run"),
        (2, "run", "2 runs"),
        (1200, "document", "1,200 documents"),
        (1, "lost query", "1 lost query"),
        (3, "lost query", "3 lost queries"),
        (2, "key", "2 keys"),
        (2, "array", "2 arrays"),
    ],
)
def test_one_is_singular_and_none_and_several_are_plural(n: int, noun: str, expected: str) -> None:
    assert counted(n, noun) == expected


@pytest.mark.parametrize(("n", "expected"), [(0, "0 rows are"), (1, "1 row is"), (2, "2 rows are")])
def test_the_verb_agrees(n: int, expected: str) -> None:
    assert counted(n, "row", ("is", "are")) == expected
