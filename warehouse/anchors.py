"""Whether a judge is still the judge that it was: its answers about a fixed set, night by night.

Nothing but the judge can move them. Two nights are paired by question. A judge that merely wavers
flips answers both ways; how many flips a night brings is learnt from its repeats and from the
nights before, and the judge has moved where the answers' balance moved more than that explains.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from warehouse.queries import among

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

JUDGED_MEASURES = ("summary_score", "qa")
"""What rests on the judge's answers; conciseness does not."""
MOST_NIGHTS = 60  # that the noise is learnt from


@dataclass(frozen=True, slots=True)
class AnchorNight:
    """What the judge answered in one run."""

    run_id: str
    night: str
    anchor: str  # digest of the items
    judge: str  # version
    alpha: float
    answers: Mapping[str, Sequence[str | None]]  # item to "101" a time it was asked

    def is_like(self, other: AnchorNight) -> bool:
        """Whether the same judge, by name, was asked the same."""
        return (self.anchor, self.judge) == (other.anchor, other.judge)


@dataclass(frozen=True, slots=True)
class Flips:
    """Answers that differ between two times that the anchor was judged."""

    n_questions: int = 0  # answered both times
    to_no: int = 0
    to_yes: int = 0

    @property
    def n(self) -> int:
        """All of them."""
        return self.to_no + self.to_yes


@dataclass(frozen=True, slots=True)
class Noise:
    """Flips of a judge that did not move: ``n_flips`` over ``n_pairs`` pairs of times."""

    n_flips: int = 0
    n_pairs: int = 0

    def with_pair(self, flips: Flips) -> Noise:
        """One pair more."""
        return Noise(self.n_flips + flips.n, self.n_pairs + 1) if flips.n_questions else self


@dataclass(frozen=True, slots=True)
class Move:
    """A judge that is no longer the one that it was."""

    since: str  # the night that it is compared with
    flips: Flips
    p: float

    def __str__(self) -> str:
        flips = self.flips
        return (
            f"the judge moved since {self.since}: of {flips.n_questions} answers about its anchor "
            f"{flips.to_no} went from yes to no and {flips.to_yes} from no to yes, p = {self.p:.2g}"
        )


def count_flips(ours: Mapping[str, str | None], theirs: Mapping[str, str | None]) -> Flips:
    """Compare answers, item to "101"; what failed either time is left out."""
    pairs = [
        (now, then)
        for name in ours.keys() & theirs.keys()
        for now, then in zip(ours[name] or "", theirs[name] or "", strict=False)
    ]
    return Flips(len(pairs), pairs.count(("0", "1")), pairs.count(("1", "0")))


def p_of_flips(flips: Flips, noise: Noise) -> float:
    """Chance that a judge which only wavers moves the balance at least that far, either way.

    The number of flips a pair of nights is Poisson with a rate of Gamma posterior under Jeffreys'
    prior: K is negative binomial with size ``n_flips + 1/2`` and success ``n_pairs / (n_pairs +
    1)``. Each flip goes either way with probability 1/2. With no pair to learn from, K is what was
    seen: McNemar's exact test.
    """
    balance = abs(flips.to_no - flips.to_yes)
    if balance == 0:
        return 1.0
    if noise.n_pairs == 0:
        return _tail_of_walk(flips.n, balance)
    size, stays = noise.n_flips + 0.5, noise.n_pairs / (noise.n_pairs + 1)
    total, below = 0.0, 0.0
    for k in range(flips.n_questions + 1):
        log = math.lgamma(size + k) - math.lgamma(size) - math.lgamma(k + 1)
        chance = math.exp(log + size * math.log(stays) - k * math.log(noise.n_pairs + 1))
        below += chance
        total += chance * _tail_of_walk(k, balance)
    return min(1.0, total + max(0.0, 1.0 - below))  # more flips than questions: counted in full


def _tail_of_walk(n: int, balance: int) -> float:
    """P(|S| >= balance) after n fair steps of one; ``balance`` is at least 1."""
    steps = range(math.ceil((n + balance) / 2), n + 1)
    ways = sum(math.comb(n, up) for up in steps)
    return min(1.0, float(2 * ways / 2**n))


def find_move(ours: AnchorNight, theirs: AnchorNight, noise: Noise) -> Move | None:
    """How the judge moved between two nights; None: not more than it wavers, or not known."""
    if not ours.is_like(theirs):
        return None
    flips = count_flips(_first(ours), _first(theirs))
    p = p_of_flips(flips, noise)
    return Move(theirs.night, flips, p) if p <= ours.alpha else None


def learn_noise(nights: Iterable[AnchorNight]) -> tuple[Noise, dict[str, Move]]:
    """How much a judge wavers, and in which runs it had moved since the one before.

    Args:
        nights: of one experiment, oldest first. A pair between which the judge moved teaches
            nothing about how it wavers.
    """
    noise, moves = Noise(), dict[str, Move]()
    before: AnchorNight | None = None
    for night in nights:
        if before is None or not night.is_like(before):
            noise = _with_repeats(Noise(), night)
        else:
            noise = _with_repeats(noise, night)
            move = find_move(night, before, noise)
            if move is None:
                noise = noise.with_pair(count_flips(_first(night), _first(before)))
            else:
                moves[night.run_id] = move
        before = night
    return noise, moves


def find_moves(
    connection: DuckDBPyConnection, run_id: str, baseline_ids: Sequence[str]
) -> dict[str, Move]:
    """The runs of a baseline whose judge is not that of the run any more."""
    nights = {night.run_id: night for night in read_anchors(connection, [run_id, *baseline_ids])}
    ours = nights.get(run_id)
    if ours is None or len(nights) == 1:
        return {}
    noise, _ = learn_noise(night for night in read_past(connection, run_id) if night.is_like(ours))
    noise = _with_repeats(noise, ours)
    moves = {name: find_move(ours, nights[name], noise) for name in nights if name != run_id}
    return {name: move for name, move in moves.items() if move is not None}


def read_noise(connection: DuckDBPyConnection, run_id: str) -> dict[str, float]:
    """Measure to the standard deviation, per query, of judging again, as a run measured it."""
    row = connection.execute(
        "SELECT figures FROM stages WHERE run_id = ? AND stage = 'judge_again'", [run_id]
    ).fetchone()
    found: dict[str, float] = {} if row is None else json.loads(row[0] or "{}").get("noise", {})
    return found


def read_anchors(connection: DuckDBPyConnection, run_ids: Sequence[str]) -> list[AnchorNight]:
    """Those of some runs, in the order of their nights."""
    rows = connection.execute(
        f"{_ANCHORS} AND {among('run.run_id', run_ids)} ORDER BY run.logical_date, run.run_id"
    ).fetchall()
    return [_night(*row) for row in rows]


def read_past(connection: DuckDBPyConnection, run_id: str) -> list[AnchorNight]:
    """Those of the same experiment before a run, at most ``MOST_NIGHTS``, oldest first."""
    rows = connection.execute(
        f"{_ANCHORS} AND run.experiment = (SELECT experiment FROM runs WHERE run_id = ?) "  # noqa: S608
        "AND run.run_id < ? ORDER BY run.logical_date DESC, run.run_id DESC LIMIT ?",
        [run_id, run_id, MOST_NIGHTS],
    ).fetchall()
    return [_night(*row) for row in reversed(rows)]


_ANCHORS = """
SELECT run.run_id, run.logical_date, stage.figures
FROM stages AS stage JOIN runs AS run ON run.run_id = stage.run_id
WHERE stage.stage = 'judge_anchor' AND stage.status = 'completed'
"""


def _night(run_id: str, night: Any, figures: str) -> AnchorNight:
    found = json.loads(figures)
    return AnchorNight(
        run_id, str(night), found["anchor"], found["judge"], found["alpha"], found["answers"]
    )


def _first(night: AnchorNight) -> dict[str, str | None]:
    return {name: given[0] for name, given in night.answers.items()}


def _with_repeats(noise: Noise, night: AnchorNight) -> Noise:
    """The flips between the times that one night asked."""
    n_times = max((len(given) for given in night.answers.values()), default=0)
    times = [
        {name: given[index] for name, given in night.answers.items()} for index in range(n_times)
    ]
    for earlier, later in pairwise(times):
        noise = noise.with_pair(count_flips(later, earlier))
    return noise
