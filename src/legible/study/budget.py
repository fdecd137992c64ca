"""Budgets that fit the speed of an environment: a coarse ladder for presets, or a number of minutes.

Budgets are counted in episodes and steps, so that the same budgets give the same results. They are chosen from the
measured speed before a study begins (and, for minutes, again after mining and before the composition), and the folder
keeps them: a study that is continued has the budgets that it began with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scipy.optimize import brentq

from legible.hypotheses import SEARCHED, source_names
from legible.settings import FEWEST_CHANGES, FEWEST_RUNG_CHANGES, StudySettings
from legible.settings.sections import MOST_DECISIONS
from legible.study.estimate import RULES_PER_ACTION, Rate, estimate, search_budget

if TYPE_CHECKING:
    from legible.study.study import Study

LADDER_FACTOR, LADDER_RUNGS = 4.0, 4
TOLERATED = 2.0
"""A preset keeps its budgets while its estimate is at most this many times the time that it should take."""
SMALLEST, LARGEST = 1e-3, 50.0
SHORT_BELOW, MOST_RACED, FEWEST_RACED = 0.1, 60, 4
"""Below a tenth of the budgets, only the mined rule sets that change most actions are raced: from 60 down to 4."""
NO_SEARCH_BELOW = 0.02
"""Below this share of the budgets nothing is searched, and mined rules are not tried alone: too few episodes."""
LEAST_CONFIRMING = 300
"""Fewer seeds confirm nothing: 1.25 times the smallest number of changed episodes has to be expected."""
MISTAKES_SHARE, FINAL_SHARE = 0.05, 0.35
"""Shares of the time before the composition that single decisions and the final figures get."""
CONTINUATION_SHARE = 0.6
"""Share of the time of a continuation that goes into testing."""


def scaled(settings: StudySettings, factor: float, search_steps: int) -> StudySettings:
    """Return settings with all numbers of episodes and steps multiplied by a factor, within limits.

    Below a factor of `SHORT_BELOW` fewer rule sets are raced, and below `NO_SEARCH_BELOW` nothing is searched.
    `search_steps` are the environment steps of the search for rules at factor 1; the setting may leave them open.
    """

    def at_least(least: int, value: int) -> int:
        """Return the scaled value, but at least `least` (what the tests need), or `value` where that is smaller."""
        return max(min(least, value), round(factor * value))

    evaluation, improvement = settings.evaluation, settings.improvement
    # Very small budgets: race only the most promising mined rule sets, and leave out the sources of rule sets that need
    # many episodes. "alone" tests mined rules without their related forms.
    is_short = factor < SHORT_BELOW
    most_raced = max(FEWEST_RACED, round(factor / SHORT_BELOW * MOST_RACED)) if is_short else evaluation.most_raced
    left_out = {SEARCHED, "alone"} if factor < NO_SEARCH_BELOW else set()
    sources = [name for name in source_names(settings.sources) if name not in left_out]
    # The confirmation never asks for more changed episodes than the settings: the test is as strict at any speed.
    confirmation_changes = max(FEWEST_CHANGES, round(min(1.0, factor) * evaluation.confirmation_changes))
    return replace(
        settings,
        sources=",".join(sources),
        episodes=at_least(20, settings.episodes),
        evaluation=replace(
            evaluation,
            race_seeds=at_least(64, evaluation.race_seeds),
            rung_changes=at_least(FEWEST_RUNG_CHANGES, evaluation.rung_changes),
            most_raced=most_raced,
            confirmation_changes=confirmation_changes,
            confirmation_seeds=at_least(LEAST_CONFIRMING, evaluation.confirmation_seeds),
            most_confirmed=at_least(2, evaluation.most_confirmed),
            episodes=at_least(25, evaluation.episodes),
            confirmation_episodes=at_least(50, evaluation.confirmation_episodes),
        ),
        search=replace(settings.search, budget=max(1, round(factor * search_steps))),
        improvement=replace(
            improvement,
            episodes=at_least(40, improvement.episodes),
            final_episodes=at_least(50, improvement.final_episodes),
            most_candidates=at_least(3, improvement.most_candidates),
            beginnings=at_least(1, improvement.beginnings),
            front_points=at_least(1, improvement.front_points),
        ),
        references=replace(
            settings.references,
            episodes=at_least(10, settings.references.episodes),
            most_constants=at_least(2, settings.references.most_constants),
        ),
        mistakes=replace(
            settings.mistakes,
            steps=round(max(1.0, factor * settings.mistakes.steps)),
            episodes=at_least(20, settings.mistakes.episodes),
            decisions=min(MOST_DECISIONS, at_least(20, settings.mistakes.decisions)),
        ),
    )


def fit_to_ladder(study: Study, rate: Rate, target_seconds: float) -> int:
    """Lower the budgets of a study by factors of four until it takes about the target; return how many times."""
    search_steps = _search_steps(study, rate, None)
    for rung in range(LADDER_RUNGS):
        settings = scaled(study.settings, LADDER_FACTOR**-rung, search_steps) if rung else study.settings
        if estimate(study.setup(), settings, study.engine, rate=rate).seconds <= TOLERATED * target_seconds:
            break
    if rung:
        study.change_budgets(settings)
    return rung


def fit_to_minutes(study: Study, rate: Rate, seconds: float, rule_sets: int | None = None) -> float:
    """Give the remaining steps of a study the budgets for which the time suffices; return their factor.

    The factor multiplies all numbers of episodes and steps of the study's settings. `rate` is its measured speed,
    `seconds` is the time that is left, and `rule_sets` the number of rule sets to test, once it is known.
    """
    nominal, setup = study.nominal_settings, study.setup()
    search_steps = _search_steps(study, rate, rule_sets)

    def excess_seconds(factor: float) -> float:
        """Return how much longer the steps would take than there is time, if budgets had this factor."""
        settings = scaled(nominal, factor, search_steps)
        # The estimate counts episodes; the search for single mistakes has a budget in environment steps instead.
        environment_steps = settings.mistakes.steps if study.looks_for_mistakes() else 0
        mistake_seconds = environment_steps / (rate.steps * (study.engine.workers or 1))
        return estimate(setup, settings, study.engine, rule_sets, rate=rate).seconds + mistake_seconds - seconds

    # The excess grows with the factor, so the right factor is its root, unless even the limits are too long or short.
    factor = SMALLEST
    if excess_seconds(SMALLEST) < 0.0:
        is_ample = excess_seconds(LARGEST) < 0.0
        factor = LARGEST if is_ample else float(brentq(excess_seconds, SMALLEST, LARGEST, rtol=0.01))
    study.change_budgets(scaled(nominal, factor, search_steps))
    return factor


def fit_composition(study: Study, rate: Rate, seconds: float) -> None:
    """Choose the budgets of composition, final figures and single decisions for the seconds that are left."""
    settings, workers = study.settings, study.engine.workers or 1
    candidates = min(settings.improvement.most_candidates, max(1, len(study.evaluation.weaknesses)))
    episodes = max(1.0, seconds) * rate.episodes * workers
    quoted = 2 + 2 + settings.references.quoted  # the policy and the guided one; random play, the other way, constants
    final = max(50, round(FINAL_SHARE * episodes / quoted))
    # Each seed is played unguided and, for half of the candidates on average, guided; then again for the check.
    composing = max(40, round((1.0 - FINAL_SHARE - MISTAKES_SHARE) * episodes / (4.0 + candidates)))
    study.change_budgets(
        replace(
            settings,
            improvement=replace(settings.improvement, episodes=composing, final_episodes=final),
            mistakes=replace(settings.mistakes, steps=max(1, round(MISTAKES_SHARE * seconds * rate.steps * workers))),
        )
    )


def fit_continuation(study: Study, rate: Rate, seconds: float) -> int:
    """Return the episodes of a continuation for the seconds that are left; the rest is for a new composition."""
    return max(1, round(CONTINUATION_SHARE * seconds * rate.episodes * (study.engine.workers or 1)))


def _search_steps(study: Study, rate: Rate, rule_sets: int | None) -> int:
    known = rule_sets if rule_sets is not None else RULES_PER_ACTION * study.player().n_actions
    return search_budget(study.nominal_settings, study.environment, known, rate.length)
