"""Markdown out of anybody's text: what a corpus or benchmark holds must not format the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from flows.printing import clean

# CommonMark takes a backslash before any ASCII punctuation as that character itself. What stays
# plain here has no meaning inside a line.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+|~$&!:@^=\"'])")
_LIST = re.compile(r"^(\s*\d*)([-.])")  # at a line's beginning
_LINK = re.compile(r"\b(www)(?=\.)", re.IGNORECASE)


def escape(text: object) -> str:
    """One line that a Markdown reader shows as the text itself, in a table's cell too.

    Control characters become visible, newlines among them; what GitHub would turn into a link, a
    mention or a tag of HTML stays text.
    """
    escaped = _SPECIAL.sub(r"\\\1", clean(str(text)))
    escaped = _LINK.sub(r"\1\\", escaped)
    return _LIST.sub(r"\1\\\2", escaped)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of GitHub's kind; None is an empty cell."""
    lines = [_row(columns), _row(["---"] * len(columns), is_rule=True)]
    lines += [_row(row) for row in rows]
    return "\n".join(lines)


def _row(cells: Sequence[object], *, is_rule: bool = False) -> str:
    texts = (
        str(cell) if is_rule else "" if cell is None else escape(cell).strip() for cell in cells
    )
    return f"| {' | '.join(texts)} |"
