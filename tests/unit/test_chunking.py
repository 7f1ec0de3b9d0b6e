from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantic_text_splitter import MarkdownSplitter, TextSplitter
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from schemas.errors import ConfigurationError, InputError, StageError
from schemas.experiment import Chunking
from schemas.frames import CHUNKS
from schemas.records import Chunk, Document
from tasks.chunking import chunk_document, chunk_documents, columns_of_documents
from tasks.record_frames import documents_frame
from tasks.sentences import pack

PARTS = [
    "word", "supercalifragilistic", "A sentence. ", "Mr. Smith said: \u201cGo!\u201d ", "x", "3.14",
    "你好世界", "这是第二句。", "真的吗？", "M. Dupont est là. ", "สวัสดี", "日本語", " ", "  ", "\n",
    "\n\n", "\r\n", "\r\n\r\n", "\r", "\t", "👩\u200d👩\u200d👧", "🇫🇷", "👍🏽", "e\u0301",
    "a\u0308\u0323", "\u200b", "\u2028", "\x85", "\xa0", "\x1c", "\x00", "\ufeff", "𝔘𝔫𝔦",
    "# Heading\n", "## Two\n\n", "- item\n", "```\n", "~~~\n", "> quote\n", "[a](b)", "**", "---\n",
    "| a | b |\n|---|---|\n", '"', "«", "(", "...", "e.g. ", "http://a.b/c?d=e ",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=60).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200
)
SIZES = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))
METHODS = ["none", "fixed", "recursive", "sentences", "markdown"]


def tokenizer() -> Tokenizer:
    """A WordPiece tokenizer as BERT's, over letters: every word is a token a letter or unknown."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,:!?()#*-"
    words = ["[UNK]", *letters, *(f"##{letter}" for letter in letters), "word", "sentence", "the"]
    made = Tokenizer(WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106
    made.normalizer = BertNormalizer()
    made.pre_tokenizer = BertPreTokenizer()
    made.enable_truncation(8)  # as all-MiniLM-L6-v2's file has it, at 128
    made.enable_padding(length=8)
    return made


def count_tokens(text: str) -> int:
    counter = tokenizer()
    counter.no_truncation()
    counter.no_padding()
    return len(counter.encode(text, add_special_tokens=False).ids)


def cut(text: str, **settings: object) -> list[tuple[int, int]]:
    document = Document("d", text)
    config = Chunking.model_validate(settings)
    chunks = chunk_document(document, config, tokenizer=tokenizer())
    for chunk in chunks:
        assert text[chunk.start : chunk.end] == chunk.text
    return [(chunk.start, chunk.end) for chunk in chunks]


def assert_sound(text: str, spans: list[tuple[int, int]]) -> None:
    """In order, none twice, none inside the one before, all but white space covered."""
    assert spans == sorted(set(spans))
    for before, after in pairwise(spans):
        assert before[1] < after[1]
    covered = {place for start, end in spans for place in range(start, end)}
    left = [place for place, character in enumerate(text) if not character.isspace()]
    assert [place for place in left if place not in covered] == []
    assert all(text[start:end].strip() for start, end in spans)


@pytest.mark.parametrize("method", METHODS)
@given(text=TEXTS, size_overlap=SIZES)
@settings(deadline=None, max_examples=150)
def test_chunks_are_slices_in_order_that_cover_the_document(
    method: str, text: str, size_overlap: tuple[int, int]
) -> None:
    size, overlap = size_overlap
    spans = cut(text, method=method, size=size, overlap=overlap)
    assert_sound(text, spans)
    if method == "none":
        assert len(spans) <= 1
    else:
        assert all(end - start <= size for start, end in spans)
        assert all(before[1] - after[0] <= overlap for before, after in pairwise(spans))


def test_white_space_that_the_library_leaves_out_of_an_overlap_counts() -> None:
    text = "A sentence. \r\u200b> quote\nword"  # it would begin the second at 11
    assert cut(text, method="markdown", size=21, overlap=8) == [(0, 21), (13, 26)]


@pytest.mark.parametrize("method", METHODS[1:])
@given(text=TEXTS, size_overlap=SIZES)
@settings(deadline=None, max_examples=60)
def test_chunks_of_tokens_are_slices_in_order_that_cover_the_document(
    method: str, text: str, size_overlap: tuple[int, int]
) -> None:
    size, overlap = size_overlap
    assert_sound(text, cut(text, method=method, unit="tokens", size=size, overlap=overlap))


@pytest.mark.parametrize("method", ["recursive", "sentences", "markdown"])
@given(
    text=st.lists(st.sampled_from(["the word. ", "zebra ", "你好。", "\n\n", "# word\n"])).map(
        "".join
    ),
    size_overlap=SIZES,
)
@settings(deadline=None, max_examples=60)
def test_a_chunk_holds_no_more_tokens_than_its_size(
    method: str, text: str, size_overlap: tuple[int, int]
) -> None:
    size, overlap = size_overlap
    spans = cut(text, method=method, unit="tokens", size=size, overlap=overlap)
    assert all(count_tokens(text[start:end]) <= size for start, end in spans)


def test_fixed_windows_begin_every_size_less_overlap_and_the_last_ends_with_the_document() -> None:
    # 10 characters, size 4, overlap 1: 0, 3, 6; the window at 6 ends at 10, so none begins at 9
    assert cut("abcdefghij", method="fixed", size=4, overlap=1) == [(0, 4), (3, 7), (6, 10)]
    assert cut("abcdefghijk", method="fixed", size=4, overlap=1) == [
        (0, 4),
        (3, 7),
        (6, 10),
        (9, 11),
    ]
    assert cut("abcd", method="fixed", size=4, overlap=3) == [(0, 4)]
    assert cut("abcde", method="fixed", size=4, overlap=3) == [(0, 4), (1, 5)]
    assert cut("ab", method="fixed", size=4) == [(0, 2)]


def test_fixed_windows_of_white_space_alone_are_dropped() -> None:
    assert cut("ab" + " " * 6 + "cd", method="fixed", size=2) == [(0, 2), (8, 10)]


def test_fixed_windows_of_tokens_hold_so_many_tokens() -> None:
    # tokens: the | word | a | . | the; each window ends where the next token begins
    text = "the word a. the"
    assert cut(text, method="fixed", unit="tokens", size=2) == [(0, 9), (9, 12), (12, 15)]
    assert cut(text, method="fixed", unit="tokens", size=3, overlap=1) == [(0, 10), (9, 15)]


def test_a_word_that_the_tokenizer_does_not_read_does_not_make_one_endless_chunk() -> None:
    # 1,000 letters are one unknown token to WordPiece; they count as a token for each 100
    text = "é" * 1_000
    assert count_tokens(text) == 1
    for method in ("fixed", "recursive", "sentences", "markdown"):
        spans = cut(text, method=method, unit="tokens", size=4)
        assert spans == [(0, 400), (400, 800), (800, 1_000)]


def test_offsets_count_code_points() -> None:
    text = "👩\u200d👩\u200d👧 e\u0301cole. 你好。"
    spans = cut(text, method="sentences", size=15)
    # the family is 5 code points, "école." 7 with its combining accent
    assert spans == [(0, 13), (14, 17)]
    assert text[14:17] == "你好。"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Mr. Smith paid $3.50. Dr. Who? Yes!",
            ["Mr. Smith paid $3.50.", "Dr.", "Who?", "Yes!"],
        ),
        (
            "M. Dupont est parti. « Vraiment ? » Oui.",
            ["M. Dupont est parti.", "« Vraiment ? »", "Oui."],
        ),
        (
            "你好世界。这是第二句！真的吗？是的。",
            ["你好世界。", "这是第二句！", "真的吗？", "是的。"],
        ),
    ],
)
def test_sentences_end_where_people_end_them(text: str, sentences: list[str]) -> None:
    longest = max(map(len, sentences))
    chunks = [text[start:end] for start, end in cut(text, method="sentences", size=longest)]
    # each sentence of the text stands whole in one chunk, and a chunk ends where a sentence does
    assert all(any(sentence in chunk for chunk in chunks) for sentence in sentences)
    assert all(any(chunk.endswith(sentence) for sentence in sentences) for chunk in chunks)


def test_sentences_are_packed_up_to_the_size_and_shared_whole_up_to_the_overlap() -> None:
    text = "One ran. Two sat. Three hid. Four won."
    # sentences of 8, 8, 10 and 9 characters, a space between: two fit in 20
    assert [text[s:e] for s, e in cut(text, method="sentences", size=20)] == [
        "One ran. Two sat.",
        "Three hid. Four won.",
    ]
    # the second one (8) is shared, the third (10) is longer than the overlap
    assert [text[s:e] for s, e in cut(text, method="sentences", size=20, overlap=9)] == [
        "One ran. Two sat.",
        "Two sat. Three hid.",
        "Four won.",
    ]


def test_a_sentence_longer_than_the_size_is_cut_at_words() -> None:
    text = "Short. A sentence that is too long to fit. End."
    spans = cut(text, method="sentences", size=20)
    assert [text[s:e] for s, e in spans] == [
        "Short.",
        "A sentence that is",
        "too long to fit.",
        "End.",
    ]


@given(
    lengths=st.lists(st.integers(1, 12), max_size=30),
    size_overlap=st.integers(1, 20).flatmap(lambda s: st.tuples(st.just(s), st.integers(0, s - 1))),
)
def test_packed_ranges_are_as_long_as_they_may_be(
    lengths: list[int], size_overlap: tuple[int, int]
) -> None:
    size, overlap = size_overlap

    def measure(first: int, last: int) -> int:
        return sum(lengths[first:last])

    ranges = pack(len(lengths), measure, size, overlap)
    assert {unit for first, last in ranges for unit in range(first, last)} == set(
        range(len(lengths))
    )
    for first, last in ranges:
        assert measure(first, last) <= size or last - first == 1
        assert last == len(lengths) or measure(first, last + 1) > size
    for (_, end), (start, reached) in pairwise(ranges):
        assert start <= end < reached
        assert measure(start, end) <= overlap


def test_markdown_cuts_at_headings_and_recursive_does_not_know_them() -> None:
    text = "# A\n\nOne two three.\nFour.\n## B\nFive six.\nSeven eight nine.\n"
    chunks = [text[s:e] for s, e in cut(text, method="markdown", size=35)]
    assert chunks == ["# A\n\nOne two three.\nFour.", "## B\nFive six.\nSeven eight nine."]
    assert [text[s:e] for s, e in cut(text, method="recursive", size=35)] != chunks


@pytest.mark.parametrize(
    ("method", "library"), [("recursive", TextSplitter), ("markdown", MarkdownSplitter)]
)
@pytest.mark.parametrize("overlap", [0, 15])
def test_a_long_line_is_cut_as_if_it_were_seen_whole(
    method: str, library: type[TextSplitter | MarkdownSplitter], overlap: int
) -> None:
    # 13,000 characters in one line: over ten windows of 1,024
    words = ["lorem", "ipsum", "dolor, sit", "amet.", "Ut", "你好。", "e\u0301tude"]
    text = " ".join(words[i * i % 7] + ("!" if i % 11 == 0 else "") for i in range(2_200))
    whole = library(60, overlap).chunk_indices(text)
    assert cut(text, method=method, size=60, overlap=overlap) == [
        (start, start + len(chunk)) for start, chunk in whole
    ]


def test_fenced_code_longer_than_a_window_does_not_turn_text_into_code() -> None:
    section = (
        "## Heading {}\n\nSome text of the section.\n\n```sh\n# not a heading\necho {}\n```\n\n"
    )
    text = "".join(section.format(i, "x" * 30) for i in range(1_500))
    assert len(text) > 100_000
    whole = MarkdownSplitter(200).chunk_indices(text)
    expected = [(start, start + len(chunk)) for start, chunk in whole]
    assert cut(text, method="markdown", size=200) == expected


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "unit", ["word ", "你好世界", "a", "👩\u200d👩\u200d👧", '"a.', "« a. ", "```\n", " "]
)
def test_half_a_million_characters_without_structure_are_cut(method: str, unit: str) -> None:
    # The splitters alone take the square of such a line: 110 s for 0.8 million Chinese characters
    text = (unit * 500_000)[:500_000]
    spans = cut(text, method=method, size=800, overlap=100)
    assert spans == sorted(set(spans))
    assert bool(spans) == bool(text.strip())
    edges = [(0, 0), *spans, (len(text), len(text))]
    assert all(text[before[1] : after[0]].strip() == "" for before, after in pairwise(edges))
    assert method == "none" or all(end - start <= 800 for start, end in spans)


def test_a_title_stands_before_its_chunks_unless_it_is_not_wanted() -> None:
    document = Document("d", "One. Two.", title="Numbers")
    assert chunk_document(document, Chunking())[0].embedded_text == "Numbers\nOne. Two."
    without = chunk_document(document, Chunking(with_title=False))
    assert [(chunk.title, chunk.text) for chunk in without] == [(None, "One. Two.")]


def test_a_frame_of_documents_becomes_a_frame_of_chunks() -> None:
    documents = documents_frame(
        [Document("007", "abcdef", "T"), Document("a#b", " \n "), Document("NA", "xyz")]
    )
    chunks = chunk_documents([documents], Chunking(method="fixed", size=4, overlap=1))
    assert chunks.schema == CHUNKS
    assert chunks.rows() == [
        ("007#0-4", "007", 0, 4, "abcd", "T"),
        ("007#3-6", "007", 3, 6, "def", "T"),
        ("NA#0-3", "NA", 0, 3, "xyz", None),
    ]


def test_no_documents_make_no_chunks() -> None:
    empty = chunk_documents([documents_frame([])], Chunking())
    assert empty.schema == CHUNKS
    assert empty.height == 0


def test_sizes_in_tokens_are_counted_by_the_tokenizer_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer().save(str(path))
    documents = documents_frame([Document("d", "the word. " * 20)])
    config = Chunking(unit="tokens", size=9)
    chunks = chunk_documents([documents], config, tokenizer_file=path)
    # "the word." is 3 tokens, so a chunk holds three of them; truncation at 8 would hide the rest
    assert chunks["text"].to_list() == ["the word. the word. the word."] * 6 + [
        "the word. the word."
    ]


def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json: this is not a tokenizer"):
        chunk_documents([documents_frame([])], Chunking(unit="tokens"), tokenizer_file=path)


PLUGIN = """
from schemas.records import Chunk
def halves(document, config):
    middle = len(document.text) // 2
    return [(middle, len(document.text)), (0, middle)]
def chunks(document, config):
    yield Chunk(document.doc_id, 0, 3, document.text[:3], title="own")
    yield Chunk(document.doc_id, 3, 6, document.text[3:6])
def settings(document, config):
    return [(0, config.size + document.metadata["more"])]
def moved(document, config): return [Chunk(document.doc_id, 0, 3, document.text[1:4])]
def other(document, config): return [Chunk("other", 0, 3, document.text[:3])]
def outside(document, config): return [(0, 99)]
def reversed_(document, config): return [(3, 1)]
def texts(document, config): return [document.text]
def fractions(document, config): return [(0.0, 2.0)]
def nothing(document, config): return None
def twice(document, config): return [(0, 2), (0, 2)]
def broken(document, config): raise RuntimeError("no such luck")
number = 3
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "cutting_plugin.py").write_text(PLUGIN)
    (tmp_path / "broken_plugin.py").write_text("import no_such_module_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cutting_plugin", raising=False)
    return "cutting_plugin"


def test_a_plugins_spans_become_chunks_in_order(plugin: str) -> None:
    document = Document("d", "abcdef", "T")
    halves = chunk_document(document, Chunking(plugin=f"{plugin}:halves"))
    assert [(c.start, c.end, c.text, c.title) for c in halves] == [
        (0, 3, "abc", "T"),
        (3, 6, "def", "T"),
    ]
    chunks = chunk_document(document, Chunking(plugin=f"{plugin}:chunks"))
    assert [(c.chunk_id, c.title) for c in chunks] == [("d#0-3", "own"), ("d#3-6", "T")]


@pytest.mark.parametrize("method", ["recursive", "plugin"])
def test_documents_in_parts_with_the_columns_that_are_read_make_the_same_chunks(
    plugin: str, method: str
) -> None:
    config = Chunking(size=8) if method == "recursive" else Chunking(plugin=f"{plugin}:settings")
    config = config.model_copy(update={"size": 8, "overlap": 0})
    documents = [
        Document(f"d{i}", f"text {i}. é\r\nmore", [None, "", "T"][i % 3], {"more": i % 2})
        for i in range(50)
    ]
    expected = [
        (c.chunk_id, c.doc_id, c.start, c.end, c.text, c.title)
        for document in documents
        for c in chunk_document(document, config)
    ]
    frame = documents_frame(documents)
    narrow = frame.select(columns_of_documents(config))
    parts = [narrow[:1], narrow[1:1], narrow[1:40], narrow[40:]]
    for read in ([frame], parts, iter(parts)):
        chunks = chunk_documents(read, config)
        assert chunks.schema == CHUNKS
        assert chunks.rows() == expected
    assert narrow.width == (4 if method == "plugin" else 3)


def test_a_plugin_sees_the_configuration_and_the_metadata(plugin: str) -> None:
    documents = documents_frame([Document("d", "abcdef", metadata={"more": 2})])
    chunks = chunk_documents([documents], Chunking(plugin=f"{plugin}:settings", size=3))
    assert chunks["chunk_id"].to_list() == ["d#0-5"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("moved", r"the chunk's text 'bcd' is not the document's text at 0–3, which is 'abc'"),
        ("other", r"is a chunk of the document 'other'"),
        ("outside", r"item 0 is 0–99; expected 0 ≤ start < end ≤ 6"),
        ("reversed_", r"item 0 is 3–1"),
        ("texts", r"item 0 is 'abcdef'; expected \(start, end\)"),
        ("fractions", r"item 0 is \(0\.0, 2\.0\); expected \(start, end\)"),
        ("nothing", r"TypeError: 'NoneType' object is not iterable"),
        ("twice", r"the span 0–2 was given twice"),
        ("broken", r"RuntimeError: no such luck"),
    ],
)
def test_a_plugin_that_gives_no_spans_of_the_document_is_refused(
    plugin: str, function: str, message: str
) -> None:
    with pytest.raises(StageError, match=message) as caught:
        chunk_document(Document("d", "abcdef"), Chunking(plugin=f"{plugin}:{function}"))
    assert f"chunking.plugin = 'cutting_plugin:{function}' on the document 'd'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "no_such_module_at_all:f",
            r"importing 'no_such_module_at_all' failed with ModuleNotFound",
        ),
        ("broken_plugin:f", r"importing 'broken_plugin' failed with ModuleNotFoundError"),
        ("cutting_plugin:missing", r"'missing' does not exist in .*cutting_plugin\.py"),
        ("sys:missing", r"'missing' does not exist in sys"),
        ("cutting_plugin:number", r"'number' is not a function in"),
    ],
)
@pytest.mark.usefixtures("plugin")
def test_a_plugin_that_is_not_there_is_a_configuration_error(name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        chunk_document(Document("d", "abc"), Chunking(plugin=name))


def test_a_chunk_that_repeats_or_leaves_the_document_never_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for spans in ([(0, 2), (0, 2)], [(2, 3), (0, 1)], [(0, 99)], [(-1, 2)], [(1, 1)]):
        monkeypatch.setattr("tasks.chunking.make_split", lambda *_, spans=spans: lambda _: spans)
        with pytest.raises(StageError, match="not a span that follows"):
            chunk_document(Document("d", "abcdef"), Chunking())


def test_chunks_survive_a_frame() -> None:
    document = Document("x", "你好。👩\u200d👩\u200d👧\r\nA\x00B")
    chunks = chunk_documents([documents_frame([document])], Chunking(method="none"))
    assert chunks["text"].to_list() == [document.text]
    assert chunks.select(pl.col("end") - pl.col("start")).item() == len(document.text)
    assert Chunk("x", 0, 3, "你好。").chunk_id == "x#0-3"
