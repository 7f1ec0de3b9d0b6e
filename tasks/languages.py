"""What the lexical judge and the extractive generator know of English, French and Chinese."""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["en", "fr", "zh"]

HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
UNSPACED = HAN + "\u30a0-\u30ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Characters (for a regular expression's set) of scripts without spaces between words, but for
hiragana, which in Japanese is mostly endings and particles: what stands between the words."""

_MARKS = "\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0971-\u0dff"
_LETTER = rf"(?:[^\W\d_\u3040-\u309f{UNSPACED}]|[{_MARKS}])"
WORD = re.compile(rf"{_LETTER}(?:{_LETTER}|\d)*(?:-(?:{_LETTER}|\d)+)*")
"""A word of a script with spaces: COVID-19 is one; an apostrophe ends it (l'Europe, don't)."""

_ENGLISH = """a about above according after again against all almost also although always am
among an and another any are aren around as at be because been before being below between both
but by called can cannot could did didn do does doesn doing don done down during each early
either else even ever every few first five for four from further had hadn has hasn have haven
having he her here hers herself him himself his how however i if in instead into is isn it its
itself just last least less let like ll made make makes many may me might more most much must my
myself near need neither never new next no nor not now of off often on once one only onto or
other others our ours ourselves out over own per perhaps quite rather re same second several
shall she should shouldn since so some such than that the their theirs them themselves then there
therefore these they this those though three through thus to too toward two under unless until up
upon us use used using ve very via was wasn we well were weren what when where whether which
while who whom whose why will with within without won would wouldn yes yet you your yours
yourself"""

_FRENCH = """à ai ainsi alors après as au aucun aucune aujourd aussi autre autres aux avaient
avait avant avec avez avoir avons beaucoup bien c car ce ceci cela celle celles celui cent
cependant ces cet cette ceux chaque chez ci comme comment contre d dans de depuis des deux devant
doit doivent donc dont du elle elles en encore entre es est et étaient était étant été être eu
eux fait faire fois font fut hui il ils j jamais je jusqu l la là laquelle le lequel les lesquels
leur leurs lors lorsqu lorsque lui m ma mais me même mêmes mes moi moins mon n ne ni non nos
notre nous on ont or ou où par parce parmi pas pendant peu peut peuvent plus plusieurs pour
pourquoi pouvait près puis puisqu puisque qu quand que quel quelle quelles quelque quelques quels
qui quoi s sa sans se selon sera seront ses si sinon soit son sont sous souvent suis sur t ta
tandis te tel telle telles tels tes toi ton toujours tous tout toute toutes très trois trop tu un
une vers via voici voilà vos votre vous y"""

ENGLISH_STOP_WORDS = frozenset(_ENGLISH.split())
FRENCH_STOP_WORDS = frozenset(_FRENCH.split())
STOP_WORDS = ENGLISH_STOP_WORDS | FRENCH_STOP_WORDS
"""Words that carry no content in either language; a text may mix them."""

CHINESE_STOP_CHARACTERS = (
    "的了是在与及或也就都但被把这那其之并且很最更又再还只我你他她它们吗呢吧啊着"
)
"""No content word of Chinese begins or ends with one of these, or nearly none."""

CHINESE_STOP_WORDS = frozenset(
    "同时 因为 所以 但是 如果 由于 以及 可以 这些 那些 其中 关于 通过 "
    "进行 没有 一个 一种 一些 包括 根据 之一 使用 提供 例如 然而 因此 "
    "虽然 其他 许多 非常 需要 认为 成为 来自 来源于 字面意思 必须 如何 以下 "
    "或者 并且 已经 可能 不同 所有 任何 每个 一次 两次 第一 第二 不是 "
    "就是".split()
)

_SHARE_OF_HAN = 0.2


def language_of(text: str) -> Language:
    """The language whose marks are most frequent; English where there are none."""
    n_han = sum(map(len, re.findall(f"[{HAN}]+", text)))
    words = [word.lower() for word in WORD.findall(text)]
    if n_han > _SHARE_OF_HAN * (n_han + sum(map(len, words))):
        return "zh"
    n_french = sum(word in FRENCH_STOP_WORDS for word in words)
    n_english = sum(word in ENGLISH_STOP_WORDS for word in words)
    return "fr" if n_french > n_english else "en"
