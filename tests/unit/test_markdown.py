"""Anybody's text in Markdown is shown as it is: read back by a Markdown reader of its own."""

import pytest
from markdown_it import MarkdownIt

from flows.markdown import escape, table

READER = MarkdownIt("gfm-like", {"html": True, "linkify": False})
HOSTILE = [
    "a | b || c",
    "`code` and ``` fence",
    "<script>alert(1)</script> <img src=x onerror=y> <!-- x -->",
    "**bold** _it_ ~~gone~~ [link](javascript:alert) ![image](x)",
    "# heading",
    "- item",
    "1. first",
    "> quote",
    "&lt;b&gt; &amp;",
    "back\\slash \\| \\`",
    "https://evil.example www.evil.example @team #12 $x$",
    "--- | ---",
    "Qui est Anna ? 儿童票多少钱？",
    "===",
    "+ plus",
    "| --- |",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_line_is_shown_as_the_text_itself(text: str) -> None:
    (_, inline, _) = READER.parse(escape(text))
    assert [child.type for child in inline.children or []] in (["text"], ["text"] * 3)
    assert "".join(child.content for child in inline.children or []) == text


def test_a_cell_is_shown_as_the_text_itself_and_the_table_keeps_its_shape() -> None:
    tokens = READER.parse(table(["query", "text"], [[text, 1] for text in HOSTILE]))
    cells = [token.content for token in tokens if token.type == "inline"]
    assert len(cells) == 2 + 2 * len(HOSTILE)
    html = READER.render(table(["query", "text"], [[text, 1] for text in HOSTILE]))
    assert not any(tag in html for tag in ("<script", "<img", "<code", "<a ", "<strong", "<em"))
    assert html.count("<tr>") == 1 + len(HOSTILE)
    assert html.count("<td>") == 2 * len(HOSTILE)


@pytest.mark.parametrize("text", ["a\nb", "a\r\n# b", "a\u2028b", "a\x1b[31mb", "a\tb"])
def test_one_text_never_becomes_two_lines(text: str) -> None:
    assert len(escape(text).splitlines()) == 1
    assert READER.render(escape(text)).count("<p>") == 1
