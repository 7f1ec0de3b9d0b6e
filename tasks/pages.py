"""Text of a PDF, read by a child process: a hostile file can end it, fill it or hang it, not us."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from schemas.counting import counted
from schemas.errors import InputError
from tasks import pages_child

TIME_LIMIT = 60
"""Seconds for one file."""

MEMORY_LIMIT = 1 << 30
"""Bytes of address space for one file."""

CHARACTER_LIMIT = 20_000_000
"""Characters of text in one file: a small file can unpack to anything."""

PAGE_SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class Pages:
    """Text of a document with pages."""

    text: str
    starts: tuple[
        int, ...
    ]  # characters: where each page begins; an empty page where the one before ends
    title: str | None


def require_pdf_reader(path: Path) -> None:
    """Refuse a PDF when the extra that reads it is not installed.

    Raises:
        InputError: says how to install it.
    """
    if importlib.util.find_spec("pypdfium2") is None:
        raise InputError(
            'PDF files need the extra "pdf": pip install -e ".[pdf]"; or leave them out with a '
            'glob such as path = "folder/**/*.md"',
            path=path,
        )


def read_pages(content: bytes, *, path: Path, time_limit: float = TIME_LIMIT) -> Pages:
    """Read the text of every page of a PDF.

    Args:
        content: the file's bytes.
        path: for messages.
        time_limit: seconds.

    Raises:
        InputError: encrypted, damaged or without text; or the reader crashed or met a limit.
    """
    require_pdf_reader(path)
    limits = [MEMORY_LIMIT, int(time_limit) + 1, CHARACTER_LIMIT]
    try:
        child = subprocess.run(  # noqa: S603  our own script, no shell, nothing of the file's
            [sys.executable, "-I", pages_child.__file__, *map(str, limits)],
            input=content,
            capture_output=True,
            timeout=time_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"reading this PDF took over {time_limit:g} s", path=path) from None
    try:
        answer = json.loads(child.stdout)
    except ValueError:
        raise InputError(
            f"the PDF reader broke down ({_cause(child)}): the file is damaged, or takes more than "
            f"the {MEMORY_LIMIT >> 20} MiB of memory that one PDF may",
            path=path,
        ) from None
    if "fault" in answer:
        raise InputError(answer["fault"], path=path)
    return _joined([page.strip() for page in answer["pages"]], answer["title"], path)


def _joined(pages: list[str], title: str | None, path: Path) -> Pages:
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    for page in pages:
        if page and parts:
            parts.append(PAGE_SEPARATOR)
            length += len(PAGE_SEPARATOR)
        starts.append(length)
        if page:
            parts.append(page)
            length += len(page)
    if not parts:
        raise InputError(
            f"no text was found on its {counted(len(pages), 'page')}: it may be scanned; give it a "
            "text layer (OCR) first",
            path=path,
        )
    return Pages("".join(parts), tuple(starts), title)


def _cause(child: subprocess.CompletedProcess[bytes]) -> str:
    if child.returncode < 0:
        return f"signal {-child.returncode}"
    lines = child.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {child.returncode}"
