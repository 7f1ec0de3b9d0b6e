"""Fingerprints of a stage's code and libraries: what, besides its inputs, decides its output."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PARSING = threading.Lock()
"""Python 3.11 counts the depth of all its syntax trees in one place: two threads that parse at once
end with "AST constructor recursion depth mismatch"."""


@functools.cache
def fingerprint_code(module: str) -> str:
    """Sha256 over a module of ``tasks`` and the modules of ``tasks`` that it imports, at any depth.

    Comments, docstrings and layout do not count.
    """
    digest = hashlib.sha256()
    with _PARSING:
        for name in sorted(_closure(module)):
            digest.update(f"{name}\n".encode())
            digest.update(_parsed(_source(name))[1].encode())
    return digest.hexdigest()


@functools.cache
def library_versions(libraries: tuple[str, ...]) -> dict[str, str]:
    """The installed version of each distribution; ``absent`` where it is not installed."""
    return {name: _version(name) for name in libraries}


def fingerprint_source(source: str) -> str:
    """Sha256 of one module's source, comments, docstrings and layout stripped."""
    return hashlib.sha256(_parsed(source)[1].encode()).hexdigest()


def fingerprint_plugin(module: str) -> str | None:
    """Sha256 over a plug-in's module and what it imports from its own folder or package.

    Returns:
        None when there is no such module, or it has no source.

    Raises:
        ImportError: a package above the module does not import.
    """
    origin = _origin(module)
    if origin is None:
        return None
    top = _origin(module.partition(".")[0])
    root = (top or origin).parent
    digest, waiting, found = hashlib.sha256(), [module], {module: origin}
    while waiting:
        for name in sorted(_imported(found[waiting.pop()].read_text(encoding="utf-8"))):
            path = _origin(name) if name not in found else None
            if path is not None and path.is_relative_to(root):
                found[name] = path
                waiting.append(name)
    for name, path in sorted(found.items()):
        digest.update(f"{name}\n{_parsed(path.read_text(encoding='utf-8'))[1]}".encode())
    return digest.hexdigest()


def _imported(source: str) -> set[str]:
    """Absolute names that a source imports; ``from a import b`` may mean a module ``a.b``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def _origin(module: str) -> Path | None:
    """The source file of a module; None when it has none."""
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None
    path = Path(spec.origin) if spec is not None and spec.origin else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _closure(module: str) -> set[str]:
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting.extend(_parsed(_source(name))[0])
    return found


@functools.cache
def _parsed(source: str) -> tuple[frozenset[str], str]:
    """The modules of ``tasks`` that a source imports, inside functions too; and it, stripped."""
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
    return frozenset(names), ast.dump(tree)


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no source of {module} was found", name=module)
    return Path(spec.origin).read_text(encoding="utf-8")
