"""The child process that reads one PDF: its bytes on stdin, one JSON object on stdout.

Run as a script by ``tasks.pages``, with ``python -I``: it may import the standard library and
pypdfium2 only. Arguments: bytes of memory, seconds of CPU, characters of text.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def limit_resources(memory: int, seconds: int) -> None:
    """Cap this process; where the system has no such limits (Windows), the parent's clock holds."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read(content: bytes, *, max_characters: int) -> dict[str, Any]:
    """Text of every page and the title, or ``fault``: a sentence for people."""
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(content)
        pages: list[str] = []
        n_characters = 0
        for number in range(len(pdf)):
            page = pdf[number]
            text = _plain(page.get_textpage().get_text_bounded())
            page.close()
            pages.append(text)
            n_characters += len(text)
            if n_characters > max_characters:
                return {"fault": f"this PDF holds more than {max_characters:,} characters"}
        return {"pages": pages, "title": _title(pdf)}
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            return {"fault": "this PDF is encrypted; save it without a password"}
        return {"fault": f"this PDF cannot be read: {error}"}
    except MemoryError:
        return {"fault": "reading this PDF took more memory than it may"}


def _plain(text: str) -> str:
    """PDFium's text without its NULs and its mark for a word that was parted at a line's end."""
    text = text.replace("\r\n", "\n").replace("\x00", "")
    return text.replace("\ufffe\n", "").replace("\ufffe", "")


def _title(pdf: Any) -> str | None:
    return " ".join(pdf.get_metadata_dict().get("Title", "").split()) or None


def main() -> None:
    """Read stdin, write the answer."""
    memory, seconds, characters = map(int, sys.argv[1:])
    limit_resources(memory, seconds)
    answer = read(sys.stdin.buffer.read(), max_characters=characters)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
