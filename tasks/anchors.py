"""The judge's anchor: fixed contexts, responses and questions, judged anew each night.

What was judged stays the same, so what moves is the judge. A set is JSONL, an item a line::

    {"anchor_id": "a1", "contexts": ["…"], "response": "…", "questions": ["…?", "…?"]}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import Field, ValidationError

from schemas.errors import InputError
from schemas.experiment import Summary, digest_of
from schemas.sections import Section
from tasks.gathering import join_contexts
from tasks.judging import Answer, Failure, Judge, Question
from tasks.questioning import answer_questions
from tasks.summarizing import combine_score

BUILT_IN = "anchor.jsonl"  # never edit an item: its nights could not be compared


class AnchorItem(Section):
    """One response with the questions that it is asked."""

    anchor_id: Annotated[str, Field(min_length=1)]
    contexts: Annotated[tuple[str, ...], Field(min_length=1)]
    response: Annotated[str, Field(min_length=1)]
    questions: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """What the judge said of one item."""

    anchor_id: str
    answers: tuple[str | None, ...]  # "101" a time it was asked; None: it could not be judged
    score: float | None  # summary score of the first time
    message: str | None  # why it could not


def read_anchor(path: str | None) -> list[AnchorItem]:
    """The items of a file, or the built-in ones.

    Raises:
        InputError: the file cannot be read, is empty, or a line of it is no item.
    """
    if path is None:
        text = files("tasks").joinpath(BUILT_IN).read_text("utf-8")
    else:
        try:
            text = Path(path).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            message = f"the judge's anchor cannot be read: {reason}"
            raise InputError(message, path=path) from None
    items: list[AnchorItem] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            items.append(_item(line, path, number))
    names = [item.anchor_id for item in items]
    if not items:
        raise InputError("the judge's anchor holds no item", path=path)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"anchor_id {twice[0]!r} stands there twice", path=path)
    return items


def _item(line: str, path: str | None, number: int) -> AnchorItem:
    try:
        return AnchorItem.model_validate_json(line)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        raise InputError(
            f'{key}: {fault["msg"]}; expected {{"anchor_id": "…", "contexts": ["…"], '
            '"response": "…", "questions": ["…?"]}',
            path=path,
            line=number,
        ) from None


def digest_of_anchor(items: Sequence[AnchorItem]) -> str:
    """What must be equal for two nights of a judge to be compared."""
    return digest_of([item.model_dump(mode="json") for item in items])


def judge_anchor(
    items: Sequence[AnchorItem], judge: Judge, config: Summary, *, night: str, n_repeats: int
) -> list[JudgedItem]:
    """Ask the judge the questions of every item, ``n_repeats`` times more than once.

    Its calls are stored under the samples ``anchor/NIGHT`` and ``anchor/NIGHT/1``, …: a night
    that is run again asks nothing twice, and another night asks everything anew.
    """
    todo = [(item.response, [Question(question) for question in item.questions]) for item in items]
    samples = [f"anchor/{night}", *(f"anchor/{night}/{k}" for k in range(1, n_repeats + 1))]
    outcomes = [answer_questions(judge.sampled(sample), todo) for sample in samples]
    return [
        _judged(item, given, config)
        for item, given in zip(items, zip(*outcomes, strict=True), strict=True)
    ]


def _judged(
    item: AnchorItem, outcomes: Sequence[list[Answer] | Failure], config: Summary
) -> JudgedItem:
    answers = tuple(
        None if isinstance(given, Failure) else "".join(answer.value for answer in given)
        for given in outcomes
    )
    first = outcomes[0]
    if isinstance(first, Failure):
        return JudgedItem(item.anchor_id, answers, None, f"{first.status}: {first.message}")
    score = combine_score(
        n_answered=sum(answer.value == "1" for answer in first),
        n_questions=len(first),
        n_characters_summary=len(item.response),
        n_characters_contexts=len(join_contexts(list(item.contexts))),
        coeff=config.coeff,
        length_penalty=config.length_penalty,
    )
    return JudgedItem(item.anchor_id, answers, score.summary_score, None)


def frame_of_anchor(judged: Sequence[JudgedItem]) -> pl.DataFrame:
    """A row an item."""
    return pl.DataFrame(
        [(item.anchor_id, list(item.answers), item.score, item.message) for item in judged],
        schema={
            "anchor_id": pl.String,
            "answers": pl.List(pl.String),
            "score": pl.Float64,
            "message": pl.String,
        },
        orient="row",
    )


def figures_of_anchor(items: Sequence[AnchorItem], judged: Sequence[JudgedItem]) -> dict[str, Any]:
    """What the warehouse keeps of a night, for ``warehouse.anchors``."""
    scores = [item.score for item in judged if item.score is not None]
    return {
        "anchor": digest_of_anchor(items),
        "n_items": len(items),
        "n_failed_items": len(items) - len(scores),
        "score": sum(scores) / len(scores) if scores else None,
        "scores": {item.anchor_id: item.score for item in judged},
        "answers": {item.anchor_id: list(item.answers) for item in judged},
    }
