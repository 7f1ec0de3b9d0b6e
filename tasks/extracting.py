"""Documents from the files of a folder: text, Markdown, HTML and PDF."""

from __future__ import annotations

import logging
import re

from schemas.errors import InputError
from schemas.records import Document
from tasks.folders import kind_of
from tasks.pages import read_pages
from tasks.sources import Located, SourceFile, read_bytes, read_text

_FRONT_MATTER = re.compile(
    r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
_FRONT_TITLE = re.compile(r"^title:[ \t]*(.*?)[ \t]*\r?$", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"#[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")


def file_document(file: SourceFile) -> Located[Document]:
    """One file as a document; ``doc_id`` is its name below the folder.

    Text and Markdown are kept character for character. The title is a Markdown file's front
    matter's or its first ``# `` heading, a web page's ``<title>`` or first ``<h1>``, a PDF's own.

    Raises:
        InputError: not UTF-8, a PDF that cannot be read, a file without text.
    """
    kind = kind_of(file.relative_name)
    if kind == "pdf":
        return Located(_pdf_document(file), file.path)
    text = read_text(file)
    title = None
    if kind == "markdown":
        title = markdown_title(text)
    elif kind == "html":
        text, title = html_text(text)
        if not text:
            raise InputError("no text was found in this HTML", path=file.path)
    return Located(Document(file.relative_name, text, title), file.path)


def markdown_title(text: str) -> str | None:
    """The front matter's ``title``, else the first heading of level 1 outside of code."""
    front = _FRONT_MATTER.match(text)
    if front is not None:
        named = _FRONT_TITLE.search(front.group(1))
        title = named.group(1).strip("\"'").strip() if named is not None else ""
        if title:
            return title
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark is not None and not fence:
            fence = mark.group(1)
        elif mark is not None and mark.group(1).startswith(fence):
            fence = ""
        elif not fence:
            heading = _HEADING.fullmatch(line)
            if heading is not None and heading.group(1):
                return heading.group(1)
    return None


def html_text(html: str) -> tuple[str, str | None]:
    """The main text of a page, by trafilatura, and its title; without main text, all of its text.

    Returns:
        Text (empty: there is none) and title (None: there is none).
    """
    import lxml.html
    import trafilatura
    from lxml.etree import ParserError

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    # Parsed here: a declared charset or an XML declaration would otherwise be believed, and the
    # file is UTF-8.
    parser = lxml.html.HTMLParser(encoding="utf-8")
    try:
        page = lxml.html.document_fromstring(html.encode(), parser=parser)
    except ParserError:
        return "", None
    title = _collapsed(page.findtext(".//title")) or _collapsed(
        next((heading.text_content() for heading in page.iter("h1")), None)
    )
    whole = lxml.html.document_fromstring(html.encode(), parser=parser)
    text = trafilatura.extract(page, include_comments=False, favor_recall=True, deduplicate=False)
    return (text or trafilatura.html2txt(whole)).strip(), title


def _pdf_document(file: SourceFile) -> Document:
    pages = read_pages(read_bytes(file), path=file.path)
    return Document(file.relative_name, pages.text, pages.title, {"pages": list(pages.starts)})


def _collapsed(text: str | None) -> str | None:
    return " ".join(text.split()) or None if text is not None else None
