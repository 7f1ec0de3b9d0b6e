"""Where figures, names and words stand in a text; English, French and Chinese, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tasks.languages import CHINESE_STOP_CHARACTERS, HAN, STOP_WORDS, UNSPACED, WORD

Spotted = tuple[int, str]
"""The position of a phrase, and the phrase as it stands there."""

_LONGEST_NAME = 8  # words
_CONNECTORS = frozenset("of the de du des la le les d von van der al bin".split())
_SENTENCE_ENDS = frozenset(".!?:;…。！？：；\n\r•*#|>–—")
_OPENERS = frozenset(" \t\u00a0\"'“”‘’«»()[]（）「」『』-_")

_MONTHS = (
    "January|February|March|April|May|June|July|August|September|October|November|December|"
    "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
)
_NUMBER = r"\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+(?:[.,:/–-]\d+)*"
_SCALE = (
    r"(?:percent|per cent|pour cent|hundred|thousand|(?:m|b|tr)illions?|milliers?|milliards?)\b"
)
_CHINESE_UNIT = (
    "[万亿千百]*(?:美元|欧元|元|天|年|小时|分钟|公里|米|吨|人|名|个|岁|次|种|家|倍|%|％)"
)
_FIGURES = re.compile(
    # Chinese dates and shares, Western dates, then anything else that is counted or paid
    r"\d{4} ?年(?: ?\d{1,2} ?月(?: ?\d{1,2} ?[日号])?)?|\d{1,2} ?月 ?\d{1,2} ?[日号]"
    r"|百分之[〇零一二三四五六七八九十百点\d]+"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er)? (?:of )?(?:{_MONTHS})(?: \d{{4}})?\b"
    rf"|\b(?:{_MONTHS}) \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b|\b(?:{_MONTHS}) \d{{4}}\b"
    rf"|(?P<currency>[$€£¥] ?)?(?:{_NUMBER})"
    rf"(?P<unit>[ \u00a0]?[%％€£$]|[ \u00a0]{_SCALE}| ?{_CHINESE_UNIT})?"
    rf"(?P<noun> [^\W\d_{UNSPACED}]{{3,}})?"
)


def spot_figures(text: str) -> Iterator[Spotted]:
    """Dates, amounts, shares and numbers with the noun that they count."""
    for match in _FIGURES.finditer(text):
        phrase, noun = match[0], match["noun"]
        is_bare = not match["currency"] and not match["unit"]
        number = phrase.removesuffix(noun or "").strip()
        is_year = re.fullmatch(r"1\d{3}|20\d{2}", number) is not None
        if noun and (is_year or not is_bare or noun.strip().lower() in STOP_WORDS):
            phrase, noun = number, None
        if len(phrase) > 1 or not number.isdigit():
            yield match.start(), phrase.strip()


def spot_titles(text: str) -> Iterator[Spotted]:
    """Chinese titles in their marks, and transliterated names with a middle dot."""
    letters = f"[{HAN}]"
    for match in re.finditer(
        rf"《([^《》\n]{{1,40}})》|{letters}{{1,20}}(?:·{letters}{{1,20}})+", text
    ):
        phrase = match[1] or re.split(f"[{CHINESE_STOP_CHARACTERS}]", match[0])[-1]
        if "·" in phrase or match[1]:
            yield match.start(), phrase


def spot_words(text: str) -> Iterator[Spotted]:
    """Words of three letters or more that carry content."""
    for match in WORD.finditer(text):
        if len(match[0]) > 2 and match[0].lower() not in STOP_WORDS:
            yield match.start(), match[0]


def spot_names(text: str) -> Iterator[Spotted]:
    """Runs of capitalised words; a word at a sentence's beginning has to show more than that."""
    words = list(WORD.finditer(text))
    seen_inside = {
        word[0]
        for word in words
        if word[0][0].isupper() and not _begins_sentence(text, word.start())
    }
    index = 0
    while index < len(words):
        last = _name_end(text, words, index)
        run = words[index : last + 1]
        index = last + 1
        if len(run) > 1 and run[1][0] in _CONNECTORS and run[0][0] not in seen_inside:
            run = run[1:]  # "Employees of Acme": the first word may only begin the sentence
        while run and run[0][0].lower() in STOP_WORDS:
            run = run[1:]
        if not run or not run[0][0][0].isupper():
            continue
        only = run[0][0]
        if len(run) == 1 and re.fullmatch(_MONTHS, only):
            continue
        is_certain = len(run) > 1 or only in seen_inside or any(c.isupper() for c in only[1:])
        if is_certain and run[-1].end() - run[0].start() > 1:
            yield run[0].start(), text[run[0].start() : run[-1].end()]


def _name_end(text: str, words: list[re.Match[str]], first: int) -> int:
    """The index of the last word of the name that begins at ``first``."""
    if not words[first][0][0].isupper():
        return first
    last = first
    for index in range(first + 1, min(len(words), first + _LONGEST_NAME)):
        gap = text[words[index - 1].end() : words[index].start()]
        if gap not in (" ", "\u00a0", "'", "’"):
            break
        if words[index][0][0].isupper():
            last = index
        elif words[index][0] not in _CONNECTORS:
            break
    return last


def _begins_sentence(text: str, position: int) -> bool:
    position -= 1
    while position >= 0 and text[position] in _OPENERS:
        position -= 1
    return position < 0 or text[position] in _SENTENCE_ENDS
