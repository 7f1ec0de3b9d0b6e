"""``rankhouse measures``: what every measure promises."""

from __future__ import annotations

import click

from flows.printing import format_option


@click.command()
@click.argument("names", nargs=-1, metavar="[MEASURE]...")
@format_option
def command(names: tuple[str, ...], format: str) -> None:
    """Print the contract of every measure, or of those named.

    A contract holds the formula, the range, what happens at the edges, the source and the
    version; results are stored with it.

    Example: rankhouse measures ndcg@10 evidence_recall@2000chars
    """
    from flows.printing import print_rows
    from flows.printing_contracts import print_contracts
    from schemas.families import FAMILIES
    from schemas.measures import Measure

    families = [Measure.parse(name).family for name in names] or list(FAMILIES)
    if format == "table":
        print_contracts(families)
    else:
        from flows.printing_contracts import COLUMNS, contract_rows

        print_rows(contract_rows(families), COLUMNS, format=format)
