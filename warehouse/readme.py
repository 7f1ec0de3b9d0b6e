"""``warehouse/README.md``, generated from the database: ``python -m warehouse.readme``."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

README = Path(__file__).with_name("README.md")


def named_sql(file: str) -> dict[str, str]:
    """The statements of a file of this package: heading (after ``--``) to SQL."""
    text = files("warehouse").joinpath(file).read_text("utf-8")
    found = re.findall(r"^-- (.+)\n((?:(?!-- ).*\n?)+)", text, re.MULTILINE)
    return {heading.strip(): sql.strip().removesuffix(";") for heading, sql in found}


def examples() -> dict[str, tuple[str, str]]:
    """Table or view to what its example shows, and the example."""
    return {
        heading.partition(": ")[0]: (heading.partition(": ")[2], sql)
        for heading, sql in named_sql("examples.sql").items()
    }


def render(connection: DuckDBPyConnection) -> str:
    """The whole README, from its template and an empty warehouse of this version."""
    template = files("warehouse").joinpath("README.template.md").read_text("utf-8")
    return (
        template.replace("{questions}", _questions())
        .replace("{views}", _section(connection, "views"))
        .replace("{tables}", _section(connection, "tables"))
    )


def _questions() -> str:
    blocks = [
        f"**{number}. {question}**\n```sql\n{sql}\n```"
        for number, (question, sql) in enumerate(named_sql("questions.sql").items(), start=1)
    ]
    return "\n\n".join(blocks)


def _section(connection: DuckDBPyConnection, kind: str) -> str:
    singular = kind.removesuffix("s")
    found = connection.execute(
        f"SELECT {singular}_name, comment FROM duckdb_{kind}() WHERE NOT internal"  # noqa: S608
    ).fetchall()
    order = list(examples())
    objects = sorted(found, key=lambda row: order.index(row[0]))
    return "\n\n".join(_describe(connection, name, comment) for name, comment in objects)


def _describe(connection: DuckDBPyConnection, name: str, comment: str) -> str:
    columns = connection.execute(
        "SELECT column_name, data_type, comment FROM duckdb_columns() WHERE table_name = ? "
        "ORDER BY column_index",
        [name],
    ).fetchall()
    rows = "\n".join(
        f"| `{column}` | {_short(kind)} | {_cell(about)} |" for column, kind, about in columns
    )
    what, example = examples()[name]
    return (
        f"### {name}\n{comment}.\n\n| column | type | meaning |\n|---|---|---|\n{rows}\n\n"
        f"{what[0].upper()}{what[1:]}:\n```sql\n{example}\n```"
    )


def _short(kind: str) -> str:
    return _cell(kind.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Write the README."""
    import duckdb

    from warehouse.migrate import apply_pending

    with duckdb.connect() as connection:
        apply_pending(connection)
        README.write_text(render(connection), "utf-8")


if __name__ == "__main__":
    main()
