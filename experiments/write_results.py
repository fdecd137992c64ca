"""Put the tables into RESULTS.md, between its markers: ``python -m experiments.write_results``.

A marker is a pair of comments, ``<!-- table1 -->`` and ``<!-- /table1 -->``. Tables come from the records in
``experiments/results``, without running anything.
"""

from __future__ import annotations

import re
from pathlib import Path

from legible.reproduction import TablePlan, find_tables, table_from_records, write_tables

HERE = Path(__file__).parent
RESULTS = HERE.parent / "RESULTS.md"


def filled(text: str, tables: dict[str, str]) -> str:
    """The text with every table in its place."""
    for name, table in tables.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = mark.sub(lambda found, table=table: f"{found[1]}{table}{found[2]}", text)  # type: ignore[misc]
    return text


def current_tables() -> dict[str, str]:
    """Markdown of all tables, from the records."""
    plans = [TablePlan.load(path) for path in find_tables(HERE).values()]
    return {plan.name: table_from_records(plan, HERE / "results").to_markdown() for plan in plans}


def main() -> None:
    """Write the tables' files and RESULTS.md."""
    write_tables([TablePlan.load(path) for path in find_tables(HERE).values()], HERE / "results")
    RESULTS.write_text(filled(RESULTS.read_text(encoding="utf-8"), current_tables()), encoding="utf-8")


if __name__ == "__main__":
    main()
