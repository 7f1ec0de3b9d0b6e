"""What is said night by night: when a loss opens, changes or closes, and not between."""

from datetime import date

import pytest

from warehouse.incidents import WELL, OpenLoss, Standing, find_incident


def standing(word: str, night: int) -> Standing:
    """``a``, ``b``: measures that lost; ``A``: the first against the pinned run; ``!``: failed."""
    kinds = {"a": ("previous", "ndcg@10"), "b": ("previous", "rr@10"), "A": ("pinned", "ndcg@10")}
    since = date(2026, 11, 1 + night)
    losses = tuple(OpenLoss(*kinds[letter], since) for letter in word if letter in kinds)
    return Standing(losses, has_failed="!" in word)


@pytest.mark.parametrize(
    ("nights", "said"),
    [
        (". . . .", ". . . ."),
        ("a a a .", "opened . . closed"),
        ("a ab ab b .", "opened changed . changed closed"),
        ("a aA A .", "opened changed changed closed"),  # the pinned run's loss is another
        ("! ! .", "opened . closed"),
        ("! a .", "opened changed closed"),
        ("a a! a .", "opened changed changed closed"),  # nobody knows whether it is still there
        (". a . a", ". opened closed opened"),
    ],
)
def test_what_every_night_says(nights: str, said: str) -> None:
    told, heard = WELL, []
    for number, word in enumerate(nights.split()):
        incident = find_incident("docs", None, now=standing(word, number), told=told)
        heard.append("." if incident is None else incident.change)
        told = told if incident is None else incident.now
    assert heard == said.split()


@pytest.mark.parametrize(
    ("nights", "delivered", "said"),
    [
        ("a a a", "no no yes", "opened opened opened"),  # again until somebody has heard
        ("a a .", "yes no no", "opened . closed"),
        ("a . .", "no no no", "opened . ."),  # it opened and closed unheard: nothing is left to say
        ("a ab .", "yes no no", "opened changed closed"),
        ("a . a", "yes no yes", "opened closed ."),  # nobody heard that it had closed
    ],
)
def test_what_was_not_delivered_is_said_again_while_it_is_so(
    nights: str, delivered: str, said: str
) -> None:
    told, heard = WELL, []
    for number, (word, has_come) in enumerate(zip(nights.split(), delivered.split(), strict=True)):
        incident = find_incident("docs", None, now=standing(word, number), told=told)
        heard.append("." if incident is None else incident.change)
        if incident is not None and has_come == "yes":
            told = incident.now
    assert heard == said.split()


def test_a_standing_comes_back_from_an_event() -> None:
    now = standing("aA!", 3)
    assert Standing.from_json(now.to_json()) == now


def test_a_loss_that_is_dated_anew_is_no_news() -> None:
    assert standing("ab", 1).change_since(standing("ba", 7)) is None
