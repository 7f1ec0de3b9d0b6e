"""Chunking by somebody's own function, named ``package.module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from operator import index
from typing import Any

from schemas.errors import ConfigurationError, StageError
from schemas.experiment import Chunking
from schemas.records import Chunk, Document

Plugin = Callable[[Document, Chunking], Iterable[Any]]
Cut = tuple[int, int, str | None]  # start, end, a title of the chunk's own


def load_plugin(name: str) -> Plugin:
    """Import the function that chunks.

    Raises:
        ConfigurationError: see ``import_function``.
    """
    found: Plugin = import_function(name, "chunking.plugin")
    return found


def import_function(name: str, setting: str) -> Callable[..., Any]:
    """Import ``package.module:function``, which ``setting`` names.

    Raises:
        ConfigurationError: the module does not import, or has no such function.
    """
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigurationError(
            f"{setting} = {name!r}: importing {module_name!r} failed with "
            f"{type(error).__name__}: {error}. Install it into this environment, or set "
            "PYTHONPATH to its folder."
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        there = "is not a function" if hasattr(module, function_name) else "does not exist"
        raise ConfigurationError(
            f"{setting} = {name!r}: {function_name!r} {there} in "
            f"{getattr(module, '__file__', module_name)}"
        )
    found: Callable[..., Any] = function
    return found


def plugin_cuts(plugin: Plugin, document: Document, config: Chunking) -> list[Cut]:
    """What the function gives for one document: pairs ``(start, end)``, or chunks.

    Raises:
        StageError: it raised, or gave what is no such span of the document; names the document.
    """
    where = f"chunking.plugin = {config.plugin!r} on the document {document.doc_id!r}"
    try:
        given = list(plugin(document, config))
    except Exception as error:
        raise StageError(f"{where}: {type(error).__name__}: {error}") from error
    cuts = [_cut(item, document, f"{where}: item {number}") for number, item in enumerate(given)]
    seen: set[tuple[int, int]] = set()
    for start, end, _ in cuts:
        if (start, end) in seen:
            raise StageError(f"{where}: the span {start}–{end} was given twice")
        seen.add((start, end))
    return sorted(cuts, key=lambda cut: cut[:2])


def _cut(item: Any, document: Document, where: str) -> Cut:
    if isinstance(item, Chunk):
        if item.doc_id != document.doc_id:
            raise StageError(f"{where} is a chunk of the document {item.doc_id!r}")
        start, end, title = item.start, item.end, item.title
    else:
        try:
            start, end = map(index, item)
        except (TypeError, ValueError):
            raise StageError(
                f"{where} is {item!r:.80}; expected (start, end) in characters, or a Chunk"
            ) from None
        title = None
    length = len(document.text)
    if not 0 <= start < end <= length:
        raise StageError(
            f"{where} is {start}–{end}; expected 0 ≤ start < end ≤ {length}, the document's length"
        )
    if isinstance(item, Chunk) and item.text != document.text[start:end]:
        raise StageError(
            f"{where}: the chunk's text {item.text!r:.60} is not the document's text at "
            f"{start}–{end}, which is {document.text[start:end]!r:.60}"
        )
    return start, end, title
