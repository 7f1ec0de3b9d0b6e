"""Example queries from headings."""

from schemas.records import Document, Judgement
from tasks.headings import example_queries


def texts(*documents: Document, max_queries: int = 50) -> list[tuple[str, str]]:
    queries = example_queries(documents, max_queries=max_queries)
    return [(query.text, query.qrels[0].doc_id) for query in queries if query.qrels]


def test_a_heading_becomes_a_tagged_query_for_its_document() -> None:
    (query,) = example_queries([Document("a.md", "# Lost property\n\nKept for 90 days.\n")])
    assert query.text == "Lost property"
    assert query.tags == ("example",)
    assert query.qrels == (Judgement("a.md", 1),)
    assert query.answers is None


def test_a_heading_that_two_documents_have_is_left_out() -> None:
    first = Document("a.md", "# Fares of 2025\n\n## Paying by card\n")
    second = Document("b.md", "# Fares of 2026\n\n## PAYING  by card\n")
    assert texts(first, second) == [("Fares of 2025", "a.md"), ("Fares of 2026", "b.md")]


def test_code_is_no_heading_and_markup_is_no_text() -> None:
    text = (
        "# The **blue** [help point](x.md) ##\n\n```sh\n# a comment\n```\n\n"
        "~~~\n```\n# inside\n~~~\n\nSnake_case rules\n================\n\nprose\nprose\n---\n"
    )
    assert [heading for heading, _ in texts(Document("a.md", text))] == [
        "The blue help point",
        "Snake_case rules",
    ]


def test_a_closing_fence_with_words_after_it_closes_nothing() -> None:
    text = "```\n``` python\n# still code\n```\n# After the code\n"
    assert texts(Document("a.md", text)) == [("After the code", "a.md")]


def test_other_files_give_their_title_and_their_first_line() -> None:
    page = Document("a.html", "A first line\n# not a heading\n", title="The title")
    note = Document("b.txt", "\n  大风停航通知  \n第二行\n")
    assert texts(page, note) == [
        ("The title", "a.html"),
        ("A first line", "a.html"),
        ("大风停航通知", "b.txt"),
    ]


def test_a_long_line_is_no_heading() -> None:
    assert texts(Document("long-story.txt", "word " * 100)) == [("long story", "long-story.txt")]
    assert texts(Document("one.md", "# " + "a " * 1_000_000)) == [("one", "one.md")]


def test_file_names_stand_in_where_no_heading_will_do() -> None:
    same = "# Same heading\n"
    documents = [Document("x/annual_leave-2025.md", same), Document("annual-leave-2026.md", same)]
    assert texts(*documents) == [
        ("annual leave 2025", "x/annual_leave-2025.md"),
        ("annual leave 2026", "annual-leave-2026.md"),
    ]


def test_a_nameless_document_still_gives_a_query() -> None:
    assert texts(Document("a/1.txt", "…"), Document("b/1.txt", "…")) == [
        ("a/1.txt", "a/1.txt"),
        ("b/1.txt", "b/1.txt"),
    ]


def test_queries_are_taken_from_the_whole_corpus_and_several_words_come_first() -> None:
    documents = [Document(f"{n}.md", f"# Title no. {n}\n## Word{n}x\n") for n in range(10)]
    assert [doc_id for _, doc_id in texts(*documents, max_queries=5)] == [
        "0.md",
        "2.md",
        "4.md",
        "6.md",
        "8.md",
    ]
    few = Document("a.md", "# The title\n## Records\n## Who pays what\n")
    assert [text for text, _ in texts(few, max_queries=2)] == ["The title", "Who pays what"]
