"""Write RESULTS.md and all tables from the records: ``python -m lab.experiments.write_results``.

- RESULTS.md is ``lab/experiments/RESULTS.template.md`` with every figure filled in from `experiments.facts`.
- ``lab/experiments/results/README.md`` holds all tables, beside the paper's figures; what it says of networks is
  ``lab/experiments/NETWORKS.template.md``.

Nothing is run.
"""

from __future__ import annotations

import re
from pathlib import Path

from lab.experiments import network_table, others_table, search_table
from lab.experiments.facts import facts
from lab.reproduction import TablePlan, find_tables, table_from_records, write_tables
from legible.files import write_text

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "RESULTS.md"
TABLES = HERE / "results" / "README.md"
TEMPLATE = HERE / "RESULTS.template.md"
NETWORKS = HERE / "NETWORKS.template.md"
HEAD = """# All tables

Made from the [records](records) by `python -m lab.experiments.write_results`; [RESULTS.md](../../RESULTS.md) says what
they show, [Reproducing the tables](../../docs/reproduce.md) how they are made and what the columns are.

A cell is the mean over the policies. **±** is the mean of their own standard errors, as in the paper; **[ ]** is the
standard error between policies, which says how far another five policies may be. "not run" means that it was not run at
full settings, "–" that nothing was to be run.
"""

OTHERS_HEAD = """
## Other policies
Policies for well-known tasks, trained with `legible train` at three stages. `python -m lab.experiments.other_policies`
makes the [records](others) and [the same table with a line for each policy](others/table.md). "Wanting" policies
return less than the known good return, by more than chance and by more than the study could detect; "found in": in so
many of them something that changes at most half of the actions is better on fresh seeds. Random tests and random
rules have the same environment steps: in how many policies they confirm something, and the mean of the largest
effects. Minutes are those of one core; steps those of experiences, rule sets and the final figure.

"""

SEARCH_HEAD = """
## The default of today
Greedy DQN policies with the settings that `legible run` has by default: paired racing, a search of 15 million steps
beside the mined rules, compositions of all that helps; on the road `--preset quick`, a tenth of that, and a second
composition that may change at most a fifth of the actions. `python -m lab.experiments.search_table` makes the
[records](search) and [the same table with a line for each policy](search/table.md). Every composition is quoted from
seeds that chose nothing; the interval is that of the mean over policies; "worst tenth" is its change. Minutes of the
road's rows were taken on a busy machine. Each choice throughout was tried in roundabout, merge and intersection; the
search did not do that yet when the other rows were made.

"""


def plans() -> list[TablePlan]:
    """The plans of all tables."""
    return [TablePlan.load(path) for path in find_tables(HERE).values()]


def results_page() -> str:
    """RESULTS.md, from the template and the records."""
    filled = TEMPLATE.read_text(encoding="utf-8").format_map(facts())
    return re.sub(r"(?<=\d)%", " %", filled)


def tables_page() -> str:
    """All tables, from the records."""
    parts = [HEAD]
    for plan in plans():
        shown = table_from_records(plan, HERE / "results").to_markdown()
        parts.append(f"\n## {plan.name.capitalize()}: {plan.title}\n{shown}\n![{plan.title}]({plan.name}.png)\n")
    parts += [SEARCH_HEAD, search_table.row_table(search_table.load_records())]
    networks = network_table.table(network_table.load_records(network_table.RESULTS))
    parts.append(NETWORKS.read_text(encoding="utf-8").format_map({**facts(), "table": networks}))
    return "".join([*parts, OTHERS_HEAD, others_table.row_table(others_table.load_records())])


def main() -> None:
    """Write the tables' files and both pages."""
    write_tables(plans(), HERE / "results")
    write_text(others_table.OUT / "table.md", others_table.table(others_table.load_records()))
    write_text(search_table.OUT / "table.md", search_table.table(search_table.load_records()))
    write_text(TABLES, tables_page())
    write_text(RESULTS, results_page())


if __name__ == "__main__":
    main()
