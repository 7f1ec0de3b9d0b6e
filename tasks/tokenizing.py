"""Texts into the terms that BM25 counts, in any script.

A text is normalised (NFKC, case folded) and cut at whatever is no letter, digit or combining mark.
Words lose their stop words and are stemmed by the rules of one language (Snowball). Scripts without
spaces between words, and Hangul, whose particles cling to the noun, give each character and each
pair of neighbours, as Lucene's CJKBigramFilter does with ``outputUnigrams``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise

from schemas.lexical_retrieval import Bm25
from tasks.languages import HAN

STEMMERS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque",
    "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
"""Snowball's names; Chinese, Japanese and Korean are not stemmed."""

STOP_WORDS = {
    "da": "DANISH", "de": "GERMAN", "en": "EN", "es": "SPANISH", "fr": "FRENCH", "it": "ITALIAN",
    "ko": "KOREAN", "nl": "DUTCH", "no": "NORWEGIAN", "pt": "PORTUGUESE", "ru": "RUSSIAN",
    "sv": "SWEDISH", "tr": "TURKISH", "zh": "CHINESE",
}  # fmt: skip
"""The lists of bm25s; the English one is Lucene's. Other languages keep their stop words, which
weigh little since they are frequent."""

MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd"
    "\u0a01-\u0a03\u0a3c-\u0a4d\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b4d\u0b82"
    "\u0bbe-\u0bcd\u0c00-\u0c04\u0c3e-\u0c4d\u0c81-\u0c83\u0cbc-\u0ccd\u0d00-\u0d03\u0d3b-\u0d4d"
    "\u0d81-\u0d83\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
    "\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u3099\u309a"
)
"""Combining marks of the scripts above: parts of a word that ``\\w`` does not know as such."""

GRAMS = (
    f"{HAN}\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf"
    "\u1100-\u11ff\uac00-\ud7a3\ua000-\ua48c\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0"
    "\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u1780-\u17b3\u17d7"
)
"""Letters of scripts that are cut into characters and pairs."""

_CHARACTER = re.compile(f"[{GRAMS}][{MARKS}]*")
_TOKEN = re.compile(rf"((?:[{GRAMS}][{MARKS}]*)+)|((?:[^\W_{GRAMS}][{MARKS}]*)+)")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")  # hyphenation, joiners, direction
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc]")
_ENGLISH_ENDINGS = frozenset({"ll", "re", "ve"})  # after an apostrophe: we'll, we're, we've


class Tokenizer:
    """Cuts texts into terms by the settings of one section; not for several threads at once.

    Args:
        config: ``language``, ``stem`` and ``stop_words``.
    """

    def __init__(self, config: Bm25):
        self._is_english = config.language == "en"
        self._drops_stop_words = config.stop_words and config.language != "none"
        self._stop_words = _stop_words(config.language) if self._drops_stop_words else frozenset()
        self._stem = _stemmer(config.language) if config.stem else None
        self._known: dict[str, str] = {}  # a word's term, "" for none: words recur

    def __call__(self, text: str) -> list[str]:
        """The terms of a text in its order, each as often as it stands there."""
        return [term for form in _forms(text, self._is_fragment) if (term := self._term(form))]

    def _term(self, form: str) -> str:
        term = self._known.get(form)
        if term is None:
            term = "" if form in self._stop_words else form
            if term and self._stem is not None:
                term = self._stem(term)
            self._known[form] = term
        return term

    def _is_fragment(self, word: str, before: str, after: str) -> bool:
        """Whether it is what an elision or a possessive leaves: l'Europe, dog's, we'll."""
        if not self._drops_stop_words or "'" not in (before, after):
            return False
        return len(word) == 1 or (before == "'" and self._is_english and word in _ENGLISH_ENDINGS)


def _forms(text: str, is_fragment: Callable[[str, str, str], bool]) -> Iterator[str]:
    """Words, characters and pairs of neighbours, before stop words and stemming."""
    text = _normalised(text)
    for match in _TOKEN.finditer(text):
        run, word = match.groups()
        if word is not None:
            start, end = match.span()
            before, after = text[max(start - 1, 0) : start], text[end : end + 1]
            if not is_fragment(word, before, after):
                yield word
            continue
        characters = _CHARACTER.findall(run)
        yield from characters
        yield from map("".join, pairwise(characters))


def _normalised(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Case folding can undo the composition (İ becomes i and a combining dot), hence twice.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _APOSTROPHES.sub("'", _INVISIBLE.sub("", folded))


def _stop_words(language: str) -> frozenset[str]:
    if language not in STOP_WORDS:
        return frozenset()
    from bm25s import stopwords

    words: tuple[str, ...] = getattr(stopwords, f"STOPWORDS_{STOP_WORDS[language]}")
    return frozenset(map(_normalised, words))


def _stemmer(language: str) -> Callable[[str], str] | None:
    if language not in STEMMERS:
        return None
    from Stemmer import Stemmer

    stem: Callable[[str], str] = Stemmer(STEMMERS[language]).stemWord
    return stem
