import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.matching import AnswerMatcher, contains_answer, find_answers, normalise


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("He was born in PARIS.", "Paris"),
        ("born in\n  New \u00a0 York", "new york"),
        ("Die STRASSE ist lang", "Straße"),
        ("the ﬁnal ofﬁce", "final"),  # ligatures are letters
        ("cafe\u0301 noir", "café"),  # decomposed and composed
        ("ΟΔΟΣ", "οδός".replace("ό", "ο")),  # the two small sigmas are one
        ("ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
        ("İstanbul", "i\u0307stanbul"),  # what Unicode folds a dotted capital I to
        ("Written in C++.", "C++"),
        ("C++11 and later", "C++"),
        ("it costs US$5 today", "$5"),
        ("about 3.14, roughly", "3.14"),
        ("(1,000)", "1,000"),
        ("what is 3.14", "14"),  # punctuation is a boundary, also inside a number
        ("max_size = 3", "size"),
        ("in 2013年", "2013"),
        ("他住在北京市朝阳区", "北京"),
        ("使用Python编写", "Python"),
        ("東京タワーへ行く", "タワー"),
        ("서울에서 만나요", "서울"),  # particles cling to Korean nouns
        ("ฉันรักกรุงเทพมาก", "กรุงเทพ"),
        ("ຂ້ອຍຢູ່ວຽງຈັນ", "ວຽງຈັນ"),
        ("ខ្ញុំនៅភ្នំពេញ", "ភ្នំពេញ"),
        ("αx", "x"),  # two alphabetic scripts
        ("50% off", "50%"),
        ("🙂smile", "smile"),
    ],
)
def test_the_answer_is_found(text: str, answer: str) -> None:
    assert contains_answer(text, [answer])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("concatenate", "cat"),
        ("13.14", "3.14"),
        ("3.141", "3.14"),
        ("21,000", "1,000"),
        ("costs $50", "$5"),
        ("ABC++", "C++"),
        ("the 1990s", "1990"),
        ("B2B", "B2"),
        ("straße", "stras"),  # a match never ends inside a letter that became two
        ("cafe\u0301", "cafe"),
        ("x\u0302y z", "x"),  # nor before a mark that stays apart
        ("रामायण", "राम"),  # nor before a vowel sign of an alphabetic script
        ("İstanbul", "istanbul"),
        ("москвич", "москв"),
        ("ٱلكتاب", "كتا"),
        ("", "a"),
        ("a", ""),
        ("a", " \n"),
        ("New York", "NewYork"),
    ],
)
def test_the_answer_is_not_found(text: str, answer: str) -> None:
    assert not contains_answer(text, [answer])


def test_a_later_occurrence_counts_when_the_first_is_inside_a_word() -> None:
    assert contains_answer("concatenate the cat", ["cat"])


def test_occurrences_may_overlap() -> None:
    # "aa a" begins at 1, inside the word, and again at 5
    assert contains_answer("xaa aa a", ["aa a"])


def test_no_answers_match_nothing() -> None:
    assert not AnswerMatcher([]).matches("text")


def test_any_answer_is_enough() -> None:
    assert AnswerMatcher(["absent", "here"]).matches("it is here")


def test_normalising_a_character_twice_changes_nothing() -> None:
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            once = normalise(chr(code))
            assert normalise(once) == once, hex(code)


@given(st.text())
def test_a_text_contains_itself_whatever_its_form(text: str) -> None:
    decomposed = unicodedata.normalize("NFD", text)
    assert contains_answer(decomposed, [text]) == (normalise(text) != "")


_ALPHABET = "aAbß ﬁ1²中京서กé\u0301.$+-\t\x00\x1b🙂"
_TEXTS = st.text(alphabet=_ALPHABET, max_size=12)


@settings(deadline=None)  # the first search loads Polars
@given(st.lists(_TEXTS, max_size=6), st.lists(_TEXTS, max_size=6))
def test_the_search_for_many_finds_what_the_search_for_one_finds(
    texts: list[str], answers: list[str]
) -> None:
    expected = [
        (i, j)
        for i, text in enumerate(texts)
        for j, answer in enumerate(answers)
        if contains_answer(text, [answer])
    ]
    assert find_answers(texts, answers).rows() == expected


def test_texts_in_different_batches_keep_their_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.matching.BATCH_CHARACTERS", 5)
    assert find_answers(["a b", "a", "c", "", "b a"], ["a", "b"]).rows() == [
        (0, 0),
        (0, 1),
        (1, 0),
        (4, 0),
        (4, 1),
    ]
