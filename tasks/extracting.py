"""Documents from the files of a folder: text, Markdown, HTML and PDF."""

from __future__ import annotations

import copy
import logging
import re

from schemas.errors import InputError
from schemas.records import Document
from tasks.fences import fenced_ranges
from tasks.folders import kind_of
from tasks.pages import read_pages
from tasks.sources import Located, SourceFile, read_bytes, read_text

_FRONT_MATTER = re.compile(
    r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE
)
_FRONT_TITLE = re.compile(r"^title:(.*)$", re.MULTILINE)
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HEADING = re.compile(r"^#[ \t]+(\S[^\r\n]*)", re.MULTILINE)


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
    named = _FRONT_TITLE.search(front.group(1)) if front is not None else None
    title = named.group(1).strip().strip("\"'").strip() if named is not None else ""
    if title:
        return title
    position = 0
    for begin, end in (*fenced_ranges(text), (len(text), len(text))):
        for heading in _HEADING.finditer(text, position, begin):
            words = heading.group(1).rstrip()
            unmarked = words.rstrip("#")
            words = unmarked.rstrip() if unmarked[-1:].strip() == "" else words
            if words:
                return words
        position = end
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
    for node in page.iter():
        # What libxml2 lets in and lxml, on the way back, refuses: vertical tab and form feed.
        node.text = node.text and _NOT_XML.sub(" ", node.text)
        node.tail = node.tail and _NOT_XML.sub(" ", node.tail)
    title = _collapsed(page.findtext(".//title")) or _collapsed(
        next((heading.text_content() for heading in page.iter("h1")), None)
    )
    whole = copy.deepcopy(page)  # trafilatura takes the page apart
    text = trafilatura.extract(page, include_comments=False, favor_recall=True, deduplicate=False)
    return (text or trafilatura.html2txt(whole)).strip(), title


def _pdf_document(file: SourceFile) -> Document:
    pages = read_pages(read_bytes(file), path=file.path)
    return Document(file.relative_name, pages.text, pages.title, {"pages": list(pages.starts)})


def _collapsed(text: str | None) -> str | None:
    return " ".join(text.split()) or None if text is not None else None
