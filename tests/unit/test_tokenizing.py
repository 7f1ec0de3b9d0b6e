"""What BM25 counts: words without endings, single characters and pairs where no spaces stand."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.lexical_retrieval import Bm25
from tasks.tokenizing import Tokenizer


def terms(text: str, **settings: Any) -> list[str]:
    return Tokenizer(Bm25(**settings))(text)


def test_english_words_lose_endings_and_stop_words() -> None:
    # Snowball's English stemmer and Lucene's 33 stop words, by hand
    assert terms("The spring tides occur at new moons.") == [
        "spring",
        "tide",
        "occur",
        "new",
        "moon",
    ]


def test_french_words_lose_endings_and_stop_words() -> None:
    assert terms("Les bagages des passagers", language="fr") == ["bagag", "passager"]


def test_an_elision_leaves_no_fragment() -> None:
    assert terms("l'Europe d’aujourd'hui", language="fr", stem=False) == [
        "europe",
        "aujourd",
        "hui",
    ]
    assert terms("the dog's dish, we'll see", stem=False) == ["dog", "dish", "we", "see"]


def test_none_leaves_words_as_they_are_but_for_their_case() -> None:
    assert terms("The Dogs, l'An", language="none") == ["the", "dogs", "l", "an"]


def test_stemming_and_stop_words_can_each_be_left_out() -> None:
    assert terms("the dogs", stem=False) == ["dogs"]
    assert terms("the dogs", stop_words=False) == ["the", "dog"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("儿童票", ["儿", "童", "票", "儿童", "童票"]),
        ("票", ["票"]),
        ("票，船", ["票", "船"]),  # a comma ends the run
        ("トナー", ["ト", "ナ", "ー", "トナ", "ナー"]),
        ("ﾄﾅ", ["ト", "ナ", "トナ"]),  # half width
        ("서울에", ["서", "울", "에", "서울", "울에"]),
        ("船A票", ["船", "a", "票"]),
        ("ที่นี่", ["ที่", "นี่", "ที่นี่"]),  # a vowel sign and a tone stay with their consonant
    ],
)
def test_scripts_without_spaces_give_characters_and_pairs(text: str, expected: list[str]) -> None:
    assert terms(text, language="none") == expected


def test_chinese_stop_words_are_left_out() -> None:
    # 我, 们, 的 and 我们 are on the list
    assert terms("我们的船票", language="zh") == ["船", "票", "们的", "的船", "船票"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ＣＯＶＩＤ－19", ["covid", "19"]),
        ("STRASSE straße", ["strasse", "strasse"]),
        ("co\u00adoperate", ["cooperate"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी", ["हिन्दी"]),
        ("snake_case", ["snake", "case"]),
        ("…!?", []),
        ("", []),
    ],
)
def test_words_are_normalised_and_whole(text: str, expected: list[str]) -> None:
    assert terms(text, language="none") == expected
