"""What reaches the terminal."""

import csv
import io
import json

import pytest

from flows.printing import clean, defuse_cell, print_rows, render_table


def test_control_characters_become_visible() -> None:
    assert clean("a\x1b[31mred\x07\r\n\tb\x9b") == r"a\x1b[31mred\x07\r\n\tb\x9b"


def test_marks_that_reorder_text_become_visible_and_letters_stay() -> None:
    assert clean("\u202eevil\u200b") == r"\u202eevil\u200b"
    assert clean("Élan 北京 🙂") == "Élan 北京 🙂"


def test_no_text_breaks_a_line() -> None:
    breaks = [chr(code) for code in range(0x110000) if len(f"a{chr(code)}b".splitlines()) > 1]
    assert {"\n", "\x85", "\u2028", "\u2029"} <= set(breaks)
    text = f"a{'b'.join(breaks)}b"
    assert clean(text).splitlines() == [clean(text)]
    assert len(render_table([[text, 1]], ["id", "n"]).splitlines()) == 3


def test_columns_align_by_display_width() -> None:
    lines = render_table([["北京", 1], ["ab", 20]], ["city", "n"]).splitlines()
    assert lines == ["city   n", "────  ──", "北京   1", "ab    20"]


def test_null_is_a_dash_and_a_float_has_four_decimals(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"a": None, "b": 0.61}], ["a", "b"], format="table")
    assert capsys.readouterr().out.splitlines()[-1].split() == ["–", "0.6100"]


def test_json_round_trips_with_null_and_shortest_floats(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"a": None, "b": 0.1 + 0.2}, {"a": "é\x1b\x9b\u202e", "b": 1.0}]
    print_rows(rows, ["a", "b"], format="json")
    out = capsys.readouterr().out
    assert json.loads(out) == rows
    assert not {"\x1b", "\x9b", "\u202e"} & set(out)
    assert "0.30000000000000004" in out


def test_no_rows_are_an_empty_array(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], ["a"], format="json")
    assert json.loads(capsys.readouterr().out) == []


def test_csv_cells_that_a_spreadsheet_would_run_are_defused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows([{"a": "=1+1", "b": -0.5, "c": "-0.5"}], ["a", "b", "c"], format="csv")
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [["a", "b", "c"], ["'=1+1", "-0.5", "-0.5"]]


@pytest.mark.parametrize("value", ["+cmd", "@sum", "-a", "\tx", "=x"])
def test_each_formula_sign_is_defused(value: str) -> None:
    assert defuse_cell(value) == "'" + value
