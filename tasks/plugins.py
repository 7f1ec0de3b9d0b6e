"""Somebody's own function, named ``package.module:function``: importing it, chunking by it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import index
from threading import Lock
from typing import Any, TextIO

from schemas.errors import ConfigurationError, StageError
from schemas.experiment import Chunking
from schemas.records import Chunk, Document

Plugin = Callable[[Document, Chunking], Iterable[Any]]
Cut = tuple[int, int, str | None]  # start, end, a title of the chunk's own
RAISED = (Exception, SystemExit)  # a plug-in that exits must not end the command, least of all as 0


class _Diversion:
    """Standard output as it was, while plug-ins of any number of threads print elsewhere."""

    def __init__(self) -> None:
        self._lock, self._n_inside = Lock(), 0
        self._stdout: TextIO = sys.stdout

    def begin(self) -> None:
        """The first one in diverts; thus threads that leave in another order restore it too."""
        with self._lock:
            if self._n_inside == 0:
                self._stdout, sys.stdout = sys.stdout, sys.stderr
            self._n_inside += 1

    def end(self) -> None:
        """The last one out restores."""
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                sys.stdout = self._stdout


_diversion = _Diversion()


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """What somebody's code prints goes to standard error: standard output is for results."""
    _diversion.begin()
    try:
        yield
    finally:
        _diversion.end()


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
        with prints_to_stderr():
            module = importlib.import_module(module_name)
    except RAISED as error:
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
        with prints_to_stderr():
            given = list(plugin(document, config))
    except RAISED as error:
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
