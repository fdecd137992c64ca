"""A whole study in a sentence or two.

- `verdict_sentence`: what was found, and what the guided policy is worth.
"""

from __future__ import annotations

from legible.evaluation import Evaluation
from legible.formatting import capitalise, confidence_interval, in_words, number
from legible.improvement import Improvement


def verdict_sentence(evaluation: Evaluation, improvement: Improvement | None = None) -> str:
    """Say what a study found in a sentence or two, no more certain than it is."""
    told = [_findings_sentence(evaluation)]
    failed = evaluation.failed
    if improvement is not None:
        told.append(_improvement_sentence(improvement))
        failed = (failed[0] + improvement.final_blocks.failed[0], failed[1] + improvement.final_blocks.failed[1])
    if any(failed):
        told.append(
            f"{failed[0]} guided and {failed[1]} unguided episodes failed; in effects they count at their worst."
        )
    return " ".join(told)


def _findings_sentence(evaluation: Evaluation) -> str:
    tested, suspected, confirmed = (len(v) for v in (evaluation.verdicts, evaluation.weaknesses, evaluation.confirmed))
    if not tested:
        return "No rules were mined, so nothing could be tested."

    def of_tested(count: int) -> str:
        return f"{in_words(count)} of the {tested} rule sets tested" if tested > 1 else "the only rule set tested"

    if confirmed:
        return f"The policy is weak: {of_tested(confirmed)} reveal{'s' * (confirmed == 1)} a confirmed weakness."
    if suspected:
        asked = evaluation.confirmation_blocks is not None
        doubt = "fresh seeds confirm none" if asked else "fresh seeds have not been asked"
        return f"No weakness is confirmed: {of_tested(suspected)} looked like one, but {doubt}."
    none = f"none of the {tested} rule sets tested raises" if tested > 1 else "the only rule set tested does not raise"
    return f"No weakness was found: {none} the return for certain."


def _improvement_sentence(improvement: Improvement) -> str:
    count = len(improvement.composition)
    if not count:
        return "No composition of rules did better than the policy alone."
    base, guided, effect = improvement.base.mean, improvement.guided.mean, improvement.effect
    rules = capitalise(f"{in_words(count)} {'rule' if count == 1 else 'rules'}")
    gain = confidence_interval(effect.mean, effect.low, effect.high)
    change = f"the mean return from {number(base)} to {number(guided)}: {gain}"
    if effect.low > 0.0:
        return f"{rules} raise{'s' * (count == 1)} {change}."
    if effect.high < 0.0:
        return f"{rules}, chosen because they did well, lower {change} on fresh seeds; do not use them."
    return f"{rules} take{'s' * (count == 1)} {change}, which may be chance."
