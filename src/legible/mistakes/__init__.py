"""Single decisions that cost most: branch at visited states, try every choice, follow the policy from there.

- `decisions`: which decisions are looked at, and what else could have been done.
- `rollouts`: from a decision on with one of the choices; `running`: the same in units of work.
- `racing`: few rollouts for many decisions, more for the promising.
- `statistics`: figures that hold although the decisions were chosen.
- `finding`: `find_mistakes`, and what was found: `Mistakes`.
- `wording`: mistakes in sentences, what is unusual there, similar ones together.
- `source`: rule sets learned from decisions, to be tested like all others.
"""

from __future__ import annotations

from legible.mistakes.decisions import AS_IT_DID, Decisions, choose_decisions
from legible.mistakes.finding import DecisionSearch, Mistake, Mistakes, find_mistakes, plan_decisions, points_of
from legible.mistakes.rollouts import Rollouts, RolloutSetup, RolloutUnit, play_rollouts, record_futures
from legible.mistakes.running import RolloutRunner
from legible.mistakes.source import learn_from_decisions
from legible.mistakes.statistics import Estimated
from legible.mistakes.wording import describe_mistake, describe_mistakes, similar_mistakes, unusual_features

__all__ = [
    "AS_IT_DID",
    "DecisionSearch",
    "Decisions",
    "Estimated",
    "Mistake",
    "Mistakes",
    "RolloutRunner",
    "RolloutSetup",
    "RolloutUnit",
    "Rollouts",
    "choose_decisions",
    "describe_mistake",
    "describe_mistakes",
    "find_mistakes",
    "learn_from_decisions",
    "plan_decisions",
    "play_rollouts",
    "points_of",
    "record_futures",
    "similar_mistakes",
    "unusual_features",
]
