"""Find and hash the files of a corpus or benchmark, and tell its format; nothing is parsed."""

from __future__ import annotations

import json
from pathlib import Path

from schemas.errors import InputError
from schemas.experiment import Benchmark, Corpus
from tasks.beir_folders import CORPUS, QUERIES, beir_files
from tasks.folders import KINDS, Found, find_documents, is_glob, kind_of
from tasks.pages import require_pdf_reader
from tasks.sources import Source, require_present, survey_file, survey_files
from tasks.trec_topics import trec_files

TABLES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
FIRST_LINE = 1 << 16
"""Bytes that are looked at to tell the kinds of JSON apart."""


def survey_corpus(config: Corpus) -> Source:
    """Find and hash the files of a corpus.

    Raises:
        InputError: a file is missing, empty or unreadable, no document is there, or the format
            cannot be told.
    """
    path = Path(config.path)
    if not is_glob(path):
        require_present(path, what="file or folder")
    format = config.format or _corpus_format(path)
    _require_kind(path, format, folders=("folder", "beir"))
    if format == "beir":
        require_present(path / CORPUS, what="file")
        return survey_files([(CORPUS, path / CORPUS)], format=format)
    if format != "folder":
        return survey_file(path, format=format)
    if path.is_file():
        if kind_of(path.name) is None:
            raise InputError(f"expected one of {' '.join(KINDS)}", path=path)
        found = Found([(path.name, path)], left_out=())
    else:
        found = find_documents(path)
    for name, document in found.files:
        if kind_of(name) == "pdf":
            require_pdf_reader(document)
    return survey_files(found.files, format=format, left_out=found.left_out)


def survey_benchmark(config: Benchmark) -> Source:
    """Find and hash the files of a benchmark; of a BEIR folder, those of its split.

    Raises:
        InputError: as ``survey_corpus``; or there is no such split.
    """
    path = Path(config.path)
    require_present(path, what="file or folder")
    format = config.format or _benchmark_format(path)
    _require_kind(path, format, folders=("beir", "trec"))
    if format == "beir":
        return survey_files(beir_files(path, config.split), format=format)
    if format == "trec":
        return survey_files(trec_files(path), format=format)
    return survey_file(path, format=format)


def _corpus_format(path: Path) -> str:
    if is_glob(path):
        return "folder"
    if path.is_dir():
        return "beir" if (path / CORPUS).is_file() else "folder"
    if kind_of(path.name) is not None:
        return "folder"
    format = _json_format(path) or TABLES.get(path.suffix.lower())
    if format is None:
        raise InputError(
            f"its format cannot be told from its name: expected {' '.join(KINDS)} "
            f"{' '.join(TABLES)} .json or a folder; or set corpus.format",
            path=path,
        )
    return format


def _benchmark_format(path: Path) -> str:
    if path.is_dir():
        if (path / QUERIES).is_file():
            return "beir"
        if any(path.glob("topics*")):
            return "trec"
        raise InputError(
            f"a folder as benchmark holds BEIR's {QUERIES} and qrels/SPLIT.tsv, or TREC's "
            "topics.* and qrels.*; this one holds neither",
            path=path,
        )
    format = _json_format(path) or TABLES.get(path.suffix.lower())
    if format is None or format == "parquet":
        raise InputError(
            "its format cannot be told from its name: expected .jsonl .json .csv or a folder; or "
            "set benchmark.format",
            path=path,
        )
    return format


def _json_format(path: Path) -> str | None:
    """``squad`` or ``ragas`` when a JSON file begins like one, else None."""
    suffix = path.suffix.lower()
    if suffix not in (".json", ".jsonl", ".ndjson"):
        return None
    try:
        with path.open("rb") as stream:
            start = stream.readline(FIRST_LINE).decode("utf-8-sig", "replace").strip()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", path=path) from None
    if suffix == ".json":
        return "ragas" if start.startswith("[") else "squad"
    try:
        row = json.loads(start)
    except (ValueError, RecursionError):
        return None  # refused with its line when it is read
    return "ragas" if isinstance(row, dict) and "user_input" in row else None


def _require_kind(path: Path, format: str, *, folders: tuple[str, ...]) -> None:
    if format in folders and format != "folder" and not path.is_dir():
        raise InputError(f"format {format!r} is a folder, and this is a file", path=path)
    if format not in folders and (path.is_dir() or is_glob(path)):
        raise InputError(f"format {format!r} is one file; name it", path=path)
