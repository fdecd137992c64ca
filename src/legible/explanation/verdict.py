"""The conclusion of a study in a few sentences, shared by terminal, report, JSON and documents.

- `Conclusion`: a headline and the sentences after it; `conclude` makes it.
- `is_repair`: whether the guided policy is worth using; `imitated_reference`: the constant action that it imitates.

The most important finding comes first: another way of playing the policy that is clearly better (than guidance, too); a
baseline that beats the policy; a policy that never succeeds, that is far from solving the environment, whatever is
done, or that no rules help to solve it. Otherwise the gain and its cost come first, failures that the time limit hides,
or how often the policy fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from legible.evaluation import Evaluation, QuotedReference, References, find_objective
from legible.evaluation.endings import EndingShare, describe_endings
from legible.evaluation.figures import figure_of
from legible.explanation.deployment import Deployment, summarise_deployment
from legible.explanation.grouping import WeaknessGroup, group_weaknesses
from legible.explanation.objective_words import ObjectiveWords
from legible.formatting import capitalise, counted, in_words, join_words, number, percent
from legible.improvement import Improvement

# A bad policy whose episodes reach the step limit at least this often gets a sentence about it.
MIN_TRUNCATED_SHARE = 0.5
# A policy without a finding is said to fail if at least this share of its episodes does (lower end of the interval).
MIN_FAILING_SHARE = 0.05
# A gain, or the lead of a baseline, that closes less of the gap to a solved environment is not the headline.
MIN_CLOSED_SHARE = 0.1


@dataclass(frozen=True)
class Conclusion:
    """The conclusion of a study.

    Parameters
    ----------
    headline
        The most important finding, one sentence.
    sentences
        The sentences after it.
    is_bad
        Whether the policy is bad in absolute terms, or no better than random play or a constant action.
    """

    headline: str
    sentences: tuple[str, ...] = ()
    is_bad: bool = False

    @property
    def text(self) -> str:
        """Headline and sentences as one text."""
        return " ".join([self.headline, *self.sentences])


def conclude(
    evaluation: Evaluation,
    improvement: Improvement | None = None,
    references: References | None = None,
    weaknesses: Sequence[WeaknessGroup] | None = None,
    solved: float | None = None,
    deployment: Deployment | None = None,
    endings: Sequence[EndingShare] = (),
    remarks: Sequence[str] = (),
    hidden: str = "",
) -> Conclusion:
    """Summarise a study in a few sentences.

    Parameters
    ----------
    evaluation
        The verdicts on rule sets.
    improvement
        The composition, if it is known.
    references
        Results of the baselines (random play, constant actions, other policies), if they are known.
    weaknesses
        Groups of verdicts that are one weakness; by default those with the same rules.
    solved
        The mean return from which the environment counts as solved, if it defines one.
    deployment
        Figures of the composition, by default those of `improvement`.
    endings
        How unguided and guided episodes end.
    remarks
        Further facts that stand right after the headline.
    hidden
        A sentence about failures that only the time limit hides: the headline of a policy without other findings.
    """
    if improvement is not None and deployment is None:
        deployment = summarise_deployment(improvement)
    groups = group_weaknesses(evaluation) if weaknesses is None else weaknesses
    has_gain = improvement is not None and is_repair(improvement, references)
    way = _other_way(improvement, references, solved)  # of playing: sampled instead of greedy, for instance
    problems = _baseline_problems(improvement, references)
    far_from_solved = [] if improvement is None else _far_from_solved(improvement, references, solved)
    never = _never_succeeds(evaluation, improvement, endings, has_gain=has_gain)
    # What makes the policy bad comes first. A baseline that beats it says more than that it never succeeds.
    sentences = [*never, *far_from_solved, *problems]
    baselines = [] if references is None else [one for one in references.quoted if one.reference.kind != "way"]
    if any(baseline.beats_policy for baseline in baselines):
        sentences = [*far_from_solved, *problems, *never]
    is_outdone = bool(never or problems)
    if improvement is not None and not (sentences or has_gain):
        sentences += _unsolved(improvement, solved)
    is_bad = bool(sentences)
    if is_bad and improvement is not None:
        truncated = float(improvement.final_blocks.base.truncated.mean())
        if truncated >= MIN_TRUNCATED_SHARE:
            length = f"mean length {number(round(improvement.base.length))} steps"
            sentences.append(f"The step limit ends {percent(truncated)} of its episodes ({length}).")
    # Then the gain and its costs, or what was found instead.
    n_costs = 0  # sentences right after the headline that say what the gain costs
    if improvement is not None and deployment is not None and has_gain and not is_bad:
        gain = _gain_sentences(improvement, deployment)
        n_costs = len(gain) - 1
        sentences += [*gain, _outcome_sentence(deployment), _count_sentence(evaluation, groups)]
    else:
        sentences += [hidden] if hidden and not is_bad else []
        findings = _findings_sentence(
            evaluation, groups, improvement, references, endings, is_bad=is_bad, solved=solved
        )
        sentences.append(findings)
        is_composed = improvement is not None and len(improvement.composition)
        if improvement is not None and deployment is not None and (is_composed or not _is_untouched(evaluation)):
            sentences += _improvement_sentences(improvement, references, deployment)
    is_compared = is_outdone or any("the best simple baseline" in sentence for sentence in sentences)
    if improvement is not None and references is not None and not is_compared:
        sentences += _baseline_comparison(improvement, references, says_score=not has_gain or is_bad)
    sentences += _caveats(evaluation, improvement)
    remarks = [remark for remark in remarks if remark not in sentences]
    # A repair beats the other way of playing, too; what gets worse belongs to its sentence.
    if has_gain:
        remarks = [*way, *remarks]
    else:
        sentences = [*way, *sentences]
    first, *others = sentences
    how_it_ends = describe_endings(endings)
    if how_it_ends and not first.startswith(capitalise(how_it_ends)):
        remarks = [f"{capitalise(how_it_ends)}.", *remarks]
    return Conclusion(first, (*others[:n_costs], *remarks, *others[n_costs:]), is_bad)


def is_repair(improvement: Improvement, references: References | None = None) -> bool:
    """Return whether guidance gains more than the smallest effect of interest, and beats the best baseline."""
    if not len(improvement.composition) or improvement.effect.low <= improvement.evaluation_settings.smallest_effect:
        return False
    best = references.best if references is not None else None
    return best is None or best.over_guided.high < 0.0


def imitated_reference(improvement: Improvement, references: References | None = None) -> QuotedReference | None:
    """Return the best baseline if guidance is no better and takes its constant action in nearly all steps."""
    best = references.best if references is not None else None
    if best is None or not len(improvement.composition) or is_repair(improvement, references):
        return None
    return best if _share_taken(improvement, best) >= improvement.evaluation_settings.imitation else None


def _words_of(improvement: Improvement) -> ObjectiveWords:
    return ObjectiveWords(improvement.evaluation_settings.objective)


def _share_taken(improvement: Improvement, reference: QuotedReference) -> float:
    """Return the share of guided steps with the choices of a constant baseline; 0 for other baselines."""
    shares, choices = improvement.choice_shares, reference.reference.choices
    return min((float(shares[choice]) for choice in choices), default=0.0) if shares.size else 0.0


def _never_succeeds(
    evaluation: Evaluation, improvement: Improvement | None, endings: Sequence[EndingShare], *, has_gain: bool
) -> list[str]:
    """Say that no unguided episode succeeds, and how many guided ones do; nothing where that is unknown."""
    unguided = evaluation.base if improvement is None else improvement.base
    successes = [share for share in endings if share.kind == "success"]
    if unguided.success != 0.0 and (not successes or any(share.base.value > 0.0 for share in successes)):
        return []
    never = f"The policy never succeeds (0 of {unguided.episodes} episodes"
    if improvement is None or not len(improvement.composition):
        return [f"{never})."]
    rules = f"{in_words(len(improvement.composition))} {'rule' if len(improvement.composition) == 1 else 'rules'}"
    best = max((share for share in successes if share.guided), key=lambda share: share.largest, default=None)
    if best is not None and has_gain:
        return [f"{never}); guided by {rules}, {best.words} in {percent(best.largest)} of them."]
    if improvement.guided.success > 0.0 and has_gain:
        return [f"{never}); guided by {rules}, it succeeds in {percent(improvement.guided.success)} of them."]
    return [f"{never}{', guided or not' if improvement.guided.success == 0.0 else ''})."]


def _unsolved(improvement: Improvement, solved: float | None) -> list[str]:
    """Say that the unguided policy does not solve the environment; nothing where it may, or no threshold is known."""
    mean = figure_of(find_objective("mean"), improvement.final_blocks.base.played)
    if solved is None or mean.high >= solved:
        return []
    scores = f"its mean return is {number(improvement.base.mean)}, solved is {number(solved)}"
    return [f"The policy does not solve the environment: {scores}."]


def _far_from_solved(improvement: Improvement, references: References | None, solved: float | None) -> list[str]:
    """Say that the environment is not solved, where neither guidance nor a baseline closes much of the gap."""
    if solved is None or improvement.evaluation_settings.objective != "mean":
        return []
    best = None if references is None else references.best
    scores = [improvement.guided.mean if len(improvement.composition) else improvement.base.mean]
    scores += [] if best is None else [best.sample.mean]
    closed = max(scores) - improvement.base.mean
    is_closer = closed >= MIN_CLOSED_SHARE * (solved - improvement.base.mean)
    # Without any gain, the usual order holds: a baseline that beats the policy, then an unsolved environment.
    return [] if is_closer or closed <= 0.0 else _unsolved(improvement, solved)


def _caveats(evaluation: Evaluation, improvement: Improvement | None) -> list[str]:
    """Say how many rule sets gain unless rare losses cancel that, and how many episodes failed."""
    sentences = []
    unless = evaluation.unless_rare_losses
    if unless:
        needed = max(v.confirmation.rare_losses.episodes_needed for v in unless)  # type: ignore[union-attr]
        gain, are, for_each = ("gains", "is", "") if len(unless) == 1 else ("gain", "are", " for each")
        sentences.append(
            f"{counted(len(unless), 'rule set')} {gain} on average but {are} not confirmed: a rare loss as large as "
            f"the largest seen ({number(evaluation.worst_loss)}) could cancel this gain. To rule such losses out, pass "
            f"--until-excluded: it plays on until they are excluded, for at most {number(needed)} episodes in which "
            f"the rules change an action{for_each}."
        )
    failed = [evaluation.failed] + ([] if improvement is None else [improvement.final_blocks.failed])
    guided_failed, unguided_failed = (sum(counts) for counts in zip(*failed, strict=True))
    if guided_failed or unguided_failed:
        sentences.append(
            f"{guided_failed} guided and {unguided_failed} unguided episodes failed; effects assume the worst for them."
        )
    return sentences


# --- Comparison with baselines ---------------------------------------------------------------------------------------


HOW_TO_PLAY = {
    "sampled": ("Sampled actions", "add --stochastic"),
    "greedy": ("Greedy actions", "leave out --stochastic and play.epsilon"),
    "exploring": ("A few random actions (5 %)", "add --set play.epsilon=0.05"),
}


def suits_better(improvement: Improvement | None, references: References | None) -> QuotedReference | None:
    """Return the policy played the other way (sampled instead of greedy, for instance), if that is clearly better."""
    way = references.other_way if references is not None else None
    if improvement is None or way is None or not way.beats_policy:
        return None
    return way if way.over_policy.mean > improvement.evaluation_settings.smallest_effect else None


def _other_way(improvement: Improvement | None, references: References | None, solved: float | None) -> list[str]:
    """Say that the same policy is clearly better when it is played the other way, how to do that, and if it is bad."""
    way = suits_better(improvement, references)
    if improvement is None or references is None or way is None:
        return []
    words, (what, option) = _words_of(improvement), HOW_TO_PLAY[way.reference.way]
    own_figure, other_figure = words.of(improvement.final_blocks.base), words.of(way.result)
    gain = f"{other_figure} instead of {own_figure} ({words.interval(way.over_policy)})"
    best, but = references.best_plain, ""
    if best is not None and best.over_policy.mean > way.over_policy.mean:
        but = f", but {best.words} is better still ({words.of(best.result)})"
    elif solved is not None and words.objective.name == "mean" and way.sample.mean < solved:
        but = f", but solved is {number(solved)}"
    return [f"{what} suit this policy better: it {words.has} {gain}{but}. To study it like that, {option}."]


def _baseline_problems(improvement: Improvement | None, references: References | None) -> list[str]:
    """Name the baseline that beats the policy, or else the guided one; or else a simple one that it may not beat."""
    if improvement is None or references is None:
        return []
    words, blocks = _words_of(improvement), improvement.final_blocks
    # The policy itself, played the other way (sampled instead of greedy, for instance), has its own sentence.
    baselines = [reference for reference in references.quoted if reference.reference.kind != "way"]
    best = baselines[0] if baselines else None  # `quoted` has the best first
    unguided_figure, guided_figure = words.of(blocks.base), words.of(blocks.results[-1])
    guided = f"; guided, it {words.has_again} {guided_figure}" if is_repair(improvement, references) else ""
    better = next((reference for reference in baselines if reference.beats_policy), None)
    if better is not None:
        text = (
            f"The policy {words.has} {unguided_figure}, worse than {better.words} ({words.of(better.result)}){guided}"
        )
        if not guided and len(improvement.composition):
            imitates = imitated_reference(improvement, references) is not None
            text += ", and the rules found only imitate that" if imitates else ", and guidance does not repair it"
        return [f"{text}."]
    if len(improvement.composition) and best is not None and best.over_guided.low > 0.0:
        worse = f"the policy {words.has} {guided_figure}, worse than {best.words} ({words.of(best.result)})"
        return [f"Guided, {worse}; unguided, it {words.has_again} {unguided_figure}."]
    simple = [reference for reference in (references.random_play, references.best_plain) if reference is not None]
    no_worse = [reference for reference in simple if reference.over_policy.mean >= 0.0]
    uncertain = [reference for reference in simple if reference.over_policy.high >= 0.0]
    if not (no_worse or uncertain):
        return []
    reference = (no_worse or uncertain)[0]
    name, baseline_figure, lead = reference.words, words.of(reference.result), reference.over_policy
    if unguided_figure == baseline_figure:
        text = f"The policy is no better than {name}: {words.both_have} {unguided_figure}"
    elif lead.mean >= 0.0:
        text = f"The policy {words.has} {unguided_figure}, no better than {name} ({baseline_figure})"
    else:
        scores = f"it {words.has} {unguided_figure}, {name} {baseline_figure} ({words.lead(lead)})"
        text = f"The policy may be no better than {name}: {scores}"
    return [f"{text}{guided}."]


def _baseline_comparison(improvement: Improvement, references: References, *, says_score: bool) -> list[str]:
    """Compare a policy that beats all simple baselines with the best of them."""
    best = references.best_plain
    if best is None:
        return []
    words, success = _words_of(improvement), improvement.base.success
    score = ""
    if says_score:
        is_known = words.objective.name != "success" and np.isfinite(success)
        score = f"succeeds in {percent(success)} of the episodes, " if is_known else ""
        score += f"{words.has} {words.of(improvement.final_blocks.base)} and "
    simple = f"random play and all constant actions (the best, {best.words}: {words.of(best.result)})"
    return [f"Unguided, the policy {score}beats {simple}."]


# --- Findings and gains ----------------------------------------------------------------------------------------------


def _rules_change(improvement: Improvement, verb: str) -> str:
    """Say how the rules of the composition change the objective: "four rules raise the mean return from 5 to 9 (…)"."""
    words, blocks, count = _words_of(improvement), improvement.final_blocks, len(improvement.composition)
    subject = f"{in_words(count)} {'rule' if count == 1 else 'rules'} {verb}{'s' if count == 1 else ''}"
    change = f"from {words.of(blocks.base)} to {words.of(blocks.results[-1])} ({words.interval(improvement.effect)})"
    return capitalise(f"{subject} the {words.words} {change}")


def _gain_sentences(improvement: Improvement, deployment: Deployment) -> list[str]:
    """Say what guidance gains, the override rate, and which figures get worse."""
    words = _words_of(improvement)
    verb = "overrides" if len(improvement.composition) == 1 else "override"
    gain = f"{_rules_change(improvement, words.better)} and {verb} {percent(deployment.overridden)} of the actions"
    sentences = [f"{gain}{', but ' if deployment.worse else '; '}{deployment.cost_clause()}."]
    if len(deployment.worse) > 1:
        sentences.append(f"Also worse: {join_words([change.clause() for change in deployment.worse[1:]])}.")
    return sentences


def _outcome_sentence(deployment: Deployment) -> str:
    """Say how often the guided policy succeeds, and how often it scores lower."""
    lost = f"{percent(deployment.seeds_lost)} of the episodes score lower than without the rules"
    success = next((change for change in deployment.figures if change.name == "success"), None)
    if success is None or success.guided is None or success.direction == "worse":
        return f"{lost}."
    if deployment.objective == "success" or success.direction != "better":
        return f"Guided, it succeeds in {percent(success.guided.value)} of the episodes; {lost}."
    return f"{capitalise(success.clause())}; {lost}."


def _count_sentence(evaluation: Evaluation, groups: Sequence[WeaknessGroup]) -> str:
    """Say how many weaknesses are confirmed, by how many rule sets."""
    tested, confirmed = len(evaluation.verdicts), len(evaluation.confirmed)
    if not confirmed:
        alone = "The only rule set tested is not" if tested == 1 else f"None of the {tested} rule sets tested is"
        return f"{alone} confirmed alone on held-out seeds."
    weaknesses = sum(group.is_confirmed for group in groups)
    merged = "" if weaknesses == confirmed else ", overlapping ones merged"
    count = counted(weaknesses, "distinct weakness", "distinct weaknesses")
    return f"{count} ({confirmed} of {counted(tested, 'rule set')} confirmed on held-out seeds{merged})."


def describe_suspected(evaluation: Evaluation) -> Iterator[str]:
    """Yield a sentence about the rule sets that looked promising in the race, if held-out seeds confirm none."""
    if evaluation.weaknesses and not evaluation.confirmed:
        yield f"{capitalise(_suspected(evaluation))}."


def _suspected(evaluation: Evaluation) -> str:
    """Return how many rule sets looked promising, and why none is confirmed."""
    suspected, the_sets = evaluation.weaknesses, _tested_sets(evaluation)
    confirmations = [v.confirmation for v in suspected if v.confirmation is not None]
    doubt = "none held up on held-out seeds" if len(suspected) > 1 else "did not hold up on held-out seeds"
    if evaluation.confirmation_blocks is None:
        doubt = "held-out seeds have not been played"
    elif confirmations and all(confirmation.is_too_rare for confirmation in confirmations):
        doubt = "too few episodes change on held-out seeds to decide"
    elif evaluation.unless_rare_losses:
        doubt = "rare losses could cancel what they gain"
    promising = f"{len(suspected)} of {the_sets}" if len(evaluation.verdicts) > 1 else the_sets
    return f"{promising} looked promising, but {doubt}"


def _tested_sets(evaluation: Evaluation) -> str:
    tested = len(evaluation.verdicts)
    return f"the {tested} rule sets tested" if tested > 1 else "the only rule set tested"


def _findings_sentence(
    evaluation: Evaluation,
    groups: Sequence[WeaknessGroup],
    improvement: Improvement | None,
    references: References | None,
    endings: Sequence[EndingShare],
    *,
    is_bad: bool,
    solved: float | None = None,
) -> str:
    """Return the findings in a sentence; "no weakness" is left out for a policy that is bad anyway, or often fails."""
    tested, suspected = len(evaluation.verdicts), evaluation.weaknesses
    if not tested:
        return "No rules were mined, so nothing could be tested."
    if evaluation.confirmed:
        return _count_sentence(evaluation, groups)
    the_sets = _tested_sets(evaluation)
    if suspected:
        lead, found = "no weakness is confirmed", _suspected(evaluation)
    else:
        lead = "no weakness was found"
        words = ObjectiveWords(evaluation.settings.objective)
        none = f"none of {the_sets} {words.better}s" if tested > 1 else f"{the_sets} does not {words.better}"
        smallest = evaluation.settings.smallest_effect
        by = f"by more than {words.size(smallest)}, the smallest effect of interest" if smallest else "significantly"
        found = f"{none} the {words.words} {by}"
        if _is_untouched(evaluation):
            found = f"{the_sets} {'change' if tested > 1 else 'changes'} no episode return"
    if is_bad:
        return f"{capitalise(found)}."
    if max((share.base.low for share in endings if share.kind == "failure"), default=0.0) >= MIN_FAILING_SHARE:
        return f"{capitalise(describe_endings(endings))}, and no rule was found that helps: {found}."
    return f"{capitalise(_with_absolute_score(lead, improvement, references, solved))}: {found}."


def _is_untouched(evaluation: Evaluation) -> bool:
    """Return whether no rule set made any difference to the objective."""
    return bool(evaluation.verdicts) and all(verdict.difference == 0.0 for verdict in evaluation.verdicts)


def _with_absolute_score(
    finding: str, improvement: Improvement | None, references: References | None, solved: float | None
) -> str:
    """Put the score of the policy before a finding: whether it solves the environment, or else the best baseline.

    A policy with the same return in every episode often has the best possible one.
    """
    if improvement is None:
        return finding
    mean, played = number(improvement.base.mean), improvement.final_blocks.base.played
    is_solved = solved is not None and figure_of(find_objective("mean"), played).low >= solved
    if np.ptp(played.returns) == 0.0:
        threshold = f" (solved is {number(solved)})" if is_solved else ""
        return f"the policy scores {mean} in every episode{threshold}, and {finding}"
    if is_solved:
        return f"the policy solves the environment (mean return {mean}, solved is {number(solved)}), and {finding}"
    best = references.best_plain if references is not None else None
    if best is None:
        return finding
    words = _words_of(improvement)
    score, baseline_score = words.of(improvement.final_blocks.base), words.of(best.result)
    return f"the policy {words.has} {score} (the best simple baseline, {best.words}: {baseline_score}), and {finding}"


def _improvement_sentences(
    improvement: Improvement, references: References | None, deployment: Deployment
) -> list[str]:
    """Say what the composition gains, or why there is none."""
    words, effect, check = _words_of(improvement), improvement.effect, improvement.check
    if not len(improvement.composition):
        # The composition is empty if none was found (`check` is None) or the one found failed its test (`check`).
        if check is None or not check.is_too_rare:
            return ["No combination of rules is significantly better than the unguided policy."]
        rules = capitalise(f"{in_words(len(check.composition))} {'rule' if len(check.composition) == 1 else 'rules'}")
        few = f"only {check.effect.changed} of {check.effect.seeds} episodes change, too few to exclude rare losses"
        return [f"{rules} may help ({words.interval(check.effect)}), but {few}. No guided policy is proposed."]
    if effect.high < 0.0:
        return [f"{_rules_change(improvement, words.worse)} on held-out seeds: do not use them."]
    smallest = improvement.evaluation_settings.smallest_effect
    if effect.low <= 0.0:
        sentences = [f"{_rules_change(improvement, 'change')}, which may be chance."]
    elif effect.low <= smallest:
        doubt = "is" if effect.high <= smallest else "may be"
        less = f"which {doubt} less than {words.size(smallest)}, the smallest effect of interest"
        sentences = [f"{_rules_change(improvement, words.better)}, {less}."]
    else:
        sentences = _gain_sentences(improvement, deployment)
    # Compare with the best reference; `over_guided` is its score minus that of the guided policy.
    best = references.best if references is not None else None
    if best is None or best.over_guided.high < 0.0:
        return sentences
    over, score = best.over_guided, words.of(best.result)
    if imitated_reference(improvement, references) is not None:
        share = percent(_share_taken(improvement, best))
        no_better = f"This only imitates {best.words} ({score}), with the same choice in {share} of the steps"
    else:
        doubt = "" if over.mean >= 0.0 else f"; the difference, {words.lead(over)}, may be chance"
        no_better = f"That is no better than {best.words} ({score}{doubt})"
    return [*sentences, f"{no_better}, so there is nothing to deploy."]
