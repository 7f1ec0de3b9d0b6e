"""Print the contracts of measures: as rows, or as a block of lines each."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import click

from schemas.families import FAMILIES

COLUMNS = (
    "measure",
    "formula",
    "lowest",
    "highest",
    "edge_policy",
    "source",
    "version",
    "cutoff",
    "labels",
    "where",
)

_WHERE = {
    "both": "experiments and rankhouse trec",
    "trec": "rankhouse trec",
    "experiment": "experiments",
    "summary": "experiments with a [summary] section",
}


def written(name: str) -> str:
    """How the measures of a family are written: ``ndcg[@k]``, ``rbp(p=0.8)``."""
    family = FAMILIES[name]
    cutoff = {"required": "@k", "optional": "[@k]", "none": ""}[family.cutoff]
    if family.takes_characters:
        cutoff = "@k, @Nchars"
    parameters = ", ".join(f"{key}={value.default!r}" for key, value in family.parameters)
    return f"{name}{cutoff}{f'({parameters})' if parameters else ''}"


def contract_rows(names: Sequence[str]) -> Iterator[dict[str, object]]:
    """A row of ``COLUMNS`` for each family."""
    for name in names:
        family = FAMILIES[name]
        contract = family.contract
        yield {
            "measure": written(name),
            "formula": contract.formula,
            "lowest": contract.lowest,
            "highest": contract.highest,
            "edge_policy": contract.edge_policy,
            "source": contract.source,
            "version": contract.version,
            "cutoff": family.cutoff,
            "labels": ", ".join(sorted(family.labels)),
            "where": _WHERE[family.scope],
        }


def print_contracts(names: Sequence[str]) -> None:
    """Write a block for each family to stdout, wrapped at 100 columns."""
    for row in contract_rows(names):
        top = "no upper end" if row["highest"] is None else f"{row['highest']:g}"
        lines = [
            f"formula  {row['formula']}",
            f"range    {row['lowest']:g} to {top}",
            f"edges    {row['edge_policy']}",
            f"source   {row['source']} (contract version {row['version']})",
            f"where    {row['where']}; labels: {row['labels']}",
        ]
        click.echo(row["measure"])
        for line in lines:
            click.echo(textwrap.fill(line, 100, initial_indent="  ", subsequent_indent=" " * 11))
        click.echo()
