"""Rule mining, step 1 of the paper: rules that describe what a policy does and avoids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.mining.importance import Importance, ImportanceError
    from legible.mining.included import exclusion, inclusion
    from legible.mining.methods import (
        ImportanceMethod,
        RuleLearner,
        find_importance,
        find_learner,
        register_importance,
        register_learner,
    )
    from legible.mining.mining import POLARITIES, MinedRule, Mining, judge_rules, mine
    from legible.mining.surrogate import surrogate_importance

__all__, __getattr__, __dir__ = lazy_exports(__name__)
