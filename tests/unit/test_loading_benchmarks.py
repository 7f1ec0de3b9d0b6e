from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.errors import InputError
from schemas.experiment import Benchmark
from schemas.frames import BENCHMARK
from schemas.records import GoldSpan, Judgement, Query
from tasks.loading import (
    load_benchmark,
    queries_frame,
    queries_from_frame,
    survey_benchmark,
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


def load(path: Path, format: str | None = None, split: str | None = None) -> list[Query]:
    config = Benchmark.model_validate({"path": str(path), "format": format, "split": split})
    return load_benchmark(survey_benchmark(config), split=split)


def refused(path: Path, format: str | None = None, split: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load(path, format, split)
    return str(caught.value)


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


FULL = {
    "query_id": "q7",
    "text": "Qui est Anna Pavlovna ?",
    "tags": ["who", "fr"],
    "split": "test",
    "answers": ["maid of honor"],
    "spans": [
        {"doc_id": "war.txt", "start": 812, "end": 871, "quote": "…", "grade": 2},
        {"doc_id": "war.txt", "quote": "a quote alone"},
        {"doc_id": 7, "start": 0, "end": 1},
    ],
    "qrels": [{"doc_id": "war.txt", "grade": -1}, {"doc_id": "peace.txt"}],
    "response": "a summary to score",
    "reference_contexts": ["…"],
}


# Benchmark JSONL


def test_every_field_of_a_query_is_read(write: Write) -> None:
    assert load(write("b.jsonl", lines(FULL))) == [
        Query(
            query_id="q7",
            text="Qui est Anna Pavlovna ?",
            tags=("who", "fr"),
            split="test",
            answers=("maid of honor",),
            spans=(
                GoldSpan("war.txt", 812, 871, "…", 2),
                GoldSpan("war.txt", None, None, "a quote alone", 1),
                GoldSpan("7", 0, 1, None, 1),
            ),
            qrels=(Judgement("war.txt", -1), Judgement("peace.txt", 1)),
            response="a summary to score",
            reference_contexts=("…",),
        )
    ]


def test_what_is_absent_is_not_what_is_empty(write: Write) -> None:
    path = write(
        "b.jsonl",
        lines(
            {"query_id": "007", "text": "x"},
            {"query_id": 8, "text": "y", "answers": [], "spans": [], "qrels": [], "response": ""},
            {"query_id": "NA", "text": "z", "answers": None},
        ),
    )
    assert load(path) == [
        Query("007", "x"),
        Query("8", "y", answers=(), spans=(), qrels=(), response=""),
        Query("NA", "z"),
    ]


def test_queries_survive_their_frame(write: Write) -> None:
    empty = {"query_id": "e", "text": "y", "answers": [], "spans": [], "qrels": [], "tags": []}
    queries = load(write("b.jsonl", lines(FULL, empty, {"query_id": "007", "text": "x"})))
    frame = queries_frame(queries)
    assert frame.schema == BENCHMARK
    assert frame["answers"].to_list() == [["maid of honor"], [], None]
    assert frame["spans"].is_null().to_list() == [False, False, True]
    assert queries_from_frame(frame) == queries
    assert queries_frame([]).schema == BENCHMARK


def test_a_split_is_chosen_and_the_other_queries_are_checked_all_the_same(write: Write) -> None:
    rows = [
        {"query_id": "a", "text": "x", "split": "test"},
        {"query_id": "b", "text": "x", "split": "dev"},
        {"query_id": "c", "text": "x"},
    ]
    path = write("b.jsonl", lines(*rows))
    assert [query.query_id for query in load(path, split="test")] == ["a"]
    assert [query.query_id for query in load(path)] == ["a", "b", "c"]
    assert refused(path, split="tset").endswith(
        "no query is of the split 'tset'; the splits are: dev, test"
    )
    broken = write("broken.jsonl", lines(*rows, {"query_id": "a", "text": "y", "split": "dev"}))
    assert "broken.jsonl:4: the query_id 'a' is given twice, first on line 1" in refused(
        broken, split="test"
    )
    without = write("without.jsonl", lines(rows[2]))
    assert refused(without, split="test").endswith("'test'; no query has a split")


def query(**fields: Any) -> str:
    return json.dumps({"query_id": "q", "text": "x", **fields})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (query(anwsers=["a"]), "anwsers: unknown key; did you mean 'answers'?"),
        (query(zzz="x = 1"), "zzz: unknown key; known: query_id, text, tags, split"),
        (query(filter="x = 1"), "filter: input should be a valid dictionary"),
        (query(filter={}), "filter: dictionary should have at least 1 item"),
        (query(filter={"lang": None}), "filter.lang"),
        (query(filter={"lang": []}), "filter.lang"),
        (
            query(spans=[{"doc_id": "d", "strat": 1, "end": 2}]),
            "spans[0].strat: unknown key; did you mean 'start'?",
        ),
        (query(qrels=[{"doc_id": "d", "grad": 1}]), "qrels[0].grad: unknown key; did you mean"),
        ('{"text": "x"}', "query_id: this key is required; the keys are: 'text'"),
        (query(query_id="  "), "query_id is blank"),
        (query(query_id=1.0), "query_id is the number 1.0; ids are strings"),
        (query(text=" "), "text is blank"),
        (query(text=3), "text: input should be a valid string, but got 3"),
        (query(answers="a"), "answers: input should be a valid list, but got 'a'"),
        (query(answers=["a", " "]), "answers[1] is blank"),
        (query(answers=[1]), "answers[0]: input should be a valid string, but got 1"),
        (query(tags=[""]), "tags[0] is blank"),
        (query(reference_contexts=["\n"]), "reference_contexts[0] is blank"),
        (
            query(spans=[{"doc_id": "d", "start": 1, "quote": "x"}]),
            "spans[0] has only one of start and end",
        ),
        (query(spans=[{"doc_id": "d"}]), "spans[0] has neither start and end nor a quote"),
        (query(spans=[{"doc_id": "d", "start": 2, "end": 2}]), "spans[0] ends at 2, not after"),
        (
            query(spans=[{"doc_id": "d", "start": -1, "end": 2}]),
            "spans[0].start: input should be greater than or equal to 0, but got -1",
        ),
        (
            query(spans=[{"doc_id": "d", "start": 1.0, "end": 2}]),
            "spans[0].start: input should be a valid integer, but got 1.0",
        ),
        (query(spans=[{"doc_id": "d", "quote": " "}]), "spans[0].quote is blank"),
        (query(spans=[{"start": 1, "end": 2}]), "spans[0].doc_id: this key is required"),
        (
            query(spans=[{"doc_id": "d", "quote": "x"}] * 2),
            "spans holds the same span of 'd' 2 times",
        ),
        (
            query(qrels=[{"doc_id": "d", "grade": 1.5}]),
            "qrels[0].grade: input should be a valid integer, but got 1.5",
        ),
        (query(qrels=[{"doc_id": "d", "grade": True}]), "qrels[0].grade: input should be a valid"),
        (query(qrels=[{"doc_id": "d", "grade": 2**70}]), "qrels[0].grade: input should be less"),
        (
            query(qrels=[{"doc_id": "d"}, {"doc_id": "e"}, {"doc_id": "d", "grade": 0}]),
            "qrels judges the document 'd' 2 times",
        ),
        (query(response=["x"]), "response: input should be a valid string"),
        (query(a=1, b=2, c=3, d=4, e=5), "c: unknown key; known"),
        ('{"query_id": "q", "text": "x"', "this is not valid JSON"),
        ('"q"', "expected a JSON object, but this is a str"),
        (r'{"query_id": "q", "text": "\udc00"}', "half of a surrogate pair"),
    ],
)
def test_a_bad_line_is_refused_with_file_line_and_key(
    write: Write, line: str, message: str
) -> None:
    path = write("b.jsonl", '{"query_id": "first", "text": "x"}\n\n' + line + "\n")
    assert refused(path).startswith(f"{path}:3: ")
    assert message in refused(path)


def test_of_many_faults_of_a_line_three_are_shown(write: Write) -> None:
    message = refused(write("b.jsonl", query(a=1, b=2, c=3, d=4, e=5)))
    assert message.count("unknown key") == 3
    assert message.endswith("; and 2 more")


def test_a_benchmark_without_queries_is_refused(write: Write, tmp_path: Path) -> None:
    assert "b.jsonl: the file is empty (0 bytes)" in refused(write("b.jsonl", ""))
    assert "b.jsonl: there is no query in it" in refused(write("b.jsonl", "\n"))
    assert "c.csv: there is no query in it" in refused(write("c.csv", "question,answer\n"))
    assert "there is no such file or folder; did you mean 'b.jsonl'?" in refused(
        tmp_path / "b.json"
    )
    assert "its format cannot be told from its name" in refused(write("b.xlsx", "x"))
    (tmp_path / "empty").mkdir()
    assert "this one holds neither" in refused(tmp_path / "empty")
    assert "format 'trec' is a folder" in refused(tmp_path / "b.jsonl", "trec")
    assert "format 'squad' is one file" in refused(tmp_path / "empty", "squad")


def test_the_digest_of_a_benchmark_is_that_of_its_bytes_wherever_it_is(write: Write) -> None:
    paths = [
        write(name, query(text=text))
        for name, text in [("one/b.jsonl", "x"), ("two/renamed.jsonl", "x"), ("b.jsonl", "y")]
    ]
    first, same, other = (survey_benchmark(Benchmark(path=str(path))).digest for path in paths)
    assert first == same != other


# BEIR


@pytest.fixture
def beir(write: Write) -> Path:
    write("beir/corpus.jsonl", lines({"_id": "d1", "title": "", "text": "x", "metadata": {}}))
    write(
        "beir/queries.jsonl",
        lines(*({"_id": f"q{i}", "text": f"text {i}", "metadata": {}} for i in range(4))),
    )
    write(
        "beir/qrels/test.tsv",
        "query-id\tcorpus-id\tscore\nq2\td1\t2\nq0\t007\t0\nq2\ta b\t-1\n",
    )
    return write("beir/qrels/dev.tsv", "q3\td1\t1\r\n").parent.parent


def test_beirs_queries_are_those_that_the_split_judges(beir: Path) -> None:
    assert load(beir) == [
        Query("q0", "text 0", split="test", qrels=(Judgement("007", 0),)),
        Query("q2", "text 2", split="test", qrels=(Judgement("d1", 2), Judgement("a b", -1))),
    ]
    assert load(beir, split="test") == load(beir)
    assert load(beir, split="dev") == [
        Query("q3", "text 3", split="dev", qrels=(Judgement("d1", 1),))
    ]


def test_an_edited_split_of_beir_leaves_the_digest_of_the_others(beir: Path) -> None:
    def digest(split: str | None) -> str:
        return survey_benchmark(Benchmark(path=str(beir), split=split)).digest

    before = digest("test"), digest("dev")
    assert digest(None) == before[0] != before[1]
    (beir / "qrels/dev.tsv").write_text("q1\td1\t1\n")
    assert digest("test") == before[0]
    assert digest("dev") != before[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qrels/test.tsv", "q0\td1\n", "test.tsv:1: expected query-id, corpus-id and score"),
        (
            "qrels/test.tsv",
            "q0\td1\t1\nq0\td1\t1\n",
            "test.tsv:2: the document 'd1' is judged twice",
        ),
        ("qrels/test.tsv", "q0\td1\t1.0\n", "test.tsv:1: the grade is '1.0'; expected a whole"),
        ("qrels/test.tsv", "\td1\t1\n", "test.tsv:1: the id of a query or document is blank"),
        (
            "qrels/test.tsv",
            "q0\td1\t1\nx\td1\t1\ny\td1\t1\n",
            "test.tsv: judged queries without a text in queries.jsonl: 2, namely 'x', 'y'",
        ),
        ("queries.jsonl", '{"_id": "q0"}', "queries.jsonl:1: 'text' is None; expected a string"),
        ("queries.jsonl", '{"text": "x"}', "queries.jsonl:1: _id is None; expected a string"),
        (
            "queries.jsonl",
            '{"_id": "q0", "text": "x"}\n{"_id": "q2", "text": "x"}\n{"_id": "q2", "text": "y"}',
            "queries.jsonl:3: the query_id 'q2' is given twice, first on line 2",
        ),
    ],
)
def test_a_bad_file_of_beirs_is_refused(beir: Path, name: str, content: str, message: str) -> None:
    (beir / name).write_text(content)
    assert message in refused(beir)


def test_a_split_that_beir_does_not_have_is_refused_with_those_that_it_has(beir: Path) -> None:
    assert "there is no split 'train'; the splits are: dev, test" in refused(beir, split="train")
    (beir / "queries.jsonl").unlink()
    assert "queries.jsonl: there is no such file" in refused(beir, "beir")


# SQuAD


def squad(*questions: dict[str, Any]) -> str:
    paragraph = {"context": "你好 👩\u200d👧 world", "qas": list(questions)}
    return json.dumps({"data": [{"title": "T_x", "paragraphs": [paragraph]}]})


def test_squads_answers_with_offsets_are_spans_once_each(write: Write) -> None:
    answers = [
        {"text": "world", "answer_start": 7},
        {"text": "world", "answer_start": 7},  # a second annotator
        {"text": "hello"},
    ]
    path = write(
        "s.json",
        squad(
            {"id": "a1", "question": "Who?", "answers": answers},
            {"id": 2, "question": "None?", "answers": [], "is_impossible": True},
            {"id": "3", "question": "Where?", "answers": [{"text": "there"}]},
        ),
    )
    assert load(path) == [
        Query(
            "a1",
            "Who?",
            answers=("world", "hello"),
            spans=(GoldSpan("T_x/0000", 7, 12, "world"),),
        ),
        Query("2", "None?", answers=(), spans=()),
        Query("3", "Where?", answers=("there",)),
    ]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"question": "x", "answers": []}, "the id of a question of T_x/0000 is None"),
        ({"id": "a", "answers": []}, "the question 'a' has no 'question'; the keys are"),
        ({"id": "a", "question": " ", "answers": []}, "the text of the query 'a' is blank"),
        ({"id": "a", "question": "x", "answers": [{"text": " "}]}, "'a' is blank"),
        ({"id": "a", "question": "x", "answers": [{}]}, "the question 'a' has no 'text'"),
        ({"id": "a", "question": "x", "answers": ["y"]}, "the question 'a' is 'y', not an object"),
        (
            {"id": "a", "question": "x", "answers": [{"text": "y", "answer_start": -1}]},
            "the answer_start of the question 'a' is -1; expected characters, from 0",
        ),
    ],
)
def test_a_bad_question_of_squads_is_refused_by_name(
    write: Write, question: dict[str, Any], message: str
) -> None:
    assert message in refused(write("s.json", squad(question)))


def test_a_question_id_given_twice_is_refused(write: Write) -> None:
    question = {"id": "a", "question": "x", "answers": []}
    assert "the query_id 'a' is given twice" in refused(write("s.json", squad(question, question)))


# ragas, tables, TREC


def test_ragas_rows_are_queries_whose_contexts_are_their_documents(write: Write) -> None:
    rows = [
        {
            "user_input": "abc",
            "retrieved_contexts": ["other"],
            "reference_contexts": ["abc", "abc"],
            "response": "r",
            "reference": "left alone",
        },
        {"user_input": "q", "query_id": "007", "reference_contexts": []},
        {"user_input": "p", "reference_contexts": None},
    ]
    expected = [
        Query(
            "ba7816bf8f01cfea",  # printf abc | sha256sum
            "abc",
            qrels=(Judgement("ba7816bf8f01cfea"),),
            response="r",
            reference_contexts=("abc", "abc"),
        ),
        Query("007", "q", qrels=(), reference_contexts=()),
        Query("148de9c5a7a44d19", "p"),  # printf p | sha256sum
    ]
    assert load(write("r.jsonl", lines(*rows))) == expected
    assert load(write("r.json", json.dumps(rows, indent=1))) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"question": "x"}]', "r.json:1: 'user_input' is None; expected a string"),
        ('[{"user_input": [{"content": "x"}]}]', "rows of several turns have no single query"),
        ('[{"user_input": "x", "response": 1}]', "'response' is 1; expected a string"),
        ('[{"user_input": "x"}, 3]', "r.json:2: the row is 3; expected an object"),
        ('[{"user_input": "x"}, {"user_input": "x"}]', "is given twice, first on line 1"),
        ('[{"user_input": " "}]', "is blank"),
        ("[]", "r.json: there is no query in it"),
        ('[{"user_input": "x"}', "r.json: this is not valid JSON"),
    ],
)
def test_a_bad_ragas_row_is_refused(write: Write, content: str, message: str) -> None:
    assert message in refused(write("r.json", content))


def test_a_table_of_questions_gives_queries_with_one_answer(write: Write) -> None:
    path = write(
        "q.csv",
        '\ufeffquery_id,question,answer\r\n007,"Who, then?",NA\r\n,abc,"two\nlines"\r\n',
    )
    assert load(path) == [
        Query("007", "Who, then?", answers=("NA",)),
        Query("ba7816bf8f01cfea", "abc", answers=("two\nlines",)),
    ]
    assert load(write("q.tsv", "answer\tquestion\n1e5\tabc\n")) == [
        Query("ba7816bf8f01cfea", "abc", answers=("1e5",))
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("question,answer\nx, \n", "q.csv:2: the answer is blank"),
        ("question,answer\n ,x\n", "q.csv:2: the text of the query"),
        ("question,answers\nx,y\n", "the column 'answers' is unknown; did you mean 'answer'?"),
        ("question,query_id\nx,y\n", "there is no column 'answer'; the header is"),
        ("question,answer\nx,y\nx,z\n", "q.csv:3: the query_id '2d711642b726b044' is given twice"),
    ],
)
def test_a_bad_table_of_questions_is_refused(write: Write, content: str, message: str) -> None:
    assert message in refused(write("q.csv", content))


@pytest.mark.parametrize(
    "topics",
    [
        "a b\tfirst topic\n302\tsecond & third\n".replace("a b", "a%20b"),
        "<top>\n<num> Number: a%20b\n<title> first topic\n\n<desc> Description:\nlong\n</top>\n"
        "<top>\n<num>302</num>\n<title>Topic: second &amp;\n third</title></top>",
        '<topics task="x"><topic number="a%20b"><query>first topic</query></topic>\n'
        "<topic number='302'><query>second &amp; third</query><question>q</question></topic>"
        "</topics>",
    ],
)
def test_trec_topics_and_qrels_are_a_benchmark(write: Write, topics: str) -> None:
    write("trec/topics.txt", topics)
    folder = write("trec/qrels.txt", "a%20b 0 d%25\t2\r\na%20b Q0 e -1\n").parent
    assert load(folder) == [
        Query("a b", "first topic", qrels=(Judgement("d%", 2), Judgement("e", -1))),
        Query("302", "second & third"),
    ]


def test_trec_ids_are_decoded_only_where_an_export_encodes_them(write: Write) -> None:
    write("trec/topics.txt", "%61\tfirst\na\tsecond\n%ff\tthird\n")
    folder = write("trec/qrels.txt", "%61 0 d%41 1\na 0 d%2541 2\n").parent
    assert load(folder) == [
        Query("%61", "first", qrels=(Judgement("d%41", 1),)),
        Query("a", "second", qrels=(Judgement("d%41", 2),)),
        Query("%ff", "third"),
    ]


@pytest.mark.parametrize(
    ("topics", "qrels", "message"),
    [
        ("1 no tab\n", "1 0 d 1\n", "topics.txt:1: expected an id, a tab and the query's text"),
        ("1\tx\n", "1 0 d\n", "qrels.txt:1: a qrels line has 4 fields"),
        ("1\tx\n", "1 0 d 1\n2 0 d 1\n", "without a text in topics.txt: 1, namely '2'"),
        ("1\tx\n", "1 0 d 1\n1 0 d 2\n", "qrels.txt:2: the document 'd' is judged twice"),
        ("\n<top><num>1</top>", "1 0 d 1\n", "topics.txt:2: this topic has no title"),
        ("1\tx\n1\ty\n", "1 0 d 1\n", "topics.txt:2: the query_id '1' is given twice"),
        ("1\t \n", "1 0 d 1\n", "topics.txt:1: the text of the query '1' is blank"),
    ],
)
def test_bad_trec_files_are_refused(write: Write, topics: str, qrels: str, message: str) -> None:
    write("trec/topics.txt", topics)
    assert message in refused(write("trec/qrels.txt", qrels).parent)


def test_a_trec_folder_holds_one_file_of_each(write: Write) -> None:
    folder = write("trec/topics.a", "1\tx\n").parent
    assert "expected one file qrels.* in it, but found: none" in refused(folder)
    write("trec/qrels.a", "1 0 d 1\n")
    write("trec/topics.b", "1\tx\n")
    assert "expected one file topics.* in it, but found: topics.a, topics.b" in refused(folder)
