"""What calls cost: tokens, money by a dated price table, and the budget that ends a stage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from schemas.endpoints import Budget, Price
from tasks.calls import Usage

MILLION = 1_000_000
_WIDE = re.compile(
    "[\u0e00-\u0eff\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]"
)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is, without the model's tokenizer.

    One for each character of a script without spaces, one for four of ASCII, one for two of any
    other: on the high side for today's tokenizers.
    """
    n_wide = len(_WIDE.findall(text))
    n_ascii = len(text.encode("ascii", "ignore"))
    n_other = len(text) - n_wide - n_ascii
    return n_wide + -(-n_ascii // 4) + -(-n_other // 2)


def price_of(model: str, prices: Sequence[Price], day: date) -> Price | None:
    """The price of a model on a day: the newest that holds by then; None: not known."""
    held = [price for price in prices if price.model == model and price.since <= day]
    return max(held, key=lambda price: price.since, default=None)


def cost_of(usage: Usage, price: Price | None) -> float | None:
    """Money for these tokens; None: price or tokens are not known."""
    if price is None or usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    fresh = usage.prompt_tokens - cached
    total = fresh * price.input + cached * cached_price + usage.completion_tokens * price.output
    return total / MILLION


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls have cost so far; money only as far as prices are known."""

    calls: int = 0
    tokens: int = 0
    money: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.calls + other.calls, self.tokens + other.tokens, self.money + other.money)


@dataclass
class Ledger:
    """Keeps what one run spends within its budget.

    What is in flight is reserved by an estimate, so that many calls at once pass the budget by
    no more than the estimates were wrong.
    """

    budget: Budget | None = None
    prices: Sequence[Price] = ()
    spent: Spent = field(default_factory=Spent)
    reserved: Spent = field(default_factory=Spent)

    def reserve(self, model: str, n_prompt: int, n_completion: int) -> Spent | None:
        """Set aside what one more call is about to cost; None: the budget is reached."""
        usage = Usage(n_prompt, None, n_completion)
        money = cost_of(usage, price_of(model, self.prices, today())) or 0.0
        one = Spent(1, n_prompt + n_completion, money)
        if self.budget is not None:
            total = self.spent + self.reserved + one
            limits = (
                (self.budget.calls, total.calls),
                (self.budget.tokens, total.tokens),
                (self.budget.money, total.money),
            )
            if any(limit is not None and value > limit for limit, value in limits):
                return None
        self.reserved += one
        return one

    def settle(self, one: Spent, model: str, usage: Usage | None) -> None:
        """Replace a reservation by what the call did cost; None: it was not answered."""
        self.reserved += Spent(-one.calls, -one.tokens, -one.money)
        usage = usage or Usage()
        tokens = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        money = cost_of(usage, price_of(model, self.prices, today())) or 0.0
        self.spent += Spent(1, tokens, money)

    @property
    def message(self) -> str:
        """Which budget was reached."""
        budget = self.budget or Budget(calls=1)
        named = (("calls", budget.calls), ("tokens", budget.tokens), ("money", budget.money))
        limits = ", ".join(f"{value} {name}" for name, value in named if value is not None)
        return f"{budget.label} is reached ({limits}); what was answered is kept"


def today() -> date:
    """The day whose prices hold, in UTC."""
    return datetime.now(UTC).date()
