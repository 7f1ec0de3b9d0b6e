from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.errors import InputError
from schemas.experiment import Corpus
from schemas.records import Document
from tasks import file_digests
from tasks.loading import (
    load_corpus,
    survey_corpus,
)

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def load(path: Path, format: str | None = None) -> list[Document]:
    return list(
        load_corpus(survey_corpus(Corpus.model_validate({"path": str(path), "format": format})))
    )


def refused(path: Path, format: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load(path, format)
    return str(caught.value)


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def ids(path: Path) -> list[str]:
    return [document.doc_id for document in load(path)]


def test_a_files_id_is_its_posix_path_below_the_folder_in_bytewise_order(
    write: Write, tmp_path: Path
) -> None:
    for name in ("c/b.txt", "c/B.md", "c.txt", "a/z/é.txt", "c/日.TXT", "Z.htm", "c/a.markdown"):
        write(name, "<p>text of it</p>")
    # bytewise: "Z" < "a" < "c.txt" < "c/", upper before lower case, é (c3) before 日 (e6)
    assert ids(tmp_path) == [
        "Z.htm",
        "a/z/é.txt",
        "c.txt",
        "c/B.md",
        "c/a.markdown",
        "c/b.txt",
        "c/日.TXT",
    ]


def test_hidden_files_other_kinds_and_what_is_no_file_are_left_out_and_counted(
    write: Write, tmp_path: Path
) -> None:
    for name in ("a.txt", "b.docx", ".hidden.txt", ".git/x.txt", "README"):
        write(name, "x")
    os.mkfifo(tmp_path / "pipe.txt")
    source = survey_corpus(Corpus(path=str(tmp_path)))
    assert [file.relative_name for file in source.files] == ["a.txt"]
    assert source.left_out == (".git", ".hidden.txt", "README", "b.docx", "pipe.txt")


def test_links_to_files_are_followed_and_links_to_folders_cannot_run_in_circles(
    write: Write, tmp_path: Path
) -> None:
    target = write("elsewhere/real.txt", "x")
    (tmp_path / "corpus/deep").mkdir(parents=True)
    (tmp_path / "corpus/link.txt").symlink_to(target)
    (tmp_path / "corpus/deep/up").symlink_to(tmp_path / "corpus")
    source = survey_corpus(Corpus(path=str(tmp_path / "corpus")))
    assert [file.relative_name for file in source.files] == ["link.txt"]
    assert source.left_out == ("deep/up",)


def test_a_broken_link_is_refused_by_name(write: Write, tmp_path: Path) -> None:
    write("a.txt", "x")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    assert "gone.txt: this is not a file that can be read" in refused(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("docs/*.md", ["a.md", "b.md"]),
        ("docs/**/*.md", ["a.md", "b.md", "x/c.md", "x/y/d.md"]),
        ("docs/**", ["a.md", "a.txt", "b.md", "x/c.md", "x/y/d.md"]),
        ("docs/x/**/*.md", ["c.md", "y/d.md"]),
        ("docs/?.md", ["a.md", "b.md"]),
        ("docs/[!a].md", ["b.md"]),
        ("*/x/*.md", ["docs/x/c.md"]),
        ("docs/**/y/*", ["x/y/d.md"]),
    ],
)
def test_a_globs_ids_are_relative_to_its_longest_folder_without_a_wildcard(
    write: Write, tmp_path: Path, pattern: str, expected: list[str]
) -> None:
    for name in ("a.md", "b.md", "a.txt", "x/c.md", "x/y/d.md", ".h.md"):
        write(f"docs/{name}", name)
    assert ids(tmp_path / pattern) == expected


def test_a_folder_whose_name_looks_like_a_glob_is_a_folder(write: Write, tmp_path: Path) -> None:
    write("[old] *docs/a.txt", "x")
    assert ids(tmp_path / "[old] *docs") == ["a.txt"]


def test_a_glob_does_not_enter_folders_that_it_does_not_name(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("docs/a.md", "x")
    write("docs/private/b.md", "x")
    entered = []
    scan = os.scandir
    monkeypatch.setattr(
        os, "scandir", lambda place: entered.append(Path(place).name) or scan(place)
    )
    assert ids(tmp_path / "docs/*.md") == ["a.md"]
    assert entered == ["docs"]


def test_one_file_is_a_corpus_of_one_document(write: Write) -> None:
    assert load(write("docs/only.txt", "x")) == [Document("only.txt", "x")]


def test_text_is_kept_character_for_character(write: Write, tmp_path: Path) -> None:
    text = "a\r\nb\rc\n\ne\u0301 \ufb01 \x0c\u2028\x00 👩\u200d👧\n\n"
    write("a.txt", b"\xef\xbb\xbf" + text.encode())
    write("b.md", "\ufeff# T\r\n" + text)
    first, second = load(tmp_path)
    assert first == Document("a.txt", text)
    assert second == Document("b.md", "# T\r\n" + text, "T")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n# First *one* #\n\n# Second\n", "First *one*"),
        ("## Only a second level\n", None),
        ("```sh\n# a comment\n```\n# Real\n", "Real"),
        ("~~~\n# a\n```\n# b\n~~~\n# Real\n", "Real"),
        ("---\ntitle: 'From: the front'\ndate: 1\n---\n# Heading\n", "From: the front"),
        ("---\r\nlayout: x\r\n---\r\n# Heading\r\n", "Heading"),
        ("---\ntitle:\n---\n# Heading\n", "Heading"),
        ("#hashtag\n#\n# ##\n# C#\n", "C#"),
        ("# #1 of them ##  \r\n", "#1 of them"),
        ("no title", None),
    ],
)
def test_the_title_of_markdown_is_the_front_matters_or_the_first_heading(
    write: Write, text: str, title: str | None
) -> None:
    assert load(write("a.md", text)) == [Document("a.md", text, title)]


PARAGRAPH = " ".join(["A paragraph with enough words to be the main text of a page."] * 5)
HTML = f"""<!DOCTYPE html><html><head><meta charset="latin-1"><title> The
 page </title><style>p {{}}</style></head><body><nav><a href="/">Home</a></nav>
<main><h1>Été 你好</h1><p>{PARAGRAPH}</p>
<script>alert(1)</script><ul><li>first</li><li>second</li></ul></main></body></html>"""


def test_html_gives_its_main_text_and_title_whatever_charset_it_claims(write: Write) -> None:
    (document,) = load(write("page.html", HTML))
    assert document.title == "The page"
    assert document.text == f"Été 你好\n{PARAGRAPH}\n- first\n- second"


@pytest.mark.parametrize(
    ("html", "text", "title"),
    [
        (
            '<?xml version="1.0" encoding="latin-1"?><html><body><p>é 你</p></body></html>',
            "é 你",
            None,
        ),
        ("<p>a&#11;b\x0cc&#1;</p><!-- \x0b -->\x0c<?x \x0b?>", "a b c", None),
        ("words without a tag", "words without a tag", None),
        ("<h1>Name</h1><p>short</p>", "Name\nshort", "Name"),
    ],
)
def test_html_that_is_no_page_still_gives_its_text(
    write: Write, html: str, text: str, title: str | None
) -> None:
    assert load(write("a.html", html)) == [Document("a.html", text, title)]


@pytest.mark.parametrize("html", ["<script>x()</script>", "<!-- nothing -->", "<div>" * 9_000])
def test_html_without_text_is_refused(write: Write, html: str) -> None:
    assert refused(write("a.html", html)).endswith("a.html: no text was found in this HTML")


def test_html_is_read_the_same_whatever_was_read_before(write: Write, tmp_path: Path) -> None:
    for name in "abcdef":
        write(f"{name}.html", HTML)
    assert len({document.text for document in load(tmp_path)}) == 1


def test_a_digest_covers_names_bytes_and_format_and_never_the_place(
    write: Write, tmp_path: Path
) -> None:
    def digest(path: str) -> str:
        return survey_corpus(Corpus(path=str(tmp_path / path))).digest

    write("one/a.txt", "x")
    write("two/a.txt", "x")
    write("renamed/b.txt", "x")
    write("edited/a.txt", "y")
    assert digest("one") == digest("two") == digest("one/*.txt")
    assert len({digest("one"), digest("renamed"), digest("edited")}) == 3
    rows = lines({"doc_id": "a", "text": "x"})
    write("a.jsonl", rows)
    write("b.jsonl", rows)
    assert digest("a.jsonl") == digest("b.jsonl")  # the name of a single file says nothing
    as_jsonl = survey_corpus(Corpus(path=str(tmp_path / "a.jsonl"), format="jsonl"))
    as_beir = survey_corpus(Corpus(path=str(tmp_path / "one"), format="folder"))
    assert as_jsonl.digest == digest("a.jsonl") != as_beir.digest


@pytest.mark.parametrize("is_known", [False, True])
def test_a_file_that_changes_while_it_is_read_is_refused(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    if is_known:  # long settled, so its lines are not hashed again
        clock = SimpleNamespace(time_ns=lambda: time.time_ns() + 10**10)
        monkeypatch.setattr(file_digests, "time", clock)
    content = lines({"doc_id": "a", "text": "x"}, {"doc_id": "b", "text": "y" * 200_000})
    path = write("c.jsonl", content)
    source = survey_corpus(Corpus(path=str(path)))
    assert (file_digests.known_sha256(path.stat()) is not None) == is_known
    documents = load_corpus(source)
    next(documents)
    path.write_text(content.replace("y", "z"))
    with pytest.raises(InputError, match="was changed while this run was reading it"):
        list(documents)


@pytest.mark.parametrize("name", ["corpus/a.txt", "c.jsonl", "c.csv"])
def test_a_file_that_changed_after_it_was_hashed_is_refused(
    write: Write, tmp_path: Path, name: str
) -> None:
    path = write(name, '{"doc_id": "a", "text": "x"}\n')
    config = Corpus(path=str(tmp_path / name.split("/")[0]))
    source = survey_corpus(config)
    path.write_text('{"doc_id": "a", "text": "y"}\n')
    with pytest.raises(InputError, match="was changed while this run was reading it"):
        list(load_corpus(source))
