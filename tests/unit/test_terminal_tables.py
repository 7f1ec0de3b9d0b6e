"""What of a table a terminal shows, and how its floats are printed."""

import pytest

from flows.decimals import column_formats
from flows.fitting import dull_last, fit_columns
from flows.printing import print_rows
from flows.tables import reads_like_text


@pytest.mark.parametrize(
    ("widths", "least", "room", "fitted"),
    [
        # what fits is left alone; 5 + 2 + 5
        ([5, 5], [None, None], 12, {0: 5, 1: 5}),
        # one too few: the right one goes
        ([5, 5], [None, None], 11, {0: 5}),
        # text gives way first: 60 - 36 - 10 - two gaps = 10
        ([36, 10, 40], [None, None, 8], 60, {0: 36, 1: 10, 2: 10}),
        # no room for the text's least: it goes, and what stands right of it
        ([36, 40, 5], [None, 24, None], 60, {0: 36}),
        # two texts share what is left, the shorter takes only what it needs: 50 - 2 = 48
        ([10, 90], [8, 8], 50, {0: 10, 1: 38}),
        ([30, 90], [8, 8], 50, {0: 24, 1: 24}),
        # an id that is wider than the terminal stays whole
        ([64, 5], [None, None], 40, {0: 64}),
    ],
)
def test_columns_fit_the_room(
    widths: list[int], least: list[int | None], room: int, fitted: dict[int, int]
) -> None:
    assert fit_columns(widths, least, room) == fitted


def test_columns_that_say_nothing_stand_last() -> None:
    rows = [{"a": 1, "status": "completed", "tags": None}, {"a": 2, "status": "failed"}]
    dull = {"status": "completed", "tags": None}
    assert dull_last(rows, ["status", "tags", "a"], dull) == ["status", "a", "tags"]
    assert dull_last(rows[:1], ["status", "tags", "a"], dull) == ["a", "status", "tags"]


@pytest.mark.parametrize(
    ("name", "value", "is_text"),
    [
        ("message", "the disk is full", True),
        ("config", "{" + '"a":1,' * 9 + "}", True),
        ("tags", ["en"], True),
        ("query_id", "what is this", False),
        ("digest", "0123456789abcdef" * 4, False),
        ("run", "01980000-0000-7000-8000-000000000001", False),
        ("status", "completed", False),
        ("mean", 0.5, False),
        ("mean", None, False),
    ],
)
def test_only_free_text_may_be_cut(name: str, value: object, is_text: bool) -> None:
    assert reads_like_text(name, [None, value]) is is_text


def test_a_terminal_gets_whole_columns_and_is_told_of_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.tables.terminal_width", lambda: 40)
    row = {"run": "a" * 12, "text": "word " * 20, "n": 7, "x\x1b": "b" * 30}
    print_rows([row], list(row), format="table")
    out, err = capsys.readouterr()
    lines = out.splitlines()
    # 40 - 12 - 1 - two gaps of 2 = 23 are fewer than the 24 that a text keeps: n goes too
    assert lines[0].split() == ["run", "text"]
    assert lines[2] == "a" * 12 + "  " + "word word word word word…"
    assert err == "not shown, to fit 40 columns: n, x\\x1b (all: --format csv)\n"


def test_a_pipe_gets_everything_whole(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"text": "word " * 50, "n": 7}
    print_rows([row], list(row), format="table")
    out, err = capsys.readouterr()
    assert (row["text"] in out, err) == (True, "")


@pytest.mark.parametrize(
    ("column", "printed"),
    [
        ([0.89, 0.5], ["0.89", "0.50"]),
        ([1.0, 2.0], ["1.0", "2.0"]),
        ([1 / 3, 0.5], ["0.3333", "0.5000"]),
        ([0.1 + 0.2], ["0.3"]),
        ([3.2e-7, 0.5, 0.0], ["3.2e-07", "0.5", "0.0"]),
        ([-0.25, None], ["-0.25", "–"]),
        ([1, True, "0.50", float("inf")], ["1", "yes", "0.50", "inf"]),
    ],
)
def test_trimmed_floats_have_the_decimals_that_their_column_needs(
    column: list[object], printed: list[str]
) -> None:
    (show,) = column_formats([[value] for value in column], 1, trim=True)
    assert [show(value) for value in column] == printed


def test_a_later_float_that_needs_more_decimals_gets_them() -> None:
    (show,) = column_formats([[0.5]], 1, trim=True)
    assert show(0.125) == "0.125"
