"""Costly single decisions: branch at visited states, try every choice, and follow the policy from there.

- `decisions`: selects decisions and their alternatives.
- `rollouts`: plays a choice at a decision, then the policy; `running`: the same in units of work.
- `racing`: few rollouts for many decisions, more for promising ones.
- `statistics`: intervals that are valid although the decisions were selected.
- `finding`: `find_mistakes` and its result, `Mistakes`.
- `wording`: sentences about mistakes, unusual features, and groups of similar mistakes.
- `source`: rule sets learned from decisions, to be tested like all others.
"""

from __future__ import annotations

from legible.mistakes.decisions import CHOICE_TAKEN, Decisions, choose_decisions
from legible.mistakes.finding import DecisionSearch, Mistake, Mistakes, find_mistakes, plan_decisions, points_of
from legible.mistakes.rollouts import (
    Rollouts,
    RolloutSetup,
    RolloutUnit,
    play_endings,
    play_in_detail,
    play_rollouts,
    record_futures,
)
from legible.mistakes.running import RolloutRunner
from legible.mistakes.source import learn_from_decisions
from legible.mistakes.statistics import IntervalEstimate
from legible.mistakes.wording import (
    describe_mistake,
    describe_mistakes,
    similar_mistakes,
    summarise_mistakes,
    unusual_features,
)
