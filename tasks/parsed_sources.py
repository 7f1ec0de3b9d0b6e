"""Python sources as their syntax trees have them: what they import, and a digest without layout.

Parsing all of ``tasks`` takes a tenth of what a run costs that has nothing to compute, so the
results are kept beside Python's own compiled files, by the digest of each source. They are written
and dropped as freely as those: what cannot be read is parsed again, what cannot be written is not
kept.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

FORM = 1
"""Raise it when ``parse_source`` gives something else for the same source."""

MOST_KEPT = 2_000
Parsed = tuple[list[str], str]  # modules of tasks that are imported, sha256 of the stripped tree


@dataclass(slots=True)
class ParsedSources:
    """What is known of sources by their sha256, from a file and from this process.

    Args:
        path: a JSON file; other processes may replace it.
    """

    path: Path
    known: dict[str, Parsed] | None = None
    new: dict[str, Parsed] = field(default_factory=dict)
    # Python 3.11 counts the depth of all its syntax trees in one place: two threads that parse at
    # once end with "AST constructor recursion depth mismatch".
    lock: threading.RLock = field(default_factory=threading.RLock)

    def of(self, source: str) -> Parsed:
        """What a source imports, and its digest."""
        key = hashlib.sha256(source.encode()).hexdigest()
        with self.lock:
            if self.known is None:
                self.known = self._read()
            if key not in self.known:
                self.known[key] = self.new[key] = parse_source(source)
            return self.known[key]

    def keep(self) -> None:
        """Write what is new, where compiled files are written too."""
        with self.lock:
            if not self.new or sys.dont_write_bytecode:
                return
            kept = self._read() | self.new
            if len(kept) > MOST_KEPT:
                kept = dict(self.new)
            self.new.clear()
            aside = self.path.with_suffix(f".{os.getpid()}.tmp")
            with suppress(OSError):
                try:
                    self.path.parent.mkdir(exist_ok=True)
                    aside.write_text(json.dumps(kept), encoding="ascii")
                    aside.replace(self.path)
                finally:
                    aside.unlink(missing_ok=True)

    def _read(self) -> dict[str, Parsed]:
        with suppress(OSError, ValidationError):
            return _KEPT.validate_json(self.path.read_bytes())
        return {}


def parse_source(source: str) -> Parsed:
    """Modules of ``tasks`` that a source imports, inside functions too; sha256 of what it says.

    Comments, docstrings and layout do not count.

    Raises:
        SyntaxError: it is no Python.
    """
    names: set[str] = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name.startswith("tasks."))
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            if node.module == "tasks":
                names.update(f"tasks.{alias.name}" for alias in node.names)
            elif node.module.startswith("tasks."):
                names.add(node.module)
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return sorted(names), hashlib.sha256(ast.dump(tree).encode()).hexdigest()


_KEPT = TypeAdapter(dict[str, Parsed])

SOURCES = ParsedSources(
    Path(__file__).parent / "__pycache__" / f"sources-{FORM}.{sys.implementation.cache_tag}.json"
)
