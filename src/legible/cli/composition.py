"""The composition of a study on the terminal and as JSON.

- `print_composition`: what can be gained with fewer changed actions, and what keeps the composition from more.
- `composition_data`: the same as plain data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legible.cli.drawing import out, table
from legible.formatting import confidence_interval, counted, number, percent, signed

if TYPE_CHECKING:
    from legible.study import Study


def print_composition(study: Study) -> None:
    """What can be gained with fewer changed actions, and what keeps the composition from being what was asked for."""
    improvement = study.improvement
    check, most = improvement.check, improvement.settings.most_changed
    rows = [
        (
            percent(row["changed"]),
            number(len(row["rules"])),
            f"{signed(row['effect'])} ({signed(row['low'])} to {signed(row['high'])})",
            "yes" if row["chosen"] else "",
        )
        for row in improvement.front_rows(study.space)
    ]
    if len(rows) > 1:
        columns = ("Actions changed", "Rules", "Gain (95 % CI)", "Chosen")
        out().print(table(columns, rows, right=columns[:-1]))
    if check is not None and not check.is_passed:
        why = "too few episodes change to tell" if check.is_too_rare else "the policy is not better beyond chance"
        gain = confidence_interval(check.effect.mean, check.effect.low, check.effect.high)
        rules = counted(len(check.composition), "rule")
        out().print(f"The composition of {rules} was given up: on other seeds {why}, {gain}.", soft_wrap=True)
    if improvement.changes_too_much:
        share = percent(improvement.guided.changed)
        out().print(
            f"On the fresh seeds it changes {share} of the actions, more than the {percent(most)} that it may "
            "(--improvement.most-changed).",
            soft_wrap=True,
        )


def composition_data(study: Study) -> dict[str, Any]:
    """Return what the composition changes, its check and the front, as plain data."""
    improvement, space = study.improvement, study.space
    check = improvement.check
    return {
        "changed": improvement.guided.changed,
        "changes_too_much": improvement.changes_too_much,
        "front": improvement.front_rows(space),
        "check": None
        if check is None
        else {
            "rules": [rule.text(space) for rule in check.composition.rules],
            "effect": check.effect,
            "changed": check.changed,
            "too_rare": check.is_too_rare,
            "constraints": check.constraints,
            "passed": check.is_passed,
        },
        "environment_steps": improvement.environment_steps,
    }
