"""Cut documents into chunks, each the exact slice of its document that it claims to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from schemas.errors import InputError, StageError
from schemas.experiment import Chunking
from schemas.frames import CHUNKS
from schemas.records import Chunk, Document, chunk_id_of
from tasks.plugins import Cut, load_plugin, plugin_cuts
from tasks.record_frames import documents_from_frame, frame_of
from tasks.splitting import make_split

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Cutter = Callable[[Document], Iterable[Cut]]
Row = tuple[str, str, int, int, str, str | None]
Piece = tuple[int, int, str, str | None]  # start, end, text, title


def chunk_document(
    document: Document, config: Chunking, *, tokenizer: Tokenizer | None = None
) -> list[Chunk]:
    """The chunks of one document, by start, none of them twice.

    Every character that is not white space is in a chunk, unless a plug-in leaves it out; a chunk
    of white space alone is dropped. What ``size`` and ``overlap`` mean, in characters (code
    points) or in tokens without the special ones:

    - ``none``: the whole document is one chunk; neither counts.
    - ``fixed``: windows of ``size`` that start at 0, size − overlap, …; the last one may be
      shorter. In tokens of the document as a whole: a word cut in two may count for more alone.
    - ``recursive``, ``markdown``: at most ``size``, as much of the structure as fits; neighbours
      share at most ``overlap``, whole lines, sentences or words of it.
    - ``sentences``: whole sentences up to ``size``, neighbours share whole sentences up to
      ``overlap``; a sentence that is longer than ``size`` is cut as ``recursive`` does.

    A word of over 100 characters, which many models read as one unknown token, counts as a token
    for each 100.

    Args:
        document: any text.
        config: how to cut.
        tokenizer: the embedding model's; needed when ``config.unit`` is ``tokens``.

    Raises:
        ConfigurationError: the plug-in cannot be imported.
        StageError: a plug-in or a library gave what is no span of the document.
    """
    pieces = _pieces(document, config, _cutter(config, tokenizer))
    return [Chunk(document.doc_id, *piece) for piece in pieces]


def chunk_documents(
    documents: Iterable[pl.DataFrame], config: Chunking, *, tokenizer_file: Path | None = None
) -> pl.DataFrame:
    """CHUNKS of ``chunk_rows``."""
    return frame_of(chunk_rows(documents, config, tokenizer_file=tokenizer_file), CHUNKS)


def chunk_rows(
    documents: Iterable[pl.DataFrame], config: Chunking, *, tokenizer_file: Path | None = None
) -> Iterator[Row]:
    """The chunks of many documents.

    Args:
        documents: DOCUMENTS in parts; ``metadata`` is read for a plug-in only.
        config: how to cut.
        tokenizer_file: the embedding model's ``tokenizer.json``; needed for sizes in tokens.

    Yields:
        Rows of CHUNKS, in the order of the documents, then by start.

    Raises:
        InputError: the tokenizer cannot be read.
        ConfigurationError, StageError: see ``chunk_document``.
    """
    cutter = _cutter(config, _read_tokenizer(tokenizer_file))
    for part in documents:
        for document in _documents(part, with_metadata=config.plugin is not None):
            doc_id = document.doc_id
            for start, end, text, title in _pieces(document, config, cutter):
                yield chunk_id_of(doc_id, start, end), doc_id, start, end, text, title


def columns_of_documents(config: Chunking) -> tuple[str, ...]:
    """What chunking reads of DOCUMENTS."""
    columns = ("doc_id", "title", "text")
    return columns if config.plugin is None else (*columns, "metadata")


def _documents(part: pl.DataFrame, *, with_metadata: bool) -> Iterable[Document]:
    if with_metadata:
        return documents_from_frame(part)
    return map(Document, part["doc_id"], part["text"], part["title"])


def _cutter(config: Chunking, tokenizer: Tokenizer | None) -> Cutter:
    if config.plugin is not None:
        plugin = load_plugin(config.plugin)
        return lambda document: plugin_cuts(plugin, document, config)
    split = make_split(config, tokenizer)
    return lambda document: [(*span, None) for span in split(document.text)]


def _pieces(document: Document, config: Chunking, cutter: Cutter) -> Iterator[Piece]:
    before = (-1, -1)
    for start, end, own_title in cutter(document):
        if not (0 <= start < end <= len(document.text) and before < (start, end)):
            raise StageError(
                f"cutting the document {document.doc_id!r} gave {start}–{end} after "
                f"{before[0]}–{before[1]}: not a span that follows, in {len(document.text)} "
                "characters; this is a fault of ours, please report it with the document"
            )
        before = (start, end)
        text = document.text[start:end]
        if not text.isspace():
            title = (own_title or document.title) if config.with_title else None
            yield start, end, text, title


def _read_tokenizer(path: Path | None) -> Tokenizer | None:
    if path is None:
        return None
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises Exception itself
        raise InputError(f"this is not a tokenizer: {error}", path=path) from None
