"""The table of other policies, and the figures that the text quotes, from the records of `experiments.other_policies`.

- `load_records`: the existing records.
- `is_below_known_good`, `is_found`: whether a policy needs improvement, and whether something was found in it.
- `table`: `row_table`, a line for each task and stage, and `policy_table`, one for each policy, as Markdown.
- `others_facts`: the figures of the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lab.experiments.table_cells import format_effect, format_figure, interval_over_policies
from legible.files import read_toml
from legible.settings import SettingsError

PLAN = Path(__file__).with_name("other_policies.toml")
OUT = Path(__file__).with_name("results") / "others"
MOST_CHANGED = 0.5
"""A rule that changes more of the actions than this is another policy rather than a finding about this one."""
SHORTEST_TRAINING = 3.0
"""Seconds. A shorter training means that the policy existed: the job had been stopped and begun again."""
Record = Mapping[str, Any]


def load_records(folder: Path = OUT, plan: Path = PLAN) -> list[Record]:
    """Read the existing records, in the order of the plan's tasks and stages, and by seed.

    Facts about a task come from the plan.
    """
    tasks = {task["name"]: task for task in read_toml(plan, SettingsError)["task"]}
    rows = [(name, stage) for name, task in tasks.items() for stage in task["stages"]]
    read = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    found = [record | {"known_good": tasks[record["task"]]["known_good"]} for record in read]
    return sorted(found, key=lambda record: (rows.index((record["task"], record["stage"])), record["seed"]))


def is_found(record: Record) -> bool:
    """Return whether something that changes at most half of the actions is confirmed to be better on held-out seeds.

    That is a confirmed rule set, or the composition.
    """
    composed = record["composition"]
    is_better = composed["gain"]["low"] > 0 and composed["changed"] <= MOST_CHANGED
    return is_better or any(finding["changed"] <= MOST_CHANGED for finding in record["confirmed"])


def is_below_known_good(record: Record) -> bool:
    """Return whether a policy is below the known good return by more than chance and than the study could detect."""
    base = record["composition"]["base"]
    missing = record["known_good"] - base["mean"] - 2 * base["error"]
    return bool(missing > (record["detectable"] or 0.0))


def table(records: Sequence[Record]) -> str:
    """Return the records as Markdown: a line for each task and stage, then one for each policy."""
    return f"{row_table(records)}\n{policy_table(records)}"


def row_table(records: Sequence[Record]) -> str:
    """Return a line for each task and stage."""
    lines = [
        "| task | stage | policies | base | known good | detectable | found in | rule sets confirmed "
        "| gain, mean over policies (95 % CI) | actions changed | best reference | random tests | random rules "
        "| minutes | million steps |",
        "|---" * 15 + "|",
        *(_row_line(task, stage, found) for (task, stage), found in _rows(records).items()),
    ]
    return "\n".join(lines) + "\n"


def _rows(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    rows: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        rows.setdefault((record["task"], record["stage"]), []).append(record)
    return rows


def policy_table(records: Sequence[Record]) -> str:
    """Return a line for each policy."""
    lines = [
        "| policy | base | gain (95 % CI) | worst tenth | changed | rule sets | best finding | its effect (95 % CI) "
        "| random tests | random rules | minutes |",
        "|---" * 11 + "|",
        *(_policy_line(record) for record in records),
    ]
    return "\n".join(lines) + "\n"


def _row_line(task: str, stage: str, records: Sequence[Record]) -> str:
    found = [record["composition"] for record in records]
    gains = np.array([one["gain"]["mean"] for one in found])
    wanting = [record for record in records if is_below_known_good(record)]
    detectable = [record["detectable"] for record in records if record["detectable"] is not None]
    references = [one["best_reference"]["mean"] for one in found if one["best_reference"]]
    cells = (
        task,
        stage,
        len(records),
        format_figure(np.mean([one["base"]["mean"] for one in found])),
        format_figure(records[0]["known_good"]),
        format_figure(np.mean(detectable)) if detectable else "–",
        f"{sum(map(is_found, wanting))} of {len(wanting)} wanting" if wanting else "none wanting",
        sum(len(record["confirmed"]) for record in records),
        f"{format_figure(gains.mean())} {interval_over_policies(gains)}",
        f"{100 * np.mean([one['changed'] for one in found]):.1f} %",
        format_figure(np.mean(references)) if references else "–",
        _found_by_chance(records, "random tests"),
        _found_by_chance(records, "random rules"),
        _format_minutes(_mean_minutes(records)),
        f"{np.mean([_steps(record) for record in records]) / 1e6:.1f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _found_by_chance(records: Sequence[Record], kind: str) -> str:
    """Write in how many of the policies a baseline confirmed something, and the mean of the largest effects."""
    played = [record for record in records if record["baselines"][kind]]
    if not played:
        return "–"
    mean = format_figure(float(np.mean([_best_by_chance(record, kind) for record in played])))
    return f"{sum(_best_by_chance(record, kind) > 0 for record in played)} of {len(played)}, {mean}"


def _best_by_chance(record: Record, *kinds: str) -> float:
    """Return the largest effect that baselines confirmed; 0 where they confirmed nothing."""
    found = [record["baselines"][kind] for kind in kinds if record["baselines"][kind]]
    return max((float(one["best"]) for one in found if one["best"] is not None), default=0.0)


def _minutes(record: Record) -> float:
    """Return the minutes of the study alone; NaN where a job was stopped before its seconds were saved."""
    if record["seconds"]["training"] < SHORTEST_TRAINING:
        return float("nan")
    return float(sum(record["seconds"][part] for part in ("mining", "evaluation", "improvement", "references"))) / 60


def _mean_minutes(records: Sequence[Record]) -> float:
    """Return the mean of the known minutes."""
    known = [minutes for minutes in map(_minutes, records) if not np.isnan(minutes)]
    return float(np.mean(known)) if known else float("nan")


def _format_minutes(minutes: float) -> str:
    return "–" if np.isnan(minutes) else f"{minutes:.1f}"


def _steps(record: Record) -> float:
    """Return the steps of the study alone: experiences, all rule sets, the final figure."""
    tested = sum(source["steps"] for source in record["sources"])
    return float(record["steps"]["experiences"] + tested + record["steps"]["final"])


def _policy_line(record: Record) -> str:
    found, best = record["composition"], next(iter(record["confirmed"]), None)
    worst = found["worst_tenth"]
    cells = (
        policy_name(record),
        format_figure(found["base"]["mean"]),
        format_effect(found["gain"]),
        format_effect(worst) if worst else "–",
        f"{100 * found['changed']:.1f} %",
        found["rule_sets"],
        best["words"] if best else "–",
        format_effect(best["effect"]) if best else "–",
        *(_count_cell(record["baselines"][kind]) for kind in ("random tests", "random rules")),
        _format_minutes(_minutes(record)),
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _count_cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "–"
    best = "" if found["best"] is None else f", {format_figure(found['best'])}"
    return f"{found['confirmed']} of {found['tried']}{best}"


# --- The text --------------------------------------------------------------------------------------------------------


def others_facts(records: Sequence[Record]) -> dict[str, Any]:
    """Return the figures that the text quotes."""
    wanting = [record for record in records if is_below_known_good(record)]
    gains = [record["composition"]["gain"] for record in records]
    rules = [record for record in wanting if record["baselines"]["random rules"]]
    return {
        "policies": len(records),
        "tasks": len({record["task"] for record in records}),
        "wanting": len(wanting),
        "found": sum(map(is_found, wanting)),
        "missed": ", ".join(policy_name(record) for record in wanting if not is_found(record)) or "none",
        "tests": sum(_best_by_chance(record, "random tests") > 0 for record in wanting),
        "rules": sum(_best_by_chance(record, "random rules") > 0 for record in rules),
        "with_rules": len(rules),
        "ahead": sum(
            record["composition"]["gain"]["mean"] > _best_by_chance(record, "random tests", "random rules")
            for record in wanting
        ),
        "better": sum(gain["low"] > 0 for gain in gains),
        "worse": sum(gain["high"] < 0 for gain in gains),
        "minutes": _mean_minutes(records),
        "steps": float(np.mean([_steps(record) for record in records])) / 1e6,
        "rows": {f"{task} {stage}": _row_facts(found) for (task, stage), found in _rows(records).items()},
    }


def policy_name(record: Record) -> str:
    """Return the name of a policy, such as "MountainCar bad 1"."""
    return f"{record['task']} {record['stage']} {record['seed']}"


def _row_facts(records: Sequence[Record]) -> dict[str, float]:
    found = [record["composition"] for record in records]
    return {
        "base": float(np.mean([one["base"]["mean"] for one in found])),
        "guided": float(np.mean([one["guided"]["mean"] for one in found])),
        "gain": float(np.mean([one["gain"]["mean"] for one in found])),
        "changed": float(np.mean([one["changed"] for one in found])),
    }
