"""Checks for a new policy, as a TOML file: known weaknesses of a study, and requirements of the user's own.

`read_checks` reads a file, and `export_checks` writes the confirmed weaknesses of a study.

    margin = 5.0                    # largest loss of the mean return that is allowed

    [[weakness]]
    rules = ["+Brake <- gap < 5"]
    expect = "known"                # reported, never fails; "absent": fails when it is back
    margin = 5.0                    # largest gain by these rules that counts as no weakness

    [[require]]
    figure = "success"              # or mean, length, cost
    at_least = 0.95                 # or at_most

    [[require]]
    never = "gap < 2 and speed > 20"
    at_most = 0.01                  # of the episodes
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from legible.errors import LegibleError, did_you_mean
from legible.evaluation.relevance import relevant_effect
from legible.features import FeatureSpace
from legible.files import write_text
from legible.rules import Condition, RuleError, RuleSet, describe_rule_set, parse_rule
from legible.study import Study

FILE = "weaknesses.toml"
FIGURES = ("mean", "success", "length", "cost")
Expect = Literal["known", "absent"]


@dataclass(frozen=True)
class WeaknessCheck:
    """A weakness that the policy of a study had; `margin` None: the smallest effect of interest."""

    rule_set: RuleSet
    expect: Expect = "known"
    margin: float | None = None


@dataclass(frozen=True)
class Requirement:
    """A requirement: a figure with a bound, or a situation that may occur in a share of the episodes at most.

    `situation` is the text in the file, and `conditions` what holds in it.
    """

    bound: float
    is_least: bool
    figure: str = ""
    situation: str = ""
    conditions: tuple[Condition, ...] = ()

    @property
    def bound_words(self) -> str:
        """The bound in words, such as "at least 0.95"."""
        return f"{'at least' if self.is_least else 'at most'} {self.bound:g}"


@dataclass(frozen=True)
class Checks:
    """The content of a file of checks."""

    margin: float | None = None
    weaknesses: tuple[WeaknessCheck, ...] = ()
    requirements: tuple[Requirement, ...] = ()


def read_checks(path: str | Path, space: FeatureSpace) -> Checks:
    """Read a file of checks; raise where it is no TOML, or holds something unknown."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise LegibleError(f"{path}: cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LegibleError(f"{path}: is no TOML file ({error}).") from error
    try:
        _refuse_unknown(document, ("margin", "weakness", "require"), "the file")
        weaknesses = [_read_weakness(e, space, f"weakness {i}") for i, e in _entries(document, "weakness")]
        requirements = [_read_requirement(e, space, f"require {i}") for i, e in _entries(document, "require")]
        return Checks(_number(document, "margin", "the file"), tuple(weaknesses), tuple(requirements))
    except LegibleError as error:
        raise LegibleError(f"{path}: {error}") from error


def _entries(document: Mapping[str, Any], name: str) -> list[tuple[int, Mapping[str, Any]]]:
    entries = document.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise LegibleError(f"{name!r} must be a list of tables; write [[{name}]] above each.")
    return list(enumerate(entries, start=1))


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in table:
        if name not in known:
            hint = did_you_mean(name, known)
            raise LegibleError(f"{where}: {name!r} is unknown; it may hold {', '.join(known)}.{hint}")


def _number(table: Mapping[str, Any], name: str, where: str, *, positive: bool = True) -> float | None:
    value = table.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise LegibleError(f"{where}: {name} must be a number, got {value!r}.")
    if positive and value <= 0:
        raise LegibleError(
            f"{where}: {name} must be above 0, got {value!r}; no number of episodes can exclude every loss."
        )
    return float(value)


def _read_weakness(table: Mapping[str, Any], space: FeatureSpace, where: str) -> WeaknessCheck:
    _refuse_unknown(table, ("rules", "expect", "margin", "effect", "words"), where)
    expect, rules = table.get("expect", "known"), table.get("rules")
    if expect not in ("known", "absent"):
        raise LegibleError(f'{where}: expect must be "known" or "absent", got {expect!r}.')
    if not isinstance(rules, list) or not rules or not all(isinstance(rule, str) for rule in rules):
        raise LegibleError(f"{where}: rules must be a list of rules such as ['+Brake <- gap < 5'].")
    parsed = RuleSet(tuple(parse_rule(rule, space) for rule in rules))
    return WeaknessCheck(parsed, expect, _number(table, "margin", where))


def _read_requirement(table: Mapping[str, Any], space: FeatureSpace, where: str) -> Requirement:
    """Return the requirement of one ``[[require]]`` table of a file of checks.

    A table has either ``figure`` with ``at_least`` or ``at_most``, such as a success rate of at least 0.95; or
    ``never``, a condition such as ``"gap < 2 and speed > 20"``, with ``at_most``, a share of the episodes.
    """
    _refuse_unknown(table, ("figure", "at_least", "at_most", "never"), where)
    bounds = [name for name in ("at_least", "at_most") if name in table]
    if len(bounds) != 1 or ("figure" in table) == ("never" in table):
        raise LegibleError(f"{where}: give figure or never, and at_least or at_most.")
    bound = _number(table, bounds[0], where, positive=False) or 0.0  # it is not None: the table has this bound
    is_least = bounds[0] == "at_least"

    # A figure of all episodes.
    if "figure" in table:
        figure = table["figure"]
        if figure not in FIGURES:
            raise LegibleError(f"{where}: there is no figure {figure!r}; choose one of {', '.join(FIGURES)}.")
        if figure == "success" and not 0.0 < bound < 1.0:
            raise LegibleError(f"{where}: a share lies between 0 and 1, got {bound:g}; none can be shown to be 0 or 1.")
        return Requirement(bound, is_least, figure)

    # A situation that must be rare. Its conditions are read as those of a rule, whose action does not matter.
    situation = table["never"]
    if is_least or not 0.0 < bound < 1.0:
        raise LegibleError(f"{where}: never needs at_most, a share of the episodes above 0 and below 1, such as 0.01.")
    if not isinstance(situation, str):
        raise LegibleError(f"{where}: never must be a text such as 'gap < 2 and speed > 20', got {situation!r}.")
    any_action, conditions_text = space.action_names[0], situation.replace(" and ", " & ")
    try:
        conditions = parse_rule(f"+{any_action} <- {conditions_text}", space).conditions
    except RuleError as error:  # its cause is about the conditions alone, without the action that was put in front
        raise LegibleError(f"{where}: never: {error.__cause__ or error}") from error
    return Requirement(bound, is_least=False, situation=situation, conditions=conditions)


def export_checks(study: Study, path: str | Path | None = None) -> Path | None:
    """Write the confirmed weaknesses of a study into a file of checks, and return the file's path.

    A file that is already there stays as it is, because users edit it. Without confirmed weaknesses nothing is written
    and None is returned. By default, the file is ``weaknesses.toml`` in the study's folder. The study must have played
    its baselines (the step "references").
    """
    target = Path(path) if path is not None else study.folder / FILE
    # A weakness can have several confirmed rule sets; the one in front stands for all of them.
    confirmed = [group.front for group in study.weaknesses if group.is_confirmed]
    if target.exists():
        return target
    if not confirmed:
        return None

    # By default a change of less than 2 % of the scale of the task does not matter.
    random_play = study.references.random_play
    returns = study.improvement.final_blocks.base.played.returns  # of the unguided policy
    margin = relevant_effect(returns, math.nan if random_play is None else random_play.sample.mean)
    lines = [
        "# Checks for 'legible verify': the confirmed weaknesses of a study, and your own requirements.",
        f"# A margin of {margin:.4g} is 2 % of the scale of the task: changes below it do not matter.",
        f"margin = {margin:.4g}",
    ]
    for verdict in confirmed:
        lines += ["", *check_lines(verdict.rule_set, study.space, margin)]
        if verdict.confirmation is not None:
            lines.append(f"effect = {verdict.confirmation.effect.mean:.4g}  # of these rules on the study's policy")
    write_text(target, "\n".join(lines) + "\n")
    return target


def check_lines(rule_set: RuleSet, space: FeatureSpace, margin: float) -> list[str]:
    """Return a weakness as lines of a file of checks."""
    return [
        "[[weakness]]",
        f"# {describe_rule_set(rule_set, space, 'advice')}".replace("\n", " "),
        "rules = [",
        *(f"    {json.dumps(rule.text(space), ensure_ascii=False)}," for rule in rule_set.rules),
        "]",
        'expect = "known"  # "absent" once it is fixed: then verify fails when it is back',
        f"margin = {margin:.4g}",
    ]
