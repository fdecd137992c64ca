"""Effects of the single rules of a set.

- `leave_one_out`: plays a rule set without each of its rules; `Contribution` is the effect of one rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from legible.evaluation import Runner, WorstCase, play_blocks
from legible.evaluation.statistics import Effect, benjamini_hochberg, paired
from legible.evaluation.units import Setup, run_units
from legible.rules import Rule, RuleSet


@dataclass(frozen=True)
class Contribution:
    """Effect of one rule: returns with all rules minus returns without this one, on the same seeds.

    `q` is Benjamini-Hochberg over the rules of the set; a small value says that returns fall without the rule.
    """

    rule: Rule
    effect: Effect
    q: float


def leave_one_out(
    setup: Setup,
    rule_set: RuleSet,
    seeds: Sequence[int],
    *,
    run: Runner = run_units,
) -> tuple[Contribution, ...]:
    """Play a rule set whole and without each of its rules, and return the effect of each rule.

    Parameters
    ----------
    setup
        Policy, environment and play settings; its treatments are ignored.
    rule_set
        The rules. Without the only rule of a set, the policy is unguided.
    seeds
        Seeds of the episodes, the same for every set.
    run
        As in `legible.evaluation.evaluate`.
    """
    rules = rule_set.rules
    rests = [RuleSet(tuple(other for other in rules if other != rule)) for rule in rules]
    contribution_setup = replace(setup, treatments=(rule_set, *rests))
    whole, *without = play_blocks(
        contribution_setup, [(i, seeds) for i in range(len(contribution_setup.treatments))], run
    )
    worst = WorstCase((whole, *without))
    pairs = [worst.of(whole, rest) for rest in without]
    effects = [paired(guided.returns, rest.returns) for guided, rest in pairs]
    q = benjamini_hochberg([effect.p for effect in effects])
    return tuple(Contribution(rule, effects[i], float(q[i])) for i, rule in enumerate(rules))
