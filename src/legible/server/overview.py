"""The overview: the first screen of the report for several studies, also while they run.

- `overview_of`: one study as plain data; `state_of`: changes whenever its folder does.
- `keep_findings`: keeps what is shown while the steps that a new rule changes are not done again yet.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from legible.errors import LegibleError
from legible.explanation import WeaknessGroup
from legible.files import read_json, write_json
from legible.formatting import capitalise, signed
from legible.rules import describe_rule_set
from legible.study import Study

MOST_WEAKNESSES = 20
BEFORE_CHANGES = "overview_before_changes.json"
"""The last findings of a finished study to which a rule was added since."""
_WORDS = {
    "experiences": "episodes recorded",
    "mining": "habits mined",
    "generalisations": "habits generalised",
    "evaluation": "rules tested",
    "improvement": "rules composed",
    "references": "baselines played",
    "explanations": "weaknesses explained",
    "summary": "summarised",
    "mistakes": "single mistakes searched",
    "failures": "failures explained",
}


def state_of(folder: Path) -> tuple[tuple[str, int], ...]:
    """Return names and times of the results in a study's folder, and the number of played units."""
    found = []
    with suppress(OSError):
        found = sorted((path.name, path.stat().st_mtime_ns) for path in folder.glob("*.*") if path.is_file())
        found.append(("units", sum(1 for _ in (folder / "units").glob("*.npz"))))
    return tuple(found)


def overview_of(folder: Path, *, trust: bool = False) -> dict[str, Any]:
    """Return what is known about a study: its conclusion, effects and weaknesses, as far as it has come."""
    known: dict[str, Any] = {
        "name": folder.name,
        "folder": str(folder),
        "error": "",
        "done": [],
        "weaknesses": [],
        "headline": "",
    }
    try:
        study = Study.open(folder, trust=trust)
        known |= {
            "environment": study.named_environment.name,
            "policy": study.policy_name or "an object",
            "done": [words for name, words in _WORDS.items() if study.has(name)],
            "left": [words for name, words in _WORDS.items() if not study.has(name)],
            "units": dict(state_of(folder)).get("units", 0),
        }
        findings = _findings(study)
        if "headline" not in findings and (folder / BEFORE_CHANGES).exists():
            # Adding a rule deletes the results that depend on it: until they are there again, show the last ones.
            findings = {**read_json(folder / BEFORE_CHANGES)["findings"], "is_before_changes": True}
        known |= findings
    except LegibleError as error:
        known["error"] = str(error)
    return known


def keep_findings(study: Study) -> None:
    """Write the findings of a finished study to its folder, before a rule is added to it."""
    findings = _findings(study)
    if "headline" in findings:
        write_json(study.folder / BEFORE_CHANGES, {"findings": findings})


def _findings(study: Study) -> dict[str, Any]:
    """Return weaknesses, the effect of the composed rules, and the conclusion, as far as the study has come."""
    findings: dict[str, Any] = {}
    if study.has("evaluation") and study.has("experiences"):
        groups = study.weaknesses[:MOST_WEAKNESSES]
        findings["weaknesses"] = [
            {
                "words": capitalise(describe_rule_set(group.front.rule_set, study.space, "advice")),
                "rule": group.front.rule_set.short_text(study.space),
                "is_confirmed": group.is_confirmed,
                "gain": signed(_gain(group)),
                "effect": _gain(group),
            }
            for group in groups
        ]
        findings["confirmed"] = sum(group.is_confirmed for group in groups)
    if study.has("improvement"):
        improvement = study.improvement
        findings["unguided"], findings["guided"] = improvement.base.mean, improvement.guided.mean
        findings["rules"] = len(improvement.composition)
        if study.has("references") and study.has("evaluation"):
            findings["headline"] = study.conclusion.headline
            findings["sentences"] = list(study.conclusion.sentences)
    return findings


def _gain(group: WeaknessGroup) -> float:
    front = group.front
    return float(front.difference if front.confirmation is None else front.confirmation.effect.mean)
