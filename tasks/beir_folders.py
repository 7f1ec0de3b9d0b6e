"""BEIR's folder (Thakur et al. 2021): ``corpus.jsonl queries.jsonl qrels/SPLIT.tsv``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from schemas.counting import counted
from schemas.errors import InputError
from schemas.records import Query
from tasks.corpora import jsonl_rows
from tasks.identifiers import identifier
from tasks.judgement_lines import Fields, collect_judgements, require_texts
from tasks.sources import Located, Source, SourceFile, read_lines, require_present

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
DEFAULT_SPLIT = "test"


def beir_files(folder: Path, split: str | None) -> list[tuple[str, Path]]:
    """The files of one split of the benchmark: relative name and path.

    Raises:
        InputError: one is missing; for a split, says which there are.
    """
    require_present(folder / QUERIES, what="file")
    name = f"{QRELS}/{split or DEFAULT_SPLIT}.tsv"
    if not (folder / name).is_file():
        splits = sorted(path.stem for path in (folder / QRELS).glob("*.tsv"))
        there = f"the splits are: {', '.join(splits)}" if splits else "there is no qrels/SPLIT.tsv"
        raise InputError(
            f"there is no split {split or DEFAULT_SPLIT!r}; {there}", path=folder / name
        )
    return [(QUERIES, folder / QUERIES), (name, folder / name)]


def beir_queries(source: Source) -> Iterator[Located[Query]]:
    """The queries that the split's qrels judge, in the order of ``queries.jsonl``.

    Raises:
        InputError: a line that cannot be read, or judgements of a query that has no text.
    """
    qrels_file = next(file for file in source.files if file.relative_name != QUERIES)
    split = Path(qrels_file.relative_name).stem
    qrels = collect_judgements(_judgement_lines(qrels_file))
    without_text = dict.fromkeys(qrels)
    for row in jsonl_rows(source.file(QUERIES)):
        try:
            query_id = identifier(row.record.get("_id"))
        except ValueError as error:
            row.refuse(f"_id {error}")
        text = row.record.get("text")
        if not isinstance(text, str):
            row.refuse(f"'text' is {text!r:.60}; expected a string")
        if query_id in qrels:
            without_text.pop(query_id, None)
            query = Query(query_id, text, split=split, qrels=tuple(qrels[query_id]))
            yield Located(query, row.path, row.line)
    require_texts(without_text, qrels=qrels_file.path, queries=QUERIES)


def _judgement_lines(file: SourceFile) -> Iterator[Located[Fields]]:
    """``query-id TAB corpus-id TAB score``; the header may be missing."""
    for line in read_lines(file):
        fields = line.record.split("\t")
        if len(fields) != 3:
            line.refuse(
                f"expected query-id, corpus-id and score with tabs between, but got "
                f"{counted(len(fields), 'field')}"
            )
        query_id, doc_id, score = fields
        if line.line != 1 or score != "score":
            yield Located((query_id, doc_id, score), line.path, line.line)
