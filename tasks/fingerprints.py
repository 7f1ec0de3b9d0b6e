"""Fingerprints of a stage's code and libraries: what, besides its inputs, decides its output."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tasks.parsed_sources import SOURCES


@functools.cache
def fingerprint_code(module: str) -> str:
    """Sha256 over a module of ``tasks`` and the modules of ``tasks`` that it imports, at any depth.

    Comments, docstrings and layout do not count.
    """
    digest = hashlib.sha256()
    for name in sorted(_closure(module)):
        digest.update(f"{name}\n{SOURCES.of(_source(name))[1]}\n".encode())
    SOURCES.keep()
    return digest.hexdigest()


@functools.cache
def library_versions(libraries: tuple[str, ...]) -> dict[str, str]:
    """The installed version of each distribution; ``absent`` where it is not installed."""
    return {name: _version(name) for name in libraries}


def fingerprint_source(source: str) -> str:
    """Sha256 of one module's source, comments, docstrings and layout stripped."""
    return SOURCES.of(source)[1]


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
        digest.update(f"{name}\n{SOURCES.of(path.read_text(encoding='utf-8'))[1]}".encode())
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
        waiting.extend(SOURCES.of(_source(name))[0])
    return found


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no source of {module} was found", name=module)
    return Path(spec.origin).read_text(encoding="utf-8")
