"""Six questions that a reader of a study asks first, with short answers.

- `Answer`: a question and its answer; `answer_questions` answers how good the policy is, how its episodes end, where it
  is weak, why it fails, what the rules change, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from legible.environments import Ending
from legible.evaluation import Evaluation, References, find_objective
from legible.evaluation.endings import EndingShare, describe_endings
from legible.evaluation.figures import figure_of
from legible.evaluation.ledger import Ledger, find_reward_terms, readable_term
from legible.explanation.deployment import Deployment
from legible.explanation.objective_words import ObjectiveWords
from legible.explanation.verdict import HOW_TO_PLAY, MIN_FAILING_SHARE, is_repair, suits_better
from legible.explanation.weakness import WeaknessExplanation
from legible.formatting import capitalise, in_words, join_words, number, percent, signed
from legible.improvement import Improvement
from legible.play import Experiences
from legible.rules import Condition, third_person
from legible.rules.wording import describe_conditions

LAST_STEPS_SHARE = {"time limit": 0.5, "failure": MIN_FAILING_SHARE}
LAST_STEPS = {"time limit": 50, "failure": 10}
"""Share of the episodes that must end in a way, and steps before the end, for a sentence about what happens then."""
NEARLY_ALWAYS, MOST_HABITS = 0.9, 3
"""Share of the steps from which on a poor policy is said to make the same choice always, and choices to name."""
MOST_PLACES = 2
"""Patterns of failures in the answer about a policy without a confirmed weakness."""
MIN_FREQUENT = 0.1
"""Share of these steps from which on an action is named."""
MOST_SPREAD = 0.5
"""Spread of a feature in these steps, relative to its spread in all states, from which on it is not named."""


class Answer(NamedTuple):
    """A question, and its answer in sentences."""

    question: str
    sentences: tuple[str, ...]


def answer_questions(
    evaluation: Evaluation,
    improvement: Improvement,
    references: References,
    deployment: Deployment,
    *,
    explanations: Sequence[WeaknessExplanation] = (),
    confirmed: int = 0,
    costly: str = "",
    endings: Sequence[EndingShare] = (),
    experiences: Experiences | None = None,
    places: Sequence[str] = (),
    reasons: Sequence[str] = (),
    ledger: Ledger | None = None,
    next_steps: Sequence[str] = (),
    solved: float | None = None,
) -> tuple[Answer, ...]:
    """Answer the six questions from the results of a study.

    Parameters
    ----------
    evaluation, improvement, references, deployment
        The results.
    explanations
        The strongest weaknesses, in order.
    confirmed
        Number of confirmed weaknesses.
    costly
        How many single decisions are costly, in a sentence.
    endings
        How episodes end.
    experiences
        Recorded steps of the unguided policy.
    places, reasons
        Where and why the policy fails, a sentence each.
    ledger
        The parts of the gain of guidance.
    next_steps
        What to do next, the most useful first.
    solved
        The mean return from which the environment counts as solved, if it defines one.
    """
    how_it_ends = describe_endings(endings)
    if not how_it_ends:
        commonest = f"{endings[0].words} in {percent(endings[0].base.value)} of the episodes" if endings else ""
        how_it_ends = commonest or "the environment does not say how episodes end"
    failing_share = sum(one.base.value for one in endings if one.kind == "failure")
    stalls = _describe_last_steps(endings, experiences, "time limit")
    if stalls:
        reasons = (stalls, *reasons)
    poor_as_a_whole = _whole_policy(improvement, references, experiences)  # sentences; none if it is not poor
    if not (stalls or poor_as_a_whole) and endings and failing_share < MIN_FAILING_SHARE:
        reasons = ("It hardly ever fails.", *reasons)
    why = (*poor_as_a_whole, *reasons, *_habits(explanations))
    if poor_as_a_whole and not confirmed:
        places = ("Everywhere: the policy as a whole is poor.", *places)
    elif not (places or confirmed):
        before_failures = _describe_last_steps(endings, experiences, "failure")
        places = (before_failures,) if before_failures else ()
    # The time limit is no trouble for policies whose task is to survive until then.
    score = figure_of(find_objective("mean"), improvement.final_blocks.base.played)
    is_unsolved = solved is not None and score.high < solved
    troubles = [one for one in endings if one.kind == "failure" or (one.kind == "time limit" and is_unsolved)]
    return (
        Answer("How good is it?", _score(improvement, references, solved)),
        Answer("How do its episodes end?", (f"{capitalise(how_it_ends)}.",)),
        Answer(
            "Where is it weak?",
            (
                *_weaknesses(evaluation, explanations, confirmed, troubles),
                *places[: 1 if confirmed else MOST_PLACES],
                *([costly] if costly else []),
            ),
        ),
        Answer("Why does it fail?", why or ("Nothing that explains it was found.",)),
        Answer("What do the rules change?", _guidance(improvement, references, deployment, ledger)),
        Answer("What next?", (*_play_otherwise(improvement, references), *next_steps[:2])),
    )


def _score(improvement: Improvement, references: References, solved: float | None) -> tuple[str, ...]:
    """Return the score of the unguided policy, against the threshold of the environment and the best baselines."""
    words, blocks = ObjectiveWords(improvement.evaluation_settings.objective), improvement.final_blocks
    figure = figure_of(words.objective, blocks.base.played)
    write = percent if words.objective.is_binary else number
    score = f"{capitalise(words.words)} {write(figure.value)} (95 % CI {write(figure.low)} to {write(figure.high)})"
    if solved is not None and words.objective.name == "mean":
        side = "above" if figure.low >= solved else "below" if figure.high < solved else "about at"
        score += f", {side} {number(solved)}, from which the environment counts as solved"
    found = [f"{score}."]
    if (best := references.best_plain) is not None:
        over, name = best.over_policy, f"{best.words} ({words.of(best.result)})"
        how = "Worse than" if over.low > 0 else "Better than" if over.high < 0 else "Not clearly better than"
        found.append(f"{how} {name}, the best of random play and all constant actions.")
    terms = find_reward_terms(blocks.base)
    if terms and words.objective.name == "mean":
        parts = [f"{signed(float(blocks.base.terms[name].mean()))} {readable_term(name)}" for name in terms]
        found.append(f"By reward term: {join_words(parts)}.")
    return tuple(found)


def _weaknesses(
    evaluation: Evaluation,
    explanations: Sequence[WeaknessExplanation],
    confirmed: int,
    troubles: Sequence[EndingShare],
) -> tuple[str, ...]:
    """Return the strongest weakness and the gain of a rule against it, or else the most frequent of the bad endings."""
    strongest = next((one for one in explanations if one.verdict.is_confirmed), None)
    if strongest is None or strongest.verdict.confirmation is None:
        tested = len(evaluation.verdicts)
        none = f"none of the {tested} rule sets tested is" if tested > 1 else "the rule set tested is not"
        bad = [one for one in troubles if one.base.low >= MIN_FAILING_SHARE]
        if not bad:
            return (f"No weakness was found that a rule repairs: {none} shown to be better than the policy alone.",)
        most = max(bad, key=lambda one: one.base.value)
        where = f"{capitalise(most.words)} in {percent(most.base.value)} of the episodes"
        return (f"{where}, and no single rule repairs that: {none} shown to be better than the policy alone.",)
    words, effect = ObjectiveWords(evaluation.settings.objective), strongest.verdict.confirmation.effect
    lead = f"Its main weakness, of {confirmed}: it" if confirmed > 1 else "It"
    gain = f"{words.amount(effect.mean)} in the {words.words} ({words.bounds(effect)})"
    return (f"{lead} {strongest.title}.", f"Correcting this with a rule: {gain}.")


def _habits(explanations: Sequence[WeaknessExplanation]) -> tuple[str, ...]:
    """Say how many of the explained weaknesses are rules that the policy follows, but not in related situations."""
    explained = [one for one in explanations if one.verdict.is_confirmed]
    count = sum(one.is_not_generalised for one in explained)
    if not count:
        return ()
    rules = "is a rule" if count == 1 else "are rules"
    which = (
        f"its weakness {rules}" if len(explained) == 1 else f"{count} of its {len(explained)} main weaknesses {rules}"
    )
    return (f"It does not generalise: {which} that it follows, but not in related situations.",)


def _whole_policy(improvement: Improvement, references: References, experiences: Experiences | None) -> tuple[str, ...]:
    """Say that the whole policy is poor, if it is not shown to be better than random play or a constant action.

    A second sentence names the choices that it makes in nearly all states.
    """
    best = references.best_plain  # the better of random play and the best constant action
    if best is None or best.over_policy.high < 0.0:
        return ()
    words = ObjectiveWords(improvement.evaluation_settings.objective)
    how = "worse than" if best.over_policy.low > 0.0 else "not clearly better than"
    sentences = [
        f"The whole policy is poor, {how} {best.words} ({words.of(best.result)}): look at all of its decisions rather "
        "than at single situations."
    ]
    if experiences is not None:
        space = experiences.space
        shares = {choice: float(experiences.taken(choice).mean()) for choice in range(len(space.actions))}
        constant = sorted((i for i in shares if shares[i] >= NEARLY_ALWAYS), key=lambda choice: -shares[choice])
        habits = [f"{third_person(space.actions[i].label)} ({percent(shares[i])})" for i in constant[:MOST_HABITS]]
        if habits:
            sentences.append(f"In nearly all states, whatever the features are, it {join_words(habits)}.")
    return tuple(sentences)


def _describe_last_steps(
    endings: Sequence[EndingShare], experiences: Experiences | None, kind: Literal["failure", "time limit"]
) -> str:
    """Say what happens in the last steps of episodes that end in a kind of way; "" if few of them do.

    The sentence names the most frequent actions, and the features that vary least there compared with all states.
    """
    share = sum(one.base.value for one in endings if one.kind == kind)
    if experiences is None or share < LAST_STEPS_SHARE[kind]:
        return ""
    space, ids = experiences.space, experiences.episode_ids
    # The last steps of the episodes that end so: bool[episodes], and then bool[steps].
    ends_so = np.array([Ending.parse(str(text)).kind == kind for text in experiences.endings], np.bool_)
    n_last = LAST_STEPS[kind]
    steps_to_end = np.cumsum(experiences.lengths)[ids] - np.arange(len(ids))
    is_last = ends_so[ids] & (steps_to_end <= n_last)
    if not is_last.any():
        return ""
    found = []
    if space.is_discrete:
        shares = np.bincount(experiences.actions[is_last], minlength=len(space.actions)) / is_last.sum()
        frequent = [
            choice for choice in np.argsort(-shares, kind="stable")[:2].tolist() if shares[choice] >= MIN_FREQUENT
        ]
        actions = [f"{third_person(space.actions[i].label)} ({percent(float(shares[i]))})" for i in frequent]
        found.append(f"it mostly {join_words(actions)}")
    # Features whose range in these steps is small compared with their range in all states; both without the tails.
    last_range = np.quantile(experiences.observations[is_last], [0.1, 0.9], axis=0)
    low, high = np.quantile(experiences.observations, [0.1, 0.9], axis=0)
    is_numeric = np.array([feature.kind == "numeric" and not feature.is_flag for feature in space.features])
    is_usable = is_numeric & (high > low)
    spread = np.where(is_usable, (last_range[1] - last_range[0]) / np.maximum(high - low, 1e-12), np.inf)
    steady = [i for i in np.argsort(spread, kind="stable")[:2].tolist() if 0.0 < spread[i] <= MOST_SPREAD]
    if steady:
        found.append(describe_conditions([Condition(i, *map(float, last_range[:, i])) for i in steady], space))
    if not found:
        return ""
    event = "the time limit, which ends" if kind == "time limit" else "the failures, which end"
    return f"In the last {n_last} steps before {event} {percent(share)} of the episodes, {' while '.join(found)}."


def _play_otherwise(improvement: Improvement, references: References) -> tuple[str, ...]:
    """Say how to play the policy, if another way of playing suits it better."""
    way = suits_better(improvement, references)
    if way is None:
        return ()
    what, option = HOW_TO_PLAY[way.reference.way]
    return (f"Study it with {what[0].lower()}{what[1:]}, which suit it better: {option}.",)


def _guidance(
    improvement: Improvement, references: References, deployment: Deployment, ledger: Ledger | None
) -> tuple[str, ...]:
    """Return what guidance improves and worsens, and whether it is worth using."""
    count, effect = len(improvement.composition), improvement.effect
    if not count:
        return ("Nothing: no combination of rules is shown to be better than the policy alone.",)
    words = ObjectiveWords(improvement.evaluation_settings.objective)
    rules = f"{in_words(count)} rule, which overrides" if count == 1 else f"{in_words(count)} rules, which override"
    gain = f"{words.amount(effect.mean)} in the {words.words} ({words.bounds(effect)})"
    change = f"With {rules} {percent(deployment.overridden)} of the actions: {gain}"
    if not is_repair(improvement, references):
        best = references.best
        them = "it" if count == 1 else "them"
        why = f"{best.words} is as good or better" if best is not None and effect.low > 0 else "the gain may be chance"
        return (f"{change}.", f"Do not use {them}: {why}.")
    if ledger is not None and len(ledger.endings) > 1:
        change += f", {words.amount(ledger.endings[0].gain.value)} of it {ledger.endings[0].words}"
    elif ledger is not None and len(ledger.terms) > 1:
        change += f", {words.amount(ledger.terms[0].gain.value)} of it from {ledger.terms[0].words}"
    lost = deployment.seeds_lost
    lower = (f"{percent(lost)} of the episodes score lower with the rules.",) if lost else ()
    return (f"{change}.", deployment.verdict(), *lower)
