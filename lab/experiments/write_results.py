"""Write the pages of results and all tables from the records: ``python -m lab.experiments.write_results``.

- ``RESULTS.md``, ``docs/results-driving.md`` and ``docs/results-networks.md`` are templates of this folder with every
  figure filled in from `experiments.facts` (`PAGES`).
- ``lab/experiments/results/README.md`` holds all tables, next to the paper's figures; its text on networks is
  ``lab/experiments/NETWORKS.template.md``.

Nothing is played.
"""

from __future__ import annotations

import re
from pathlib import Path

from lab.experiments import network_table, others_table, search_table
from lab.experiments.facts import facts
from lab.reproduction import TablePlan, find_tables, table_from_records, write_tables
from legible.files import write_text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "RESULTS.md"
TABLES = HERE / "results" / "README.md"
TEMPLATE = HERE / "RESULTS.template.md"
NETWORKS = HERE / "NETWORKS.template.md"
PAGES = {
    RESULTS: TEMPLATE,
    ROOT / "docs" / "results-driving.md": HERE / "DRIVING.template.md",
    ROOT / "docs" / "results-networks.md": HERE / "DISTILLATION.template.md",
}
"""Pages of results, and the template of each."""
HEAD = """# All tables

`python -m lab.experiments.write_results` makes them from the [records](records). [RESULTS.md](../../../RESULTS.md)
discusses them; [Reproducing the tables](../../../docs/reproduce.md) explains the columns.

A cell is the mean over the policies. **±** is the mean of their own standard errors, as in the paper; **[ ]** is the
standard error between policies. "not run" means not run at full settings, "–" that there was nothing to run.
"""

OTHERS_HEAD = """
## Other policies
Policies for well-known tasks, trained with `legible train` at three stages. `python -m lab.experiments.other_policies`
makes the [records](others) and [the same table with a line for each policy](others/table.md). "Wanting" policies
return less than the known good return, by more than chance and by more than the study could detect. "Found in" counts
those in which a finding that changes at most half of the actions is better on held-out seeds. Random tests and random
rules have the same environment steps: the number of policies in which they confirm something, and the mean of the
largest effects. Minutes are those of one core; steps those of experiences, rule sets and the final figure.

"""

SEARCH_HEAD = """
## The default of today
Greedy DQN policies with the default settings of `legible run`: paired racing, a search of 15 million steps next to the
mined rules, and compositions of all that helps. In driving: `--preset quick`, a tenth of that, and a second composition
that may change at most a fifth of the actions. `python -m lab.experiments.search_table` makes the [records](search) and
[the same table with a line for each policy](search/table.md). Every composition is quoted from held-out seeds; the
interval is that of the mean over policies; "worst tenth" is its change. Minutes of the driving rows were taken on a
busy machine. The search tried constant actions in roundabout, merge and intersection; the other rows were made before
it did that.

"""


def plans() -> list[TablePlan]:
    """Return the plans of all tables."""
    return [TablePlan.load(path) for path in find_tables(HERE).values()]


def results_page(template: Path = TEMPLATE) -> str:
    """Return a page of results: a template, by default that of RESULTS.md, with figures from the records."""
    filled = template.read_text(encoding="utf-8").format_map(facts())
    return re.sub(r"(?<=\d)%", " %", filled)


def tables_page() -> str:
    """Return all tables, from the records."""
    parts = [HEAD]
    for plan in plans():
        shown = table_from_records(plan, HERE / "results").to_markdown()
        parts.append(f"\n## {plan.name.capitalize()}: {plan.title}\n{shown}\n![{plan.title}]({plan.name}.png)\n")
    parts += [SEARCH_HEAD, search_table.row_table(search_table.load_records())]
    networks = network_table.table(network_table.load_records(network_table.RESULTS))
    parts.append(NETWORKS.read_text(encoding="utf-8").format_map({**facts(), "table": networks}))
    return "".join([*parts, OTHERS_HEAD, others_table.row_table(others_table.load_records())])


def main() -> None:
    """Write the tables and all pages."""
    write_tables(plans(), HERE / "results")
    write_text(others_table.OUT / "table.md", others_table.table(others_table.load_records()))
    write_text(search_table.OUT / "table.md", search_table.table(search_table.load_records()))
    write_text(TABLES, tables_page())
    for page, template in PAGES.items():
        write_text(page, results_page(template))


if __name__ == "__main__":
    main()
