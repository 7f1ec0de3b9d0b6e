"""A measure is a value, ``family@cutoff(parameter=number)``: it parses, prints, sorts, hashes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Literal

from schemas.contracts import Contract, Family, LabelMethod, Parameter
from schemas.errors import UsageError
from schemas.families import FAMILIES

LARGEST_CUTOFF = 1_000_000_000
MEASURE_PATTERN = r"^[a-z][a-z0-9_]*(@[1-9][0-9]*(chars)?)?(\([a-z_]+=[0-9.e+-]+\))?$"
"""What every canonical name matches; for the tables' models."""

_WRITTEN = re.compile(
    r"(?P<family>[^@()\s]+)(?:@(?P<cutoff>[^@()\s]*))?(?:\((?P<parameters>[^()]*)\))?"
)


class MeasureError(UsageError, ValueError):
    """A measure that does not exist, or cannot be computed here."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Measure:
    """One measure; ``str`` gives the canonical name under which its values are stored.

    Parameters are always printed, so that a stored name never leans on a default.
    """

    family: str
    cutoff: int | None = None
    unit: Literal["items", "chars"] = "items"
    parameters: tuple[tuple[str, float], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Measure:
        """Read a measure as people write it.

        Raises:
            MeasureError: an unknown family (the nearest are named), a cutoff or parameter that
                the family does not take or that is out of range.
        """
        match = _WRITTEN.fullmatch(text.strip())
        if match is None:
            raise MeasureError(
                f"measure {text!r}: expected family@cutoff(parameter=number), "
                "such as ndcg@10, rbp(p=0.8) or err@20(max_grade=4)"
            )
        name, written = match["family"], match["cutoff"]
        family = FAMILIES.get(name)
        if family is None:
            from schemas.foreign_names import nearest

            raise MeasureError(f"measure {text!r}: there is no {name!r}; {nearest(name)}")
        cutoff, unit = _parse_cutoff(text, name, family, written)
        return cls(name, cutoff, unit, _parse_parameters(text, name, family, match["parameters"]))

    def __str__(self) -> str:
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        unit = "chars" if self.unit == "chars" else ""
        inner = ", ".join(f"{name}={number!r}" for name, number in self.parameters)
        return f"{self.family}{cutoff}{unit}{f'({inner})' if inner else ''}"

    def __lt__(self, other: Measure) -> bool:
        return self._sort_key < other._sort_key

    @property
    def _sort_key(self) -> tuple[str, str, int, tuple[tuple[str, float], ...]]:
        return (self.family, self.unit, self.cutoff or 0, self.parameters)

    @property
    def contract(self) -> Contract:
        """Formula, range, edge policy, source and version."""
        return FAMILIES[self.family].contract

    def parameter(self, name: str) -> float:
        """The value of one parameter."""
        return dict(self.parameters)[name]

    def check_fits(self, *, depth: int, label_method: LabelMethod) -> None:
        """Refuse what an experiment of this depth and label method cannot compute.

        Raises:
            MeasureError: no cutoff where the family has one, a cutoff beyond ``depth``, labels
                that the measure is not defined on, or a measure of another part of Rankhouse.
        """
        family = FAMILIES[self.family]
        if family.scope == "summary":
            raise MeasureError(
                f"measure {self}: it is not listed under measures; a [summary] section gives it"
            )
        if family.scope == "trec":
            instead = {"set_precision": "precision_returned", "set_recall": "recall"}
            raise MeasureError(
                f"measure {self}: sets without a cutoff are for `rankhouse trec`; "
                f"write {instead.get(self.family, 'f1')}@{depth}"
            )
        if family.cutoff != "none" and self.cutoff is None:
            raise MeasureError(
                f"measure {self}: an experiment needs a cutoff, such as {self.family}@{depth}"
            )
        if self.unit == "items" and self.cutoff is not None and self.cutoff > depth:
            raise MeasureError(
                f"measure {self}: the cutoff is beyond retrieval.depth, which is {depth}; "
                f"raise the depth or write {self.family}@{depth}"
            )
        if label_method not in family.labels:
            raise MeasureError(
                f"measure {self}: it needs labelling.method = "
                f"{' or '.join(repr(method) for method in sorted(family.labels))}, "
                f"but the method is {label_method!r}"
            )

    def check_files(self) -> None:
        """Refuse what cannot be computed from a qrels and a run file (``rankhouse trec``).

        Raises:
            MeasureError: the measure needs texts, or scores summaries.
        """
        if FAMILIES[self.family].scope in ("experiment", "summary"):
            raise MeasureError(
                f"measure {self}: it needs the corpus and cannot be computed from a qrels and a "
                "run file; `rankhouse measures` lists those that can"
            )


def _parse_cutoff(
    text: str, name: str, family: Family, written: str | None
) -> tuple[int | None, Literal["items", "chars"]]:
    if written is None:
        if family.cutoff == "required":
            example = f"{name}@2000chars or {name}@10" if family.takes_characters else f"{name}@10"
            raise MeasureError(f"measure {text!r}: {name} needs a cutoff, such as {example}")
        return None, "items"
    if family.cutoff == "none":
        raise MeasureError(f"measure {text!r}: {name} takes no cutoff; write {name}")
    unit: Literal["items", "chars"] = "items"
    digits = written
    if family.takes_characters and written.endswith("chars"):
        unit, digits = "chars", written.removesuffix("chars")
    # Longer than ten digits is out of range: int() of a very long text would be slow or refused.
    is_number = re.fullmatch(r"0*[1-9][0-9]{0,9}", digits) is not None
    if not is_number or int(digits) > LARGEST_CUTOFF:
        raise MeasureError(
            f"measure {text!r}: the cutoff is {written!r}; "
            f"expected a whole number from 1 to {LARGEST_CUTOFF}"
        )
    return int(digits), unit


def _parse_parameters(
    text: str, name: str, family: Family, written: str | None
) -> tuple[tuple[str, float], ...]:
    known = dict(family.parameters)
    if written is not None and not known:
        raise MeasureError(f"measure {text!r}: {name} takes no parameters")
    given: dict[str, float] = {}
    for part in written.split(",") if written is not None else ():
        key, _, number = (piece.strip() for piece in part.partition("="))
        if key not in known or key in given:
            expected = ", ".join(f"{parameter}=…" for parameter in known)
            raise MeasureError(f"measure {text!r}: expected {name}({expected}), each once")
        given[key] = _parse_number(text, key, known[key], number)
    return tuple((key, given.get(key, known[key].default)) for key in sorted(known))


def _parse_number(text: str, key: str, parameter: Parameter, written: str) -> float:
    fault = MeasureError(f"measure {text!r}: {key} is {written!r}; expected {parameter.expected}")
    if re.fullmatch(r"[0-9]{0,20}\.?[0-9]{0,20}(e[+-]?[0-9]{1,3})?", written) is None:
        raise fault
    try:
        number = int(written) if parameter.is_whole else float(written)
    except ValueError:
        raise fault from None
    at_edge = number in (parameter.lowest, parameter.highest) and not parameter.is_whole
    if at_edge or not parameter.lowest <= number <= parameter.highest:
        raise fault
    return number
