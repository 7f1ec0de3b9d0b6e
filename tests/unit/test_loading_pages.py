from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import InputError
from schemas.experiment import Corpus
from schemas.records import Document
from tasks import pages
from tasks.loading import load_corpus, survey_corpus
from tasks.pages import Pages, read_pages

PATH = Path("some.pdf")


def page_of(text: str) -> bytes:
    """A page's content: a line of text each."""
    shown = " ".join(f"({line}) Tj T*" for line in text.split("\n"))
    return f"BT /F1 12 Tf 72 720 Td 14 TL {shown} ET".encode("latin-1")


def pdf_of(*contents: bytes, title: str = "", trailer: str = "") -> bytes:
    """A PDF by hand: ISO 32000-1, 7.5, with compressed pages in Helvetica."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources "
            b"<< /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (5 + 2 * number)
        )
        body = zlib.compress(content, 9)
        objects.append(
            b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(body), body)
        )
    objects.append(f"<< /Title ({title}) >>".encode("latin-1"))
    file, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return file + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R /Info %d 0 R %s >>\n"
        b"startxref\n%d\n%%%%EOF\n"
        % (len(objects) + 1, table, len(objects) + 1, len(objects), trailer.encode(), len(file))
    )


def refused(content: bytes, **limits: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_pages(content, path=PATH, **limits)
    return str(caught.value)


def test_a_pdfs_pages_are_joined_by_a_blank_line_and_their_starts_kept() -> None:
    content = pdf_of(page_of("First page\nline two"), b"", page_of("Third"), title=" The  title ")
    read = read_pages(content, path=PATH)
    # "First page\nline two" is 19 characters; the empty page starts where the first one ends
    assert read == Pages("First page\nline two\n\nThird", (0, 19, 21), "The title")
    assert read.text[21:] == "Third"


def test_a_pdf_in_a_folder_is_a_document_with_its_page_starts(tmp_path: Path) -> None:
    (tmp_path / "Two.PDF").write_bytes(pdf_of(page_of("One"), page_of("Two")))
    (tmp_path / "note.txt").write_text("x")
    assert list(load_corpus(survey_corpus(Corpus(path=str(tmp_path))))) == [
        Document("Two.PDF", "One\n\nTwo", None, {"pages": [0, 5]}),
        Document("note.txt", "x"),
    ]


def test_a_pdf_without_text_is_refused() -> None:
    assert "some.pdf: no text was found on its 2 pages: it may be scanned" in refused(
        pdf_of(b"", page_of(" "))
    )


@pytest.mark.parametrize("content", [b"no pdf", b"%PDF-1.4\n" + b"\x00" * 999, pdf_of(b"")[:300]])
def test_a_damaged_pdf_is_refused(content: bytes) -> None:
    assert refused(content).startswith("some.pdf: this PDF cannot be read: ")


def test_an_encrypted_pdf_is_refused_as_such() -> None:
    key = "<" + "5a" * 32 + ">"
    trailer = f"/Encrypt << /Filter /Standard /V 1 /R 2 /O {key} /U {key} /P -4 >> /ID [<00><00>]"
    assert refused(pdf_of(page_of("x"), trailer=trailer)) == (
        "some.pdf: this PDF is encrypted; save it without a password"
    )


def test_a_pdf_that_fills_memory_ends_only_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    # A small file that unpacks to 136 MB of drawing operations, for a reader that may take 160 MiB
    monkeypatch.setattr(pages, "MEMORY_LIMIT", 160 << 20)
    message = refused(pdf_of(b"q 1 0 0 1 0 0 cm\n" * 8_000_000))
    assert "takes more than the 160 MiB of memory that one PDF may" in message
    assert read_pages(pdf_of(page_of("still here")), path=PATH).text == "still here"


def test_a_pdf_that_takes_forever_is_stopped() -> None:
    slow = pdf_of(page_of("x\n" * 300_000))
    assert refused(slow, time_limit=0.05) == "some.pdf: reading this PDF took over 0.05 s"


def test_a_pdf_with_too_much_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CHARACTER_LIMIT", 8)
    assert read_pages(pdf_of(page_of("12345678")), path=PATH).text == "12345678"
    assert refused(pdf_of(page_of("12345678"), page_of("9"))) == (
        "some.pdf: this PDF holds more than 8 characters"
    )


def test_without_the_extra_a_pdf_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    (tmp_path / "b.txt").write_text("x")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pypdfium2" else find(name)
    )
    with pytest.raises(InputError, match=r'a\.pdf: .* pip install -e "\.\[pdf\]"'):
        survey_corpus(Corpus(path=str(tmp_path)))
    assert len(survey_corpus(Corpus(path=str(tmp_path / "*.txt"))).files) == 1
