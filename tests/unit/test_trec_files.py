"""TREC files are read whatever their spacing and packing; a fault is named with its line."""

import gzip
import io
import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard

from schemas.errors import InputError
from tasks.trec_bytes import show_id
from tasks.trec_files import TrecLines, parse_trec, read_qrels, read_run


def run_of(text: str | bytes) -> TrecLines:
    data = text.encode() if isinstance(text, str) else text
    return parse_trec(data, "run", source="bm25.run")


def qrels_of(text: str) -> TrecLines:
    return parse_trec(text.encode(), "qrels", source="qrels.txt")


def rows(lines: TrecLines) -> list[tuple[bytes, bytes, float]]:
    queries = [lines.query_ids[index] for index in lines.query]
    return list(zip(queries, lines.docs.to_list(), lines.numbers.tolist(), strict=True))


PLAIN = "q1 Q0 a 1 3.5 t\nq1 Q0 b 2 1e-3 t\nq2 Q0 a 1 -inf t\n"
ROWS = [(b"q1", b"a", 3.5), (b"q1", b"b", 1e-3), (b"q2", b"a", float("-inf"))]


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.rstrip("\n"),
        PLAIN.replace(" ", "\t"),
        PLAIN.replace(" ", " \t  "),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", " \n\n  \n"),
        "\n\n" + PLAIN,
        "  " + PLAIN.replace("\n", "\n \v\f"),
        "\ufeff" + PLAIN,
        "\ufeff" + PLAIN.replace(" ", "\t"),
        PLAIN.replace("3.5", "+3.5").replace("1e-3", ".001").replace("-inf", "-Infinity"),
        PLAIN.replace("3.5", "35E-1"),
    ],
)
def test_spacing_and_line_ends_do_not_matter(text: str) -> None:
    assert rows(run_of(text)) == ROWS


@pytest.mark.parametrize("packed", [gzip.compress, zstandard.compress])
def test_gzip_and_zstd_are_read_by_what_is_in_them_not_by_their_name(
    tmp_path: Path, packed: type[bytes]
) -> None:
    path = tmp_path / "bm25.run"
    halves = PLAIN[:20].encode(), PLAIN[20:].encode()
    path.write_bytes(b"".join(packed(half) for half in halves))  # two members, as cat makes them
    assert rows(read_run(str(path))) == ROWS


def test_standard_input_and_pipes_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(PLAIN.encode())))
    assert rows(read_run("-")) == ROWS
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(PLAIN.encode())))
    writer.start()
    assert rows(read_run(str(pipe))) == ROWS
    writer.join()


def test_fields_are_split_on_ascii_white_space_alone() -> None:
    ids = ["d\u00a0x", "d\u3000x", "d\u2028x", "d\u0085x", "d\x1cx", "d\x00x"]
    lines = run_of("".join(f"q\u00a01 Q0 {doc} 1 2 t\n" for doc in ids))
    assert lines.docs.to_list() == [doc.encode() for doc in ids]
    assert lines.query_ids == ["q\u00a01".encode()]


def test_ids_are_bytes_and_stay_as_they_are() -> None:
    lines = run_of(b'007 Q0 NA 1 2 t\n7 Q0 nan 1 2 t\n\xe9 Q0 "d 1 2 t\nnull Q0 \xff\xfe 1 2 t')
    assert [lines.query_ids[index] for index in lines.query] == [b"007", b"7", b"\xe9", b"null"]
    assert lines.docs.to_list() == [b"NA", b"nan", b'"d', b"\xff\xfe"]
    assert show_id(b"\xff\xfe") == "\\xff\\xfe"
    assert show_id("é".encode()) == "é"


def test_a_line_longer_than_a_block_is_read() -> None:
    long = "d" * 9_000_000
    assert run_of(f"q Q0 {long} 1 2 t\nq Q0 b 2 1 t\n").docs.to_list() == [long.encode(), b"b"]


def test_scores_are_the_nearest_floats() -> None:
    text = ["0.1", "1e300", "-1e300", "1e400", "5e-324", "16777217", "0.30000000000000004"]
    lines = run_of("".join(f"q Q0 d{i} 1 {score} t\n" for i, score in enumerate(text)))
    assert lines.numbers.tolist() == [float(score) for score in text]


def test_grades_are_whole_numbers_of_any_sign() -> None:
    lines = qrels_of("q 0 a -2\nq 0 b +3\nq 0 c 9223372036854775807\n")
    assert lines.numbers.dtype == np.int64
    assert lines.numbers.tolist() == [-2, 3, 2**63 - 1]


def test_an_id_may_look_like_a_hexadecimal_number() -> None:
    assert rows(qrels_of("0x1 0x0 0x10 2\n0x1 0 0xff +1\n")) == [
        (b"0x1", b"0x10", 2),
        (b"0x1", b"0xff", 1),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (PLAIN + "q3 Q0 a 1 2\n", "bm25.run:4: the line has 5 fields, but a run line has 6"),
        ("\n\n" + PLAIN + "q3\n", "bm25.run:6: the line has 1 field, but"),
        (PLAIN.replace("t\n", "my tag\n", 1), "bm25.run:1: the line has 7 fields"),
        ("q1 Q0  1 2.0 t\n", "bm25.run:1: the line has 5 fields"),
        ("q1 Q0 d 1 2.0 \n", "bm25.run:1: the line has 5 fields"),
        ("q1 0 a 1\n", "a run line has 6: query, q0, document, rank, score, tag; the order"),
        (PLAIN + "q3 Q0 a 1 high t\n", "bm25.run:4: the score is 'high'; expected a number"),
        (PLAIN + "q3 Q0 a 1 1_0 t\n", "the score is '1_0'"),
        (PLAIN + "q3 Q0 a 1 0x10 t\n", "the score is '0x10'"),
        (PLAIN + "q3 Q0 a 1 １ t\n", "the score is '１'"),
        ("\n" + PLAIN + "q3 Q0 a 1 nan t\n", "bm25.run:5: the score is NaN"),
        (PLAIN + "q3 Q0 a 1 -NaN t\n", "bm25.run:4: the score is NaN"),
        ("", "bm25.run: the file is empty; expected lines of: query q0 doc rank score tag"),
        (" \n\t\r\n" * 2000, "the file is empty"),
    ],
)
def test_a_faulty_run_is_refused_with_file_and_line(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        run_of(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("q 0 a 1\nq 0 b 1.5\n", "qrels.txt:2: the grade is '1.5'; expected a whole number"),
        ("q 0 a x\n", "qrels.txt:1: the grade is 'x'"),
        *(
            (f"q 0 b 1\nq 0 a {grade}\n", f"qrels.txt:2: the grade is '{grade}'; expected a whole")
            for grade in ("0x10", "0X1f", "-0x1", "+0x1", "1_000", "1.0", "1e0", "１", "+", "--1")
        ),
        ("q\t0\ta\t0x10\n", "qrels.txt:1: the grade is '0x10'"),
        ("q 0 a 9223372036854775808\n", "below 2^63"),
        ("q 0 a 1" + "0" * 5000 + "\n", "below 2^63"),
        ("q 0 a\n", "qrels.txt:1: the line has 3 fields, but a qrels line has 4"),
        ("", "qrels.txt: the file is empty"),
    ],
)
def test_faulty_qrels_are_refused_with_file_and_line(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        qrels_of(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nosuch: there is no such file"):
        read_run(str(tmp_path / "nosuch"))
    with pytest.raises(InputError, match="this is a folder"):
        read_qrels(str(tmp_path))
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(PLAIN.encode())[:-9])
    with pytest.raises(InputError, match=r"broken.gz: the gzip data is damaged"):
        read_run(str(broken))
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="the file is empty"):
        read_run(str(tmp_path / "empty"))
