"""TREC topics with their qrels: a folder with one ``topics.*`` and one ``qrels.*`` file."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from schemas.errors import InputError
from schemas.records import Query
from tasks.judgement_lines import Fields, collect_judgements, require_texts
from tasks.sources import Located, Source, SourceFile, read_lines, read_text
from tasks.trec_ids import decode_id

ROLES = ("topics", "qrels")

_TOPIC = re.compile(r"<top(?:ic)?\b([^>]*)>(.*?)</top(?:ic)?\s*>", re.DOTALL | re.IGNORECASE)
_NUMBER = re.compile(r"<num(?:ber)?>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_NUMBER_ATTRIBUTE = re.compile(r"""\bnumber\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_TEXT = re.compile(r"<(?:title|query)>\s*(?:Topic:)?([^<]*)", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\f\v]+")


def trec_files(folder: Path) -> list[tuple[str, Path]]:
    """The two files: relative name and path.

    Raises:
        InputError: one is missing, or there are several.
    """
    files = []
    for role in ROLES:
        there = sorted(path for path in folder.glob(f"{role}*") if path.is_file())
        if len(there) != 1:
            names = ", ".join(path.name for path in there) or "none"
            raise InputError(f"expected one file {role}.* in it, but found: {names}", path=folder)
        files.append((there[0].name, there[0]))
    return files


def trec_queries(source: Source) -> Iterator[Located[Query]]:
    """Topics as queries, by their title, or the query of an XML topic; qrels as grades.

    Topics are ``id TAB text`` lines, ``<top>`` or ``<topic>`` elements. Ids are decoded where
    the export encodes them: white space and ``%``. A topic that nobody judged has no qrels.

    Raises:
        InputError: a line or topic that cannot be read, or judgements of a topic without text.
    """
    topics_file, qrels_file = source.files
    qrels = collect_judgements(_judgement_lines(qrels_file))
    without_text = dict.fromkeys(qrels)
    is_marked_up = "<top" in read_text(topics_file)[:100_000].lower()
    for topic in (_elements if is_marked_up else _table)(topics_file):
        number, text = topic.record
        query_id = decode_id(number)
        without_text.pop(query_id, None)
        judgements = qrels.get(query_id)
        query = Query(query_id, text, qrels=None if judgements is None else tuple(judgements))
        yield Located(query, topic.path, topic.line)
    require_texts(without_text, qrels=qrels_file.path, queries=topics_file.relative_name)


def _elements(file: SourceFile) -> Iterator[Located[tuple[str, str]]]:
    content = read_text(file)
    line, reached = 1, 0
    for topic in _TOPIC.finditer(content):
        line += content.count("\n", reached, topic.start())
        reached = topic.start()
        number = _NUMBER_ATTRIBUTE.search(topic.group(1)) or _NUMBER.search(topic.group(2))
        text = _TEXT.search(topic.group(2))
        if number is None or text is None:
            missing = "number" if number is None else "title"
            raise InputError(f"this topic has no {missing}", path=file.path, line=line)
        words = " ".join(html.unescape(text.group(1)).split())
        yield Located((number.group(1), words), file.path, line)


def _table(file: SourceFile) -> Iterator[Located[tuple[str, str]]]:
    for line in read_lines(file):
        number, tab, text = line.record.partition("\t")
        if not tab:
            line.refuse("expected an id, a tab and the query's text")
        yield Located((number, text.strip()), line.path, line.line)


def _judgement_lines(file: SourceFile) -> Iterator[Located[Fields]]:
    for line in read_lines(file):
        fields = _SPACE.split(line.record.strip())
        if len(fields) != 4:
            line.refuse(
                f"a qrels line has 4 fields (query, iteration, document, grade); got {len(fields)}"
            )
        query_id, _, doc_id, grade = fields
        yield Located((decode_id(query_id), decode_id(doc_id), grade), line.path, line.line)
